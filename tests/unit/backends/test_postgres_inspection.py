"""Looking at a PostgreSQL store in which somebody changed something: each change is named, nothing else suffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")

from tests.unit.backends.test_postgres_read import until_nobody_is_at_work  # noqa: E402

from holdfast.backends.postgres import PostgresBackend  # noqa: E402
from holdfast.backends.postgres.chunks import read_chunks  # noqa: E402
from holdfast.storage.records import Chunk, Query  # noqa: E402
from holdfast.testing.conformance.inspecting import everything, filled  # noqa: E402
from holdfast.testing.rows import batch, checkpoint_id, chunk, contents, row, save, state_chunk  # noqa: E402

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


@pytest.mark.parametrize(
    ("change", "kind", "what"),
    [
        ("UPDATE header SET value = 'x' WHERE key = 'store'", "header", "header 'store'"),
        ("UPDATE header SET value = '9' WHERE key = 'version'", "header", "header 'version'"),
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


@pytest.mark.parametrize("change", CHANGED)
def test_a_checkpoint_with_a_changed_column_is_lost_and_the_others_are_not(
    store: PostgresBackend, run: Run, change: str
) -> None:
    filled(store)
    before = contents(store)
    run(f"UPDATE checkpoints SET {change} WHERE id = %s", checkpoint_id("c"))
    with store.inspect() as seen:
        (lost,) = seen.lost()
        assert lost.id == checkpoint_id("c")
        assert lost.session is not None
        whole = [each for each in reversed(before.checkpoints) if each.id != checkpoint_id("c")]
        assert list(seen.checkpoints()) == whole


def test_a_checkpoint_with_a_changed_id_is_lost(store: PostgresBackend, run: Run) -> None:
    filled(store)
    run("UPDATE checkpoints SET id = 'x' WHERE id = %s", checkpoint_id("c"))
    with store.inspect() as seen:
        (lost,) = seen.lost()
        assert (lost.id, lost.session, lost.seq) == (None, "work", 3)
        assert set(lost.followed) == {checkpoint_id("b")}


def test_a_session_whose_row_is_damaged_is_put_together_from_its_rows(
    store: PostgresBackend, run: Run
) -> None:
    filled(store)
    with store.reader() as reader:
        before = reader.session("work")
        first = reader.checkpoint(checkpoint_id("a"))
    assert before is not None
    assert first is not None
    run("UPDATE sessions SET current = 'x' WHERE id = 'work'")
    # Its last checkpoint is damaged too: its seq must not be given again for all that.
    run("UPDATE checkpoints SET message = 'x' WHERE id = %s", checkpoint_id("c"))
    with store.inspect() as seen:
        found = {each.id: each for each in seen.sessions()}
    # Nothing but the damaged row says whose it is.
    assert found["work"] == before._replace(agent=None, created_at=first.stored_at)
    assert len(found) == 2


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


def test_a_statement_that_the_server_cannot_finish_does_not_end_the_moment(
    store: PostgresBackend, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a page that fails its checksum: the other chunks are read, at the same moment."""
    from holdfast.backends.postgres import tables

    pieces = [chunk(b"piece %d" % number) for number in range(4)]
    store.commit(batch(row("a", root=pieces[0].hash), chunks=tuple(pieces)))
    read = read_chunks

    def read_or_fail(connection: Any, names: list[Any]) -> Any:
        if pieces[2].hash in names:
            connection.execute("DO $$ BEGIN RAISE EXCEPTION 'invalid page' USING ERRCODE = 'XX001'; END $$")
        return read(connection, names)

    monkeypatch.setattr(tables, "read_chunks", read_or_fail)
    with store.inspect() as seen:
        run("DELETE FROM checkpoints")
        found = seen.chunks([each.hash for each in pieces])
        assert found == {each.hash: each.data for each in pieces if each is not pieces[2]}
        assert len(list(seen.checkpoints())) == 1


@pytest.mark.parametrize("size", [1, 2, 3])
def test_tables_are_read_a_page_at_a_time_and_nothing_is_left_out(
    store: PostgresBackend, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(store)
    for name in ("b", "B", "ä", "~"):
        store.commit(save(f"on {name}", branch=name, tags=("t", "u")))
    with store.inspect() as seen:
        whole = everything(seen)
    monkeypatch.setattr("holdfast.backends.postgres.tables._PAGE", size)
    with store.inspect() as seen:
        assert everything(seen) == whole
        assert list(seen.flaws()) == []


def test_rows_are_asked_for_as_they_are_needed(
    store: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large a table is, no more than a page of it is held."""
    from holdfast.backends.postgres.tables import PostgresTables

    monkeypatch.setattr("holdfast.backends.postgres.tables._PAGE", 10)
    store.commit(batch(*(row(f"{n}") for n in range(35))))
    with store._pool.dedicated() as connection:
        asked: list[str] = []

        class Noting:
            def execute(self, statement: str, *rest: Any, **options: Any) -> Any:
                asked.append(statement)
                return connection.execute(statement, *rest, **options)

        found = PostgresTables(Noting()).rows("checkpoints")  # type: ignore[arg-type]
        for count, _ in enumerate(found):
            assert len(asked) == count // 10 + 1
        assert count == 34


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
