-- Whole chunks may be packed with LZ4 (codec 4). The tables stay as they are; code that does not know the codec would
-- take such a chunk for damage, and is refused.

CREATE OR REPLACE FUNCTION enter(version integer, OUT now bigint, OUT watched boolean) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(l.class, l.object) FROM writers_lock() AS l;
    IF version <> 3 THEN
        RAISE EXCEPTION 'the store has been upgraded' USING ERRCODE = 'HF426';
    END IF;
    SELECT e.value, w.value > extract(epoch FROM clock_timestamp()) INTO STRICT now, watched
        FROM counters AS e CROSS JOIN counters AS w WHERE e.name = 'epoch' AND w.name = 'watched_until';
END
$$;
