"""Looking at a PostgreSQL store in which somebody changed something: each change is named, nothing else suffers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")


from holdfast.backends.postgres import PostgresBackend  # noqa: E402
from holdfast.storage.records import Chunk, Query  # noqa: E402
from holdfast.testing.kit.repair import filled  # noqa: E402
from holdfast.testing.rows import batch, chunk, contents, row, state_chunk  # noqa: E402

Run = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresBackend]:
    backend = PostgresBackend.open(postgres_url, durability="process", create=True, timeout=10.0)
    yield backend
    backend.close()


@pytest.fixture
def run(postgres_url: str) -> Iterator[Run]:
    """Statements past the backend."""
    with psycopg.connect(postgres_url, autocommit=True, options="-c search_path=holdfast") as connection:

        def execute(statement: str, *parameters: object) -> list[tuple[Any, ...]]:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

        yield execute


def until_nobody_is_at_work(run: Run) -> None:
    """Wait until all other sessions of the database are in no transaction: the end of a view is not waited for."""
    active = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state <> 'idle'"
    until = time.monotonic() + 30
    while run(active) != [(1,)]:
        assert time.monotonic() < until


@pytest.mark.parametrize(
    ("change", "kind", "what"),
    [
        ("UPDATE header SET value = 'x' WHERE key = 'store'", "header", "header 'store'"),
        ("UPDATE header SET value = '9' WHERE key = 'schema'", "header", "header 'schema'"),
        ("DELETE FROM header WHERE key = 'hash'", "header", "the header"),
        ("DELETE FROM counters WHERE name = 'epoch'", "counter", "counter 'epoch'"),
        ("UPDATE sessions SET agent = 'x' WHERE id = 'work'", "session", "session 'work'"),
        ("UPDATE sessions SET last_seq = 9 WHERE id = 'work'", "session", "session 'work'"),
        ("UPDATE sessions SET number = 77 WHERE id = 'other'", "session", "session 'other'"),
        ("UPDATE branches SET head = '' WHERE session = 1", "branch", "branch 'main' of session 'work'"),
        ("UPDATE branches SET name = 'x' WHERE session = 1", "branch", "branch 'x' of session 'work'"),
        ("UPDATE operations SET data = '[]' WHERE number = 2", "operation", "operation 2 of session 'work'"),
        ("DELETE FROM tags", "tag", "tag 't' at position 1"),
        ("INSERT INTO tags VALUES ('u', 2)", "tag", "tag 'u' at position 2"),
        ("SELECT setval('positions', 1)", "counter", "sequence 'positions'"),
        ("SELECT setval('chunk_numbers', 1)", "counter", "sequence 'chunk_numbers'"),
        ("SELECT setval('session_numbers', 1)", "counter", "sequence 'session_numbers'"),
    ],
)
def test_what_somebody_changed_is_named(
    store: PostgresBackend, run: Run, change: str, kind: str, what: str
) -> None:
    filled(store)
    run(change)
    with store.inspect() as seen:
        assert (kind, what) in [(flaw.kind, flaw.what) for flaw in seen.flaws()]


CHANGED = [
    "seq = 70",
    "branch = 'x'",
    "parents = ''",
    "root = ''",
    "created_at = 1",
    "trigger = 'x'",
    "status = 'x'",
    "step = 5",
    "message = 'x'",
    "metadata = '[]'",
    "tokens = 5",
    "cost_usd = 5",
    "duration_ms = 5",
    "app_version = 'x'",
    "nonce = ''",
    "key = 'x'",
    "size_bytes = 1",
    "stored_at = 1",
    "prev = NULL",
    "skipped = 5",
    "hidden = 5",
    "tags = '[\"x\"]'",
    "pinned = 1",
    "edited_message = 'x'",
    "added_metadata = '{}'",
    "session = 2",
    "seal = 0",
]


def test_a_damaged_chunk_spoils_no_other(store: PostgresBackend, run: Run) -> None:
    pieces: list[Chunk] = [chunk(b"piece %d" % number) for number in range(5)]
    store.commit(batch(row("a", root=pieces[0].hash), chunks=tuple(pieces)))
    run("UPDATE chunks SET data = 'xxxxxxx' WHERE hash = %s", pieces[1].hash)
    run("UPDATE chunks SET base = 12345, depth = 1 WHERE hash = %s", pieces[2].hash)
    run("UPDATE chunks SET codec = 99 WHERE hash = %s", pieces[3].hash)
    names = [each.hash for each in pieces]
    with store.inspect() as seen:
        assert set(seen.chunk_names()) == set(names)
        found = seen.chunks(names)
        # The caller checks the hashes: other bytes are for it to tell.
        assert {
            name for name in found if found[name] == dict(zip(names, pieces, strict=True))[name].data
        } == {
            names[0],
            names[4],
        }
        assert names[2] not in found
        assert names[3] not in found
        # And the moment has not ended with it.
        assert len(list(seen.checkpoints())) == 1


def test_an_inspection_leaves_the_store_as_it_was(store: PostgresBackend, run: Run) -> None:
    filled(store)
    before = contents(store)
    with store.inspect():
        pass
    assert contents(store) == before
    until_nobody_is_at_work(run)
    with store.reader() as reader:
        assert dict(reader.chunks([state_chunk("a").hash]))
        assert reader.checkpoints(Query(limit=1))
