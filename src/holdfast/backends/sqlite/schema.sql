-- The tables of a holdfast store, format 0. docs/spec/sqlite.md says what each column means.
-- `seal` is a checksum over the other columns of its row (holdfast.storage.records.seal).

-- Small tables have rowids: then all rows that matter lie on pages of one kind, where they are found one by one when
-- SQLite cannot read the file any more.
CREATE TABLE header (
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    seal INTEGER NOT NULL
) STRICT;

CREATE TABLE sessions (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    agent TEXT,
    project TEXT,
    created_at INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    log_count INTEGER NOT NULL,
    log_tip BLOB NOT NULL,
    current TEXT NOT NULL,
    seal INTEGER NOT NULL,
    -- How the last copy from another store left the session: a number that only its row as it was then gives. Not sealed.
    adopted INTEGER
) STRICT;

CREATE INDEX sessions_by_agent ON sessions (agent) WHERE agent IS NOT NULL;
CREATE INDEX sessions_by_project ON sessions (project) WHERE project IS NOT NULL;

CREATE TABLE branches (
    session INTEGER NOT NULL REFERENCES sessions (number),
    name TEXT NOT NULL,
    head BLOB NOT NULL,
    moved_at INTEGER NOT NULL,
    seal INTEGER NOT NULL,
    UNIQUE (session, name)
) STRICT;

-- cost_usd and duration_ms are ANY, because a REAL column would turn -0.0 into 0.0, and what the id was hashed over
-- has to come back as it was.
CREATE TABLE checkpoints (
    position INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (number),
    seq INTEGER NOT NULL,
    id BLOB NOT NULL UNIQUE,
    branch TEXT NOT NULL,
    parents BLOB NOT NULL,
    root BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    "trigger" TEXT NOT NULL,
    status TEXT NOT NULL,
    step INTEGER,
    message TEXT NOT NULL,
    metadata TEXT NOT NULL,
    tokens INTEGER,
    cost_usd ANY,
    duration_ms ANY,
    app_version TEXT,
    nonce BLOB NOT NULL,
    key TEXT,
    size_bytes INTEGER NOT NULL,
    stored_at INTEGER NOT NULL,
    stored_bytes INTEGER NOT NULL,
    prev BLOB,
    skipped INTEGER NOT NULL,
    hidden INTEGER NOT NULL,
    tags TEXT NOT NULL,
    pinned INTEGER NOT NULL,
    edited_message TEXT,
    added_metadata TEXT,
    seal INTEGER NOT NULL,
    UNIQUE (session, seq)
) STRICT;

CREATE UNIQUE INDEX checkpoints_by_key ON checkpoints (session, key) WHERE key IS NOT NULL;
CREATE INDEX checkpoints_by_step ON checkpoints (session, step, seq) WHERE step IS NOT NULL;
CREATE INDEX checkpoints_by_time ON checkpoints (session, created_at);
CREATE INDEX checkpoints_by_prev ON checkpoints (session, prev);
CREATE INDEX checkpoints_hidden ON checkpoints (hidden) WHERE hidden != 0;

-- Derived from checkpoints.tags, to find them by label.
CREATE TABLE tags (
    tag TEXT NOT NULL,
    position INTEGER NOT NULL REFERENCES checkpoints (position),
    PRIMARY KEY (tag, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE operations (
    session INTEGER NOT NULL REFERENCES sessions (number),
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    data TEXT NOT NULL,
    previous BLOB NOT NULL,
    hash BLOB NOT NULL,
    seal INTEGER NOT NULL,
    PRIMARY KEY (session, number)
) STRICT;

-- Who writes under a name, for as long as they do. Of the moment, and no part of history: without a seal.
CREATE TABLE leases (
    name TEXT NOT NULL PRIMARY KEY,
    holder TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    since INTEGER NOT NULL,
    until INTEGER NOT NULL,
    length INTEGER NOT NULL,
    ticks INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- epoch: opened anew by each collection of chunks. position: the highest that was ever given to a row that is gone.
-- lease: the highest epoch that a lease was ever claimed with.
CREATE TABLE counters (
    name TEXT NOT NULL,
    value INTEGER NOT NULL
) STRICT;

INSERT INTO counters (name, value) VALUES ('epoch', 0), ('position', 0), ('lease', 0);

-- A chunk with a base is the difference to it; depth counts how many stand on each other. epoch is the one in which it
-- was last written, found or built on; refers is 0 where it names no other chunk.
CREATE TABLE chunks (
    number INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    codec INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    base INTEGER,
    depth INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    refers INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;
