"""Waiting for checkpoints in PostgreSQL: what settles when, who wakes whom, and what happens when the server goes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")

from tests.unit.backends.postgres_waits import (  # noqa: E402
    ARRIVE,
    BEGIN_COMMIT,
    FOREVER,
    LISTENING,
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
from holdfast.errors import (  # noqa: E402
    BackendError,
    ConflictError,
    ErrorCode,
    HoldfastError,
    StateError,
    UnsupportedError,
)
from holdfast.storage.records import Query  # noqa: E402
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
def store(open_store: Open) -> PostgresBackend:
    return open_store()


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


def test_a_position_is_told_only_when_no_lower_one_can_arrive(
    store: PostgresBackend, connect: Callable[[], Any]
) -> None:
    (first,) = store.commit(save("a")).checkpoints
    slow = connect()
    slow.execute(BEGIN_COMMIT)
    ((lower,),) = slow.execute(TAKE_POSITION).fetchall()
    (second,) = store.commit(save("b", session="other")).checkpoints
    assert first.position < lower < second.position
    # The second has arrived; what came before it has not.
    assert store.wait_for_checkpoint(first.position, 0.05) <= first.position
    waiting = Waiting(store, first.position)
    slow.execute(ARRIVE, [lower, first.position])
    assert not waiting.is_over()
    slow.commit()
    assert waiting.result() == second.position


def test_a_commit_that_came_to_nothing_holds_nobody_up(
    store: PostgresBackend, connect: Callable[[], Any]
) -> None:
    slow = connect()
    slow.execute(BEGIN_COMMIT)
    slow.execute(TAKE_POSITION)
    (second,) = store.commit(save("a")).checkpoints
    waiting = Waiting(store, 0)
    slow.rollback()
    assert waiting.result() == second.position


def test_who_comes_later_is_not_waited_for(store: PostgresBackend, connect: Callable[[], Any]) -> None:
    """Among steady writers there is always somebody under way: only those that were there first count."""
    early, late = connect(), connect()
    early.execute(BEGIN_COMMIT)
    early.execute(TAKE_POSITION)
    (row,) = store.commit(save("a")).checkpoints
    # The look that finds the early one under way.
    assert store.wait_for_checkpoint(0, 0) == 0
    late.execute(BEGIN_COMMIT)
    late.execute(TAKE_POSITION)
    early.rollback()
    assert store.wait_for_checkpoint(0, 0) == row.position


def test_who_begins_to_watch_waits_for_those_who_are_under_way(
    store: PostgresBackend, connect: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However little time it has: without a place to begin, it could not tell what is new."""
    monkeypatch.setattr(watching, "_SETTLING", 1000.0)
    slow = connect()
    slow.execute(BEGIN_COMMIT)
    ((position,),) = slow.execute(TAKE_POSITION).fetchall()
    waiting = Waiting(store, -1, 0)
    time.sleep(0.05)
    assert not waiting.is_over()
    slow.rollback()
    assert waiting.result() == position
    monkeypatch.setattr(watching, "_SETTLING", 0.0)
    slow.execute(BEGIN_COMMIT)
    slow.execute(TAKE_POSITION)
    with pytest.raises(BackendError) as caught:
        store.wait_for_checkpoint(-1, 0)
    assert caught.value.code is ErrorCode.STORE_LOCKED


def test_a_commit_that_was_refused_ends_no_wait(
    store: PostgresBackend, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it took a position."""
    monkeypatch.setattr(watching, "_LOOK_EVERY", 0.001)
    (first,) = store.commit(save("a", key="k")).checkpoints
    waiting = Waiting(store, first.position)
    with pytest.raises(ConflictError):
        store.commit(save("b", after="a", key="k"))
    # As any commit does that is refused by the server rather than before.
    run("SELECT nextval('positions')")
    # Two looks after that one: whoever is woken by a position has come back by then.
    for _ in range(2):
        assert store.wait_for_checkpoint(0, 0) > first.position
    time.sleep(0.05)
    assert not waiting.is_over()
    (second,) = store.commit(save("c", after="a")).checkpoints
    assert waiting.result() == second.position


def test_a_notification_wakes_those_who_would_not_look_for_long(
    open_store: Open, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of other processes: a second backend has connections of its own."""
    monkeypatch.setattr(watching, "_LOOK_EVERY", FOREVER)
    store, other = open_store(), open_store()
    waits = [Waiting(store, 0) for _ in range(3)]
    until(listening(run))
    (row,) = other.commit(save("a")).checkpoints
    assert [each.result() for each in waits] == [row.position] * 3


def test_without_a_notification_they_look_for_themselves(
    open_store: Open, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching.Watcher, "notify", lambda _self: None)
    store, other = open_store(), open_store()
    waiting = Waiting(store, 0)
    until(listening(run))
    (row,) = other.commit(save("a")).checkpoints
    assert waiting.result() == row.position


def notifications(listener: Any) -> int:
    """How many have come; one of our own marks the end."""
    listener.execute("SELECT pg_notify('end', '')")
    for count, each in enumerate(listener.notifies(timeout=PATIENCE)):
        if each.channel == "end":
            return count
    raise AssertionError("not even our own came")


def test_where_nobody_waits_nobody_is_notified(
    store: PostgresBackend, run: Run, connect: Callable[[], Any]
) -> None:
    listener = connect()
    listener.autocommit = True
    listener.execute('LISTEN "holdfast:holdfast"; LISTEN "end"')
    store.commit(save("a"))
    assert notifications(listener) == 0
    waiting = Waiting(store, 10)
    until(listening(run))
    store.commit(save("b", after="a"))
    assert notifications(listener) == 1
    run("UPDATE counters SET value = 0 WHERE name = 'watched_until'")
    store.commit(save("c", after="b"))
    assert notifications(listener) == 0
    assert not waiting.is_over()


def test_two_stores_in_one_database_do_not_wake_each_other(
    open_store: Open, postgres_url: str, connect: Callable[[], Any]
) -> None:
    listener = connect()
    listener.autocommit = True
    listener.execute('LISTEN "holdfast:holdfast"; LISTEN "end"')
    other = open_store(f"{postgres_url}?schema=agents")
    other._watcher.notify()
    assert notifications(listener) == 0
    (row,) = other.commit(save("a")).checkpoints
    assert open_store().wait_for_checkpoint(0, 0) == 0
    assert other.wait_for_checkpoint(0, 0) == row.position


def test_a_notification_that_cannot_be_sent_does_not_spoil_a_commit(
    store: PostgresBackend, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store._watcher, "_channel", psycopg.sql.SQL("no channel at all"))
    run("UPDATE counters SET value = 1::bigint << 40 WHERE name = 'watched_until'")
    assert store.commit(save("a")).checkpoints


def end_others(run: Run) -> None:
    run(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


def test_after_a_lost_connection_it_listens_again(
    open_store: Open, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = open_store(), open_store()
    waiting = Waiting(store, 0)
    until(listening(run))
    (first,) = run(WHO_LISTENS)
    end_others(run)
    # The next look of the one who waits; it may come before we can see that nobody listens.
    until(lambda: first not in run(WHO_LISTENS) and listening(run)())
    monkeypatch.setattr(watching, "_LOOK_EVERY", FOREVER)
    (row,) = other.commit(save("a")).checkpoints
    assert waiting.result() == row.position


def test_closing_ends_all_waits_and_the_connection(store: PostgresBackend, run: Run) -> None:
    waits = [Waiting(store, 0) for _ in range(2)]
    until(listening(run))
    store.close()
    for each in waits:
        error = each.result()
        assert isinstance(error, StateError)
        assert error.code is ErrorCode.STORE_CLOSED
    until(lambda: run(LISTENING) == [(0,)])
    with pytest.raises(StateError):
        store.wait_for_checkpoint(0, 0)


def test_a_connection_that_nobody_needs_is_closed(
    store: PostgresBackend, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_SIGN_EVERY", 0.02)
    waiting = Waiting(store, 0)
    until(listening(run))
    store.commit(save("a"))
    waiting.result()
    monkeypatch.setattr(watching, "_IDLE_FOR", 0.05)
    until(lambda: run(LISTENING) == [(0,)])
    # The server sees the end of the connection before the thread is done.
    until(lambda: store._watcher._ear is None)
    monkeypatch.undo()
    # And had again by the next who waits.
    Waiting(store, 10)
    until(listening(run))


def test_the_sign_for_writers_is_given_again(
    store: PostgresBackend, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_SIGN_EVERY", 0.02)
    Waiting(store, 0)
    until(listening(run))
    run("UPDATE counters SET value = 0 WHERE name = 'watched_until'")
    until(listening(run))


def test_a_role_that_may_only_read_can_wait(open_store: Open, run: Run, postgres, postgres_url: str) -> None:
    store = open_store()
    role = postgres.create_role()
    run(f'GRANT USAGE ON SCHEMA holdfast TO "{role.name}"')
    run(f'GRANT SELECT ON ALL TABLES IN SCHEMA holdfast TO "{role.name}"')
    run(f'GRANT SELECT ON ALL SEQUENCES IN SCHEMA holdfast TO "{role.name}"')
    reading = open_store(postgres.url(postgres_url.rpartition("/")[2], role), create=False)
    waiting = Waiting(reading, 0)
    until(lambda: reading._watcher._deaf_until > 0)
    (row,) = store.commit(save("a")).checkpoints
    assert waiting.result() == row.position


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_both_sides_of_a_fork_can_wait(store: PostgresBackend, run: Run) -> None:
    waiting = Waiting(store, 0)
    until(listening(run))
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            store.commit(save("of the child"))
            os.write(sender, b"%d" % store.wait_for_checkpoint(0, FOREVER))
        finally:
            os._exit(0)
    os.close(sender)
    assert waiting.result() == 1
    assert os.read(receiver, 10) == b"1"
    os.close(receiver)
    os.waitpid(child, 0)
    waiting = Waiting(store, 1)
    (row,) = store.commit(save("of the parent", after="of the child")).checkpoints
    assert waiting.result() == row.position


def test_a_wait_ends_with_its_time_though_the_next_look_is_far(
    store: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_LOOK_EVERY", FOREVER)
    assert Waiting(store, 5, 0.02).result() == 0


def test_writers_that_overlap_are_all_told_in_the_order_of_their_positions(open_store: Open) -> None:
    """Eight threads write, one follows by what it is told: nothing is skipped."""
    store, other = open_store(), open_store()
    done = threading.Event()
    from holdfast.storage.records import Query

    def write(name: str) -> None:
        for number in range(25):
            other.commit(
                save(f"{name} {number}", session=name, after=f"{name} {number - 1}" if number else None)
            )

    seen: list[int] = []

    def follow() -> None:
        at = 0
        while not (done.is_set() and len(seen) >= 200):
            # Before the wait: what is committed after it was in vain is still to come.
            was_done = done.is_set()
            newest = store.wait_for_checkpoint(at, 0.2)
            if newest <= at:
                if was_done:
                    return
                continue
            with store.reader() as reader:
                page = reader.checkpoints(
                    Query(after_position=at, before_position=newest + 1, oldest_first=True)
                )
            seen.extend(each.position for each in page)
            at = newest

    follower = threading.Thread(target=follow)
    follower.start()
    writers = [threading.Thread(target=write, args=(f"w{n}",)) for n in range(8)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    done.set()
    follower.join()
    with store.reader() as reader:
        all_of_them = [each.position for each in reader.checkpoints(Query(oldest_first=True))]
    assert len(all_of_them) == 200
    assert seen == all_of_them


def test_a_server_that_is_gone_is_an_error_of_its_own(require, tmp_path) -> None:
    require("postgres")
    from tests.services.postgres import Server

    with Server(fsync=False) as server:
        backend = PostgresBackend.open(
            server.fresh_database(), durability="process", create=True, timeout=0.2
        )
        waiting = Waiting(backend, 0)
        server.stop()
        error = waiting.result()
        assert isinstance(error, HoldfastError)
        assert error.code is ErrorCode.SERVER_GONE
        server.start()
        waiting = Waiting(backend, 0)
        (row,) = backend.commit(save("a")).checkpoints
        assert waiting.result() == row.position
        backend.close()


def test_a_standby_is_refused_until_it_is_the_primary(require: Callable[[str], None]) -> None:
    """There the sequence runs ahead and the writers' locks are not seen: checkpoints would be missed in silence."""
    require("postgres")
    from tests.services.postgres import Server

    with Server(fsync=False) as server:
        url = server.fresh_database()
        options: dict[str, Any] = {"durability": "process", "timeout": 10.0}
        primary = PostgresBackend.open(url, create=True, **options)
        primary.commit(save("a"))
        primary.close()
        server.stop()
        # Without anybody to follow it is a standby all the same.
        (server.folder / "data" / "standby.signal").touch()
        server.start()
        standby = PostgresBackend.open(url, create=False, **options)
        try:
            with pytest.raises(UnsupportedError) as caught:
                standby.wait_for_checkpoint(-1, 0.0)
            assert caught.value.code is ErrorCode.NOT_SUPPORTED
            assert "primary" in caught.value.hint
            with standby.reader() as reader:
                assert len(reader.checkpoints(Query())) == 1
            with pytest.raises(BackendError) as refused:
                standby.commit(save("b", after="a"))
            assert refused.value.code is ErrorCode.PERMISSION_DENIED
            assert "connect to the primary" in refused.value.hint
            assert server.execute("SELECT pg_promote()") == [(True,)]
            assert standby.wait_for_checkpoint(-1, 0.0) >= 1
        finally:
            standby.close()
