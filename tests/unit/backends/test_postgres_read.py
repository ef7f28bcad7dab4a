"""Views of a PostgreSQL store: what they cost, what they show, and what happens when the server goes away."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")

from holdfast.backends.postgres import PostgresBackend  # noqa: E402
from holdfast.errors import BackendError, ErrorCode, IntegrityError  # noqa: E402
from holdfast.storage.records import Chunk, Query  # noqa: E402
from holdfast.testing.rows import batch, checkpoint_id, chunk, row, save  # noqa: E402


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresBackend]:
    backend = PostgresBackend.open(postgres_url, durability="process", create=True, timeout=10.0)
    yield backend
    backend.close()


Run = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def run(postgres_url: str) -> Iterator[Run]:
    """Statements past the backend."""
    with psycopg.connect(postgres_url, autocommit=True, options="-c search_path=holdfast") as connection:

        def execute(statement: str, *parameters: object) -> list[tuple[Any, ...]]:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

        yield execute


def end_others(run: Run) -> None:
    """End every other session of the database, as an administrator or a failover does."""
    run(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


def versions(count: int) -> list[Chunk]:
    """Chunks of which each is the next version of the one before."""
    made: list[Chunk] = []
    for number in range(count):
        plain = chunk(b"".join(b"line %d of a text that grows\n" % line for line in range(100 + number)))
        made.append(plain._replace(base=made[-1].hash if made else None))
    return made


def test_a_chunk_that_stands_on_one_that_is_gone_is_damaged(store: PostgresBackend, run: Run) -> None:
    pieces = versions(3)
    for number, piece in enumerate(pieces):
        store.commit(batch(row(f"{number}", root=piece.hash), chunks=(piece,)))
    run("UPDATE chunks SET base = 999999 WHERE hash = %s", pieces[2].hash)
    with store.reader() as reader, pytest.raises(IntegrityError) as caught:
        reader.chunks([pieces[2].hash])[pieces[2].hash]
    assert caught.value.code is ErrorCode.CHUNK_DAMAGED


def test_a_connection_that_is_lost_after_an_answer_is_an_error(store: PostgresBackend, run: Run) -> None:
    """Another transaction would be another moment."""
    store.commit(save("a"))
    with store.reader() as reader:
        assert reader.session("work") is not None
        end_others(run)
        with pytest.raises(BackendError) as caught:
            reader.session("work")
        assert caught.value.code is ErrorCode.SERVER_GONE
        with pytest.raises(BackendError):
            reader.session("work")
    with store.reader() as reader:
        assert reader.session("work") is not None


def test_views_go_on_after_the_server_ended_every_idle_connection(store: PostgresBackend, run: Run) -> None:
    store.commit(save("a"))
    together = threading.Barrier(5, timeout=60)

    def view() -> None:
        with store.reader():
            together.wait()

    threads = [threading.Thread(target=view) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    end_others(run)
    for _ in range(5):
        with store.reader() as reader:
            assert reader.session("work") is not None


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_what_no_row_can_hold_is_not_found(store: PostgresBackend, text: str) -> None:
    store.commit(save("a"))
    with store.reader() as reader:
        assert reader.session(text) is None
        assert reader.branch(text, "main") is None
        assert reader.branch("work", text) is None
        assert reader.branch("work", "main") is not None
        assert list(reader.branches(text)) == []
        assert list(reader.sessions(agent=text)) == []
        for name in ("session", "branch", "agent", "project", "tag", "status", "trigger", "key"):
            asked: dict[str, Any] = {name: text}
            assert list(reader.checkpoints(Query(**asked))) == []
        assert list(reader.checkpoints(Query(metadata=(((text,), "1"),)))) == []
        assert reader.session("work") is not None


@pytest.mark.parametrize(
    ("change", "ask"),
    [
        ("UPDATE sessions SET agent = 'other'", lambda reader: reader.session("work")),
        ("UPDATE sessions SET last_seq = last_seq + 1", lambda reader: reader.sessions()),
        ("UPDATE branches SET moved_at = 1", lambda reader: reader.branch("work", "main")),
        ("UPDATE branches SET moved_at = 1", lambda reader: reader.branches("work")),
        ("UPDATE checkpoints SET seq = 9", lambda reader: reader.checkpoint(checkpoint_id("a"))),
        ("UPDATE checkpoints SET cost_usd = 9", lambda reader: reader.checkpoints(Query())),
    ],
)
def test_a_row_that_somebody_changed_is_an_error(
    store: PostgresBackend, run: Run, change: str, ask: Callable[[Any], object]
) -> None:
    store.commit(save("a", agent="scout"))
    with store.reader() as reader:
        ask(reader)
    run(change)
    with store.reader() as reader, pytest.raises(IntegrityError) as caught:
        ask(reader)
    assert caught.value.code is ErrorCode.ROW_DAMAGED
