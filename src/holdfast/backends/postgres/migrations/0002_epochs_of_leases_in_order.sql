-- `claim` drew the epoch of a lease before it had the row: of two claims at once the later holder could have the lower
-- one, and who hands the epoch on as a fencing token counts on it rising.

CREATE OR REPLACE FUNCTION enter(version integer, OUT now bigint, OUT watched boolean) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(l.class, l.object) FROM writers_lock() AS l;
    IF version <> 2 THEN
        RAISE EXCEPTION 'the store has been upgraded' USING ERRCODE = 'HF426';
    END IF;
    SELECT e.value, w.value > extract(epoch FROM clock_timestamp()) INTO STRICT now, watched
        FROM counters AS e CROSS JOIN counters AS w WHERE e.name = 'epoch' AND w.name = 'watched_until';
END
$$;

CREATE OR REPLACE FUNCTION claim(
    version integer, wanted text, claimant text, place text, process bigint, began text, time_us bigint, ticked bigint,
    dead bigint,
    OUT is_taken boolean, OUT now bigint, OUT its_name text, OUT its_holder text, OUT its_host text, OUT its_pid bigint,
    OUT its_started text, OUT its_epoch bigint, OUT its_since bigint, OUT its_until bigint, OUT its_length bigint,
    OUT its_ticks bigint
) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM enter(version);
    -- A claim that a crash of the server took back would be given again, to somebody else, with the same epoch.
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    LOOP
        -- An epoch is drawn, and its time begins, while the row is ours: one drawn before would be older than that of
        -- whoever had the lease while we waited for the row.
        INSERT INTO leases AS l VALUES (wanted, claimant, place, process, began, 0, now_us(), now_us() + time_us,
            time_us, ticked)
            ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, host = excluded.host, pid = excluded.pid,
                started = excluded.started, epoch = nextval('lease_epochs'), since = now_us(),
                until = now_us() + time_us, length = time_us, ticks = ticked
                WHERE l.holder = claimant OR l.epoch = dead OR CASE
                    WHEN place LIKE '%/_%' AND substr(l.host, strpos(l.host, '/')) = substr(place, strpos(place, '/'))
                        AND l.ticks - ticked <= l.length THEN l.ticks + l.length <= ticked
                    ELSE l.until <= now_us() OR l.until - now_us() > 2 * l.length END
            RETURNING l.* INTO its_name, its_holder, its_host, its_pid, its_started, its_epoch, its_since, its_until,
                its_length, its_ticks;
        is_taken := FOUND;
        IF its_epoch = 0 THEN
            UPDATE leases AS l SET epoch = nextval('lease_epochs'), since = now_us(), until = now_us() + time_us
                WHERE l.name = wanted RETURNING l.epoch, l.since, l.until INTO its_epoch, its_since, its_until;
        END IF;
        now := now_us();
        EXIT WHEN is_taken;
        SELECT l.* INTO its_name, its_holder, its_host, its_pid, its_started, its_epoch, its_since, its_until,
            its_length, its_ticks FROM leases AS l WHERE l.name = wanted;
        -- Where it was given up in between, nobody has it.
        EXIT WHEN FOUND;
    END LOOP;
END
$$;
