"""Who is woken in PostgreSQL by what comes between a look and a wait: nobody sleeps until the next look for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")

from tests.unit.backends.postgres_waits import (  # noqa: E402
    ARRIVE,
    BEGIN_COMMIT,
    FOREVER,
    PATIENCE,
    TAKE_POSITION,
    WHO_LISTENS,
    Open,
    Run,
    Waiting,
    listening,
    until,
)

from holdfast.backends.postgres import PostgresBackend, watching  # noqa: E402
from holdfast.store import Store  # noqa: E402
from holdfast.testing.rows import save  # noqa: E402


@pytest.fixture
def open_store(postgres_url: str) -> Iterator[Open]:
    opened: list[PostgresBackend] = []

    def open_one(at: str = postgres_url, **options: Any) -> PostgresBackend:
        settings: dict[str, Any] = {"durability": "process", "create": True, "timeout": 10.0}
        opened.append(PostgresBackend.open(at, **(settings | options)))
        return opened[-1]

    yield open_one
    for backend in opened:
        backend.close()


@pytest.fixture
def connect(postgres_url: str) -> Iterator[Callable[[], Any]]:
    made: list[Any] = []

    def one() -> Any:
        made.append(psycopg.connect(postgres_url, options="-c search_path=holdfast"))
        return made[-1]

    yield one
    for connection in made:
        connection.close()


@pytest.fixture
def run(connect: Callable[[], Any]) -> Run:
    """Statements past the backend."""
    connection = connect()
    connection.autocommit = True

    def execute(statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        cursor = connection.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []

    return execute


HOLD_SIGN = "SELECT value FROM counters WHERE name = 'watched_until' FOR UPDATE"
SIGN_WAITS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' "
    "AND query ~ '^INSERT INTO counters'"
)


def test_what_comes_before_the_writers_are_told_to_notify_is_seen_at_once(
    open_store: Open, run: Run, connect: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the look that found nothing, and before anybody knows that somebody waits."""
    monkeypatch.setattr(watching, "_LOOK_EVERY", FOREVER)
    store, other, holder = open_store(), open_store(), connect()
    holder.execute(HOLD_SIGN)
    waiting = Waiting(store, 0)
    until(lambda: run(SIGN_WAITS) == [(1,)])
    (row,) = other.commit(save("a")).checkpoints
    holder.rollback()
    assert waiting.result() == row.position


def test_a_writer_that_began_before_it_was_told_to_notify_is_waited_for(
    open_store: Open, run: Run, connect: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds no position yet when those who wait look again, and it will notify nobody."""
    monkeypatch.setattr(watching, "_LOOK_EVERY", FOREVER)
    store, slow = open_store(), connect()
    (first,) = store.commit(save("a")).checkpoints
    assert store.wait_for_checkpoint(0, 0) == first.position
    looks = []
    look = store._watcher._look

    def noted(after: int) -> tuple[int, bool, bool]:
        found = look(after)
        looks.append(after)
        return found

    monkeypatch.setattr(store._watcher, "_look", noted)
    slow.execute(BEGIN_COMMIT)
    waiting = Waiting(store, first.position)
    until(listening(run))
    # One that found nothing, and the one when the sign was given.
    until(lambda: len(looks) >= 2)
    ((position,),) = slow.execute(TAKE_POSITION).fetchall()
    slow.execute(ARRIVE, [position, first.position])
    slow.commit()
    assert waiting.result() == position


def test_who_waits_when_the_listener_ends_has_another(
    open_store: Open, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_LOOK_EVERY", FOREVER)
    store, other = open_store(), open_store()
    waiting = Waiting(store, 0)
    until(listening(run))
    first = store._watcher._ear
    assert first is not None

    def has_ended() -> bool:
        # As if nobody had come for long before, and somebody came just when it ended.
        first.needed_at = -FOREVER
        with suppress(OSError):
            first._stop.send(b".")
        return store._watcher._ear not in (None, first)

    until(has_ended)
    until(listening(run))
    (row,) = other.commit(save("a")).checkpoints
    assert waiting.result() == row.position


def test_who_waits_when_the_listener_is_lost_has_another(
    open_store: Open, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_LOOK_EVERY", FOREVER)
    store, other = open_store(), open_store()
    waiting = Waiting(store, 0)
    until(listening(run))
    ((number, _),) = run(WHO_LISTENS)
    run("SELECT pg_terminate_backend(%s, 10000)", number)
    (row,) = other.commit(save("a")).checkpoints
    assert waiting.result() == row.position


def test_a_listener_that_cannot_begin_wakes_nobody(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else those who wait would have the next one at once, and so on without a pause."""
    monkeypatch.setattr(watching, "_LOOK_EVERY", FOREVER)
    monkeypatch.setattr(watching, "_SIGN", "SELECT no_such_function()")
    ended = threading.Event()
    lose = watching.Watcher._lose

    def noted(self: watching.Watcher, ear: watching.Ear, *, for_good: bool) -> None:
        lose(self, ear, for_good=for_good)
        ended.set()

    monkeypatch.setattr(watching.Watcher, "_lose", noted)
    store = open_store()
    waiting = Waiting(store, 0)
    assert ended.wait(PATIENCE)
    assert store._watcher._heard == 0
    assert not waiting.is_over()


def test_what_is_copied_into_the_store_wakes_those_who_wait(
    open_store: Open, postgres_url: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_LOOK_EVERY", FOREVER)
    monkeypatch.setattr(watching, "_SIGN_EVERY", FOREVER)
    store, other = open_store(), open_store()
    source = Store(open_store(f"{postgres_url}?schema=source"))
    source.session("s").save({"a": 1})
    waiting = Waiting(store, 0)
    until(listening(run))
    until(lambda: store._watcher._heard == 1)
    source.copy_to(Store(other))
    assert waiting.result() == 1
