-- The tables of a holdfast store in PostgreSQL, version 1, made in a schema of their own (the first of search_path).
-- Columns mean what they mean in SQLite (docs/spec/sqlite.md); docs/spec/postgres.md has the differences.
-- `seal` is a checksum over the other columns of its row (holdfast.storage.records.seal).
-- Text is compared byte by byte (COLLATE "C"), so that names have the same order on every server.

CREATE TABLE header (
    key text COLLATE "C" NOT NULL PRIMARY KEY,
    value text COLLATE "C" NOT NULL,
    seal bigint NOT NULL
);

CREATE SEQUENCE session_numbers;

-- Half of each page stays free: a save changes its session and its branch in place, without touching an index.
CREATE TABLE sessions (
    number bigint NOT NULL PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    agent text COLLATE "C",
    project text COLLATE "C",
    created_at bigint NOT NULL,
    last_seq bigint NOT NULL,
    log_count bigint NOT NULL,
    log_tip bytea NOT NULL,
    current text COLLATE "C" NOT NULL,
    seal bigint NOT NULL
) WITH (fillfactor = 50);

CREATE INDEX sessions_by_agent ON sessions (agent) WHERE agent IS NOT NULL;
CREATE INDEX sessions_by_project ON sessions (project) WHERE project IS NOT NULL;

CREATE TABLE branches (
    session bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    head bytea NOT NULL,
    moved_at bigint NOT NULL,
    seal bigint NOT NULL,
    PRIMARY KEY (session, name)
) WITH (fillfactor = 50);

-- No foreign keys: checking them costs each save, and rows are written by this package alone.

-- Taken by a commit after it has the lock of writers, and never given twice.
CREATE SEQUENCE positions;

CREATE TABLE checkpoints (
    position bigint NOT NULL PRIMARY KEY,
    session bigint NOT NULL,
    seq bigint NOT NULL,
    id bytea NOT NULL UNIQUE,
    branch text COLLATE "C" NOT NULL,
    parents bytea NOT NULL,
    root bytea NOT NULL,
    created_at bigint NOT NULL,
    trigger text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    step bigint,
    message text COLLATE "C" NOT NULL,
    metadata text COLLATE "C" NOT NULL,
    tokens bigint,
    cost_usd double precision,
    duration_ms double precision,
    app_version text COLLATE "C",
    nonce bytea NOT NULL,
    key text COLLATE "C",
    size_bytes bigint NOT NULL,
    stored_at bigint NOT NULL,
    stored_bytes bigint NOT NULL,
    prev bytea,
    skipped bigint NOT NULL,
    hidden bigint NOT NULL,
    tags text COLLATE "C" NOT NULL,
    pinned bigint NOT NULL,
    edited_message text COLLATE "C",
    added_metadata text COLLATE "C",
    seal bigint NOT NULL,
    UNIQUE (session, seq)
);

CREATE UNIQUE INDEX checkpoints_by_key ON checkpoints (session, key) WHERE key IS NOT NULL;
CREATE INDEX checkpoints_by_step ON checkpoints (session, step, seq) WHERE step IS NOT NULL;
CREATE INDEX checkpoints_by_time ON checkpoints (session, created_at);
CREATE INDEX checkpoints_by_prev ON checkpoints (session, prev);
CREATE INDEX checkpoints_hidden ON checkpoints (hidden) WHERE hidden <> 0;

-- Derived from checkpoints.tags, to find them by label.
CREATE TABLE tags (
    tag text COLLATE "C" NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (tag, position)
);

CREATE INDEX tags_by_position ON tags (position);

CREATE TABLE operations (
    session bigint NOT NULL,
    number bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    at bigint NOT NULL,
    data text COLLATE "C" NOT NULL,
    previous bytea NOT NULL,
    hash bytea NOT NULL,
    seal bigint NOT NULL,
    PRIMARY KEY (session, number)
);

-- Who writes under a name, for as long as they do. Of the moment, and no part of history: without a seal.
-- Unique with its epoch, so that a claim changes a key: it waits for commits that stand on the row (FOR KEY SHARE), and
-- a renewal, which changes no key, does not.
CREATE TABLE leases (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    holder text COLLATE "C" NOT NULL,
    host text COLLATE "C" NOT NULL,
    pid bigint NOT NULL,
    started text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    since bigint NOT NULL,
    until bigint NOT NULL,
    length bigint NOT NULL,
    ticks bigint NOT NULL,
    UNIQUE (name, epoch)
) WITH (fillfactor = 50);

-- Never given twice: a lease that is given up leaves no row.
CREATE SEQUENCE lease_epochs;

-- epoch: opened anew by each collection of chunks. collecting: there while one is under way; when it last showed itself.
CREATE TABLE counters (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    value bigint NOT NULL
);

INSERT INTO counters (name, value) VALUES ('epoch', 0);

-- The declarations of tables that other parts keep beside the checkpoints (holdfast.storage.tables).
CREATE TABLE extension_tables (
    name text COLLATE "C" NOT NULL PRIMARY KEY,
    definition text COLLATE "C" NOT NULL
);

CREATE SEQUENCE chunk_numbers;

-- A chunk with a base is the difference to it; depth counts how many stand on each other. epoch is the one in which it
-- was last written, found or built on; refers is 0 where it names no other chunk.
CREATE TABLE chunks (
    number bigint NOT NULL DEFAULT nextval('chunk_numbers') PRIMARY KEY,
    hash bytea NOT NULL UNIQUE,
    codec smallint NOT NULL,
    size_bytes bigint NOT NULL,
    base bigint,
    depth smallint NOT NULL,
    epoch bigint NOT NULL,
    refers smallint NOT NULL,
    data bytea NOT NULL
);

-- It is compressed already.
ALTER TABLE chunks ALTER COLUMN data SET STORAGE EXTERNAL;

-- The server's statistics hold values of columns: what was forgotten must not stay there. Only times may, which plans
-- for a time need.
DO $$
DECLARE
    kept record;
BEGIN
    FOR kept IN SELECT a.attrelid::regclass AS relation, a.attname AS name FROM pg_attribute AS a
        JOIN pg_class AS c ON c.oid = a.attrelid WHERE c.relnamespace = current_schema()::regnamespace
        AND c.relkind = 'r' AND a.attnum > 0 AND a.attname <> 'created_at'
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS 0', kept.relation, kept.name);
    END LOOP;
END
$$;

-- The lock that every commit shares, and that is taken alone to be sure that no commit is under way.
-- Not LANGUAGE sql: the text of such a function is read anew in each commit.
CREATE FUNCTION writers_lock(OUT class integer, OUT object integer) LANGUAGE plpgsql STABLE AS $$
BEGIN
    class := 1751934054;
    object := hashtext(current_schema());
END
$$;

-- What every transaction that writes begins with: the lock of writers, then the epoch. A collection that opens one waits
-- for this transaction, or this one sees the new epoch. HF426: the writer is of another version.
CREATE FUNCTION enter(version integer, OUT now bigint) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(l.class, l.object) FROM writers_lock() AS l;
    IF version <> 1 THEN
        RAISE EXCEPTION 'the store has been upgraded' USING ERRCODE = 'HF426';
    END IF;
    SELECT e.value INTO STRICT now FROM counters AS e WHERE e.name = 'epoch';
END
$$;

-- Tell a collection that is under way that these chunks are needed, with all that they stand on. What a chunk stands
-- on never has an older stamp than the chunk itself. From the youngest down, which is the order in which a sweep locks.
CREATE FUNCTION stamp(names bytea[], now bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    below bigint[];
BEGIN
    WITH found AS (
        SELECT c.number FROM chunks AS c WHERE c.hash = ANY (names) AND c.epoch < now
        ORDER BY c.number DESC FOR NO KEY UPDATE
    ), stamped AS (
        UPDATE chunks AS c SET epoch = now FROM found WHERE c.number = found.number RETURNING c.base
    )
    SELECT array_agg(base) INTO below FROM stamped WHERE base IS NOT NULL;
    WHILE below IS NOT NULL LOOP
        WITH found AS (
            SELECT c.number FROM chunks AS c WHERE c.number = ANY (below) AND c.epoch < now
            ORDER BY c.number DESC FOR NO KEY UPDATE
        ), stamped AS (
            UPDATE chunks AS c SET epoch = now FROM found WHERE c.number = found.number RETURNING c.base
        )
        SELECT array_agg(base) INTO below FROM stamped WHERE base IS NOT NULL;
    END LOOP;
END
$$;

-- Write chunks; how many bytes the new ones take. A chunk that is there already keeps its row and gets the stamp of
-- this epoch: DO UPDATE, because it waits for a sweep that is about to remove the row, where DO NOTHING would trust it.
-- bodies: null for a chunk that was there a moment ago, and only has to be there still. marks: where a chunk is the next
-- version in a stream, the SHA-256 of what the stream wrote last. HF412: the chunks of the detail do not fit.
CREATE FUNCTION put_chunks(
    names bytea[], codecs smallint[], sizes bigint[], bases bytea[], marks bytea[], referring smallint[], bodies bytea[],
    now bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    unfit text;
    stored bigint;
BEGIN
    PERFORM stamp(names || bases, now);
    WITH given AS (
        SELECT * FROM unnest(names, codecs, sizes, bases, marks, referring, bodies)
            AS u (name, codec, size, base, mark, refer, body)
    ), placed AS (
        SELECT g.*, b.number AS under, b.depth AS under_depth,
            CASE WHEN g.body IS NULL THEN EXISTS (SELECT 1 FROM chunks AS c WHERE c.hash = g.name)
                ELSE g.base IS NULL OR b.number IS NOT NULL END AS fits
        FROM given AS g LEFT JOIN chunks AS b
            ON b.hash = g.base AND b.depth < 32 AND (g.mark IS NULL OR sha256(b.data) = g.mark)
    ), written AS (
        INSERT INTO chunks AS c (hash, codec, size_bytes, base, depth, epoch, refers, data)
        SELECT name, codec, size, under, coalesce(under_depth + 1, 0), now, refer, body FROM placed
        WHERE fits AND body IS NOT NULL ORDER BY name
        ON CONFLICT (hash) DO UPDATE SET epoch = excluded.epoch
        RETURNING c.xmax = 0 AS is_new, octet_length(c.data) AS size
    )
    SELECT (SELECT string_agg(encode(p.name, 'hex'), ' ') FROM placed AS p WHERE NOT p.fits),
        coalesce(sum(w.size) FILTER (WHERE w.is_new), 0) INTO unfit, stored FROM written AS w;
    IF unfit IS NOT NULL THEN
        RAISE EXCEPTION 'chunks that others were packed to stand on, or that were left out, are not there'
            USING ERRCODE = 'HF412', DETAIL = unfit;
    END IF;
    RETURN stored;
END
$$;

-- The server's clock in microseconds since 1970, at this moment and not at the beginning of the transaction.
CREATE FUNCTION now_us() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
END
$$;

-- Take a lease that nobody has, whose time is over, or whose epoch is the one that the caller knows to be of a dead
-- process; else say who has it. Where the host says that both have the same boot clock (all but its name is equal), time
-- is counted in its ticks, if they can be of that boot; else by the clock of the server, and too far in the future is over
-- too: that clock was set back.
CREATE FUNCTION claim(
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

-- Carry out a batch whose rows were worked out from what the writer knows of the session: all of it if that still
-- holds, or nothing. HF409: it does not hold, and has to be worked out again. HF426: this is another version.
CREATE FUNCTION apply(
    version integer,
    owner bigint,            -- the number of the session
    seen bigint,             -- the seal of its row as the writer knows it; null for a session that is to be made
    session_row json,        -- the row it becomes; null where it stays as it is
    relied_on bytea,         -- a checkpoint that has to be there
    moves json,              -- [{name, expected, head, moved_at, seal}]
    names bytea[], codecs smallint[], sizes bigint[], bases bytea[], marks bytea[], referring smallint[], bodies bytea[],
    made json,               -- checkpoint rows, without positions
    edits json,              -- [{id, was, prev, skipped, hidden, tags, pinned, edited_message, added_metadata, seal}]
    cut_from bigint,         -- operations from this number on go; null cuts nothing
    entries json,            -- operation rows
    removals bytea[],
    fence text,              -- a lease that has to be held with this epoch; null for none
    fence_epoch bigint,
    OUT positions bigint[],
    OUT stored bigint
) LANGUAGE plpgsql AS $$
DECLARE
    now bigint;
    moved bigint;
    wanted bigint;
    target record;
BEGIN
    now := enter(version);

    -- The lock on its session is what commits of one session queue for, and the only one that they need.
    IF seen IS NULL THEN
        INSERT INTO sessions SELECT * FROM json_populate_record(NULL::sessions, session_row)
            ON CONFLICT (id) DO NOTHING;
    ELSIF session_row IS NULL THEN
        PERFORM 1 FROM sessions WHERE number = owner AND seal = seen FOR NO KEY UPDATE;
    ELSE
        SELECT * INTO target FROM json_populate_record(NULL::sessions, session_row);
        UPDATE sessions SET agent = target.agent, project = target.project, last_seq = target.last_seq,
            log_count = target.log_count, log_tip = target.log_tip, current = target.current, seal = target.seal
            WHERE number = owner AND seal = seen;
    END IF;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the session is not as it was' USING ERRCODE = 'HF409';
    END IF;

    IF fence IS NOT NULL THEN
        -- After the lock on the session, which is the order in which a session is erased. It stays until the commit.
        PERFORM 1 FROM leases AS l WHERE l.name = fence AND l.epoch = fence_epoch FOR KEY SHARE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the lease is not held any more' USING ERRCODE = 'HF409';
        END IF;
    END IF;

    IF relied_on IS NOT NULL THEN
        PERFORM 1 FROM checkpoints WHERE id = relied_on FOR KEY SHARE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the checkpoint that was relied on is gone' USING ERRCODE = 'HF409';
        END IF;
    END IF;

    FOR target IN SELECT * FROM json_to_recordset(moves)
        AS m (name text, expected bytea, head bytea, moved_at bigint, seal bigint)
    LOOP
        IF target.expected IS NULL AND target.head IS NULL THEN
            PERFORM 1 WHERE NOT EXISTS (SELECT 1 FROM branches AS b WHERE b.session = owner AND b.name = target.name);
        ELSIF target.expected IS NULL THEN
            INSERT INTO branches VALUES (owner, target.name, target.head, target.moved_at, target.seal)
                ON CONFLICT DO NOTHING;
        ELSIF target.head IS NULL THEN
            DELETE FROM branches AS b
                WHERE b.session = owner AND b.name = target.name AND b.head = target.expected;
        ELSE
            UPDATE branches AS b SET head = target.head, moved_at = target.moved_at, seal = target.seal
                WHERE b.session = owner AND b.name = target.name AND b.head = target.expected;
        END IF;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'a branch is not where it was' USING ERRCODE = 'HF409';
        END IF;
    END LOOP;

    stored := 0;
    IF names IS NOT NULL THEN
        stored := put_chunks(names, codecs, sizes, bases, marks, referring, bodies, now);
    END IF;

    IF made IS NOT NULL THEN
        WITH given AS (
            SELECT * FROM json_populate_recordset(NULL::checkpoints, made) ORDER BY seq
        ), numbered AS (
            SELECT nextval('positions') AS place, g.* FROM given AS g
        ), written AS (
            INSERT INTO checkpoints
            SELECT place, owner, seq, id, branch, parents, root, created_at, trigger, status, step, message, metadata,
                tokens, cost_usd, duration_ms, app_version, nonce, key, size_bytes, stored_at,
                CASE WHEN place = (SELECT min(place) FROM numbered) THEN apply.stored ELSE 0 END,
                prev, skipped, hidden, tags, pinned, edited_message, added_metadata, seal FROM numbered
            RETURNING position, tags
        ), labelled AS (
            INSERT INTO tags SELECT t.tag, w.position
            FROM written AS w CROSS JOIN json_array_elements_text(w.tags::json) AS t (tag) WHERE w.tags <> '[]'
        )
        SELECT array_agg(w.position ORDER BY w.position) INTO apply.positions FROM written AS w;
    END IF;

    IF edits IS NOT NULL THEN
        WITH given AS (
            SELECT * FROM json_to_recordset(edits) AS e (
                id bytea, was bigint, prev bytea, skipped bigint, hidden bigint, tags text, pinned bigint,
                edited_message text, added_metadata text, seal bigint)
        ), changed AS (
            UPDATE checkpoints AS c SET prev = g.prev, skipped = g.skipped, hidden = g.hidden, tags = g.tags,
                pinned = g.pinned, edited_message = g.edited_message, added_metadata = g.added_metadata, seal = g.seal
            FROM given AS g WHERE c.id = g.id AND c.seal = g.was
            RETURNING c.position, c.tags
        ), unlabelled AS (
            DELETE FROM tags AS t USING changed AS c
            WHERE t.position = c.position AND NOT (c.tags::jsonb ? t.tag)
        ), labelled AS (
            INSERT INTO tags SELECT t.tag, c.position
            FROM changed AS c CROSS JOIN json_array_elements_text(c.tags::json) AS t (tag) WHERE c.tags <> '[]'
            ON CONFLICT DO NOTHING
        )
        SELECT (SELECT count(*) FROM given), (SELECT count(*) FROM changed) INTO wanted, moved;
        IF wanted <> moved THEN
            RAISE EXCEPTION 'a checkpoint is not as it was' USING ERRCODE = 'HF409';
        END IF;
    END IF;

    IF cut_from IS NOT NULL THEN
        DELETE FROM operations AS o WHERE o.session = owner AND o.number >= cut_from;
    END IF;
    IF entries IS NOT NULL THEN
        INSERT INTO operations SELECT * FROM json_populate_recordset(NULL::operations, entries);
    END IF;
    IF removals IS NOT NULL THEN
        DELETE FROM tags AS t USING checkpoints AS c WHERE c.id = ANY (removals) AND t.position = c.position;
        DELETE FROM checkpoints AS c WHERE c.id = ANY (removals);
    END IF;
END
$$;
