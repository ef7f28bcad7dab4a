"""Commits to a PostgreSQL store that fail: what is done again, what is refused, and what a writer does afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")

import holdfast  # noqa: E402
from holdfast.backends.postgres import PostgresBackend  # noqa: E402
from holdfast.backends.postgres.errors import outcome_unknown  # noqa: E402
from holdfast.errors import BackendError, ConflictError, ErrorCode  # noqa: E402
from holdfast.storage.copy_rows import Adoption  # noqa: E402
from holdfast.storage.records import Batch, Receipt, SessionRow  # noqa: E402
from holdfast.testing.faults import Fault, FaultyBackend, failing, io_failed  # noqa: E402
from holdfast.testing.rows import save  # noqa: E402

Run = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresBackend]:
    backend = PostgresBackend.open(postgres_url, durability="process", create=True, timeout=60.0)
    yield backend
    backend.close()


@pytest.fixture
def run(store: PostgresBackend, postgres_url: str) -> Iterator[Run]:
    """Statements past the backend."""
    with psycopg.connect(postgres_url, autocommit=True, options="-c search_path=holdfast") as connection:

        def execute(statement: str, *parameters: object) -> list[tuple[Any, ...]]:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

        yield execute


def fail_reading(run: Run, table: str, *, times: int) -> None:
    """Have so many questions to a table end as a standby ends those that are in its way.

    A read transaction can change nothing that would count them, but locks of a session outlive it.
    """
    run(
        "CREATE FUNCTION conflict() RETURNS boolean LANGUAGE plpgsql AS $$ DECLARE held int; BEGIN "
        "SELECT count(*) INTO held FROM pg_locks WHERE locktype = 'advisory' AND classid = 77; "
        f"IF held >= {times} THEN RETURN true; END IF; PERFORM pg_advisory_lock(77, held); "
        "RAISE 'canceling statement due to conflict with recovery' USING ERRCODE = '40001'; END $$"
    )
    run(f"ALTER TABLE {table} RENAME TO {table}_kept")
    run(
        f"CREATE VIEW {table} AS SELECT k.* FROM (SELECT holdfast.conflict() AS go OFFSET 0) AS c, {table}_kept AS k"
    )


def test_a_session_that_appears_while_it_is_adopted_is_a_change_and_no_damage(
    store: PostgresBackend, run: Run, postgres_url: str
) -> None:
    session = SessionRow(id="same", agent=None, project=None, created_at=1)
    raised: list[BaseException] = []

    def take_over() -> None:
        try:
            store.adopt(Adoption(session=session, expected=None))
        except BaseException as error:
            raised.append(error)

    with psycopg.connect(postgres_url, options="-c search_path=holdfast") as other:
        other.execute(
            "INSERT INTO sessions VALUES (nextval('session_numbers'), 'same', '', '', 1, 1, 0, '', '', 1)"
        )
        thread = threading.Thread(target=take_over)
        thread.start()
        # It has found no session, and waits for the one that is about to be there.
        while thread.is_alive() and not run("SELECT 1 FROM pg_locks WHERE NOT granted"):
            pass
        other.commit()
        thread.join()
    assert isinstance(raised[0], ConflictError), raised
    assert raised[0].code is ErrorCode.SESSION_CHANGED


def test_a_view_that_the_server_takes_back_later_says_so_and_not_that_a_writer_was_first(
    store: PostgresBackend, run: Run
) -> None:
    store.commit(save("a"))
    fail_reading(run, "sessions", times=1)
    with store.reader() as reader:
        assert reader.newest_position() == 1
        with pytest.raises(BackendError, match="ended a view") as caught:
            reader.sessions()
    assert caught.value.code is ErrorCode.STORE_LOCKED
    # So that an operation which is worked out from one reading reads once more.
    assert caught.value.details["outcome"] == "unknown"


@pytest.fixture
def faulty(store: PostgresBackend) -> FaultyBackend:
    return FaultyBackend(store)


@pytest.fixture
def session(faulty: FaultyBackend) -> holdfast.Session:
    session = holdfast.Store(faulty).session("work")
    session.save({"n": 1})
    return session


def lose(faulty: FaultyBackend, call: Callable[[], object]) -> None:
    """Make a save that takes place, of which neither the reply nor the row can be read."""
    faulty.plan(Fault("commit", after=lambda _: cut_reading(faulty)))
    with pytest.raises(BackendError, match="as planned"):
        call()
    faulty.plan()


def cut_reading(faulty: FaultyBackend) -> None:
    faulty.plan(Fault("reader", nth=None, before=failing(io_failed())))
    raise io_failed()


def steps(session: holdfast.Session) -> list[int | None]:
    return [each.step for each in reversed(session.log())][1:]


@pytest.mark.parametrize("key", [None, "second"])
def test_a_save_that_is_made_again_after_an_error_is_there_once(
    faulty: FaultyBackend, session: holdfast.Session, key: str | None
) -> None:
    lose(faulty, lambda: session.save({"n": 2}, step=2, key=key))
    again = session.save({"n": 2}, step=2, key=key)
    assert again.id == session.log()[0].id
    assert not session._writer.unsettled
    session.save({"n": 3}, step=3)
    # What is settled is settled: the same again is another save, but for the key.
    assert session.save({"n": 2}, step=2).id != again.id
    assert steps(session) == [2, 3, 2]


def test_another_writer_in_between_is_still_noticed(faulty: FaultyBackend, session: holdfast.Session) -> None:
    lose(faulty, lambda: session.save({"n": 2}, step=2))
    holdfast.Store(faulty).session("work").save({"n": 3}, step=3)
    with pytest.raises(ConflictError) as caught:
        session.save({"n": 4}, step=4)
    assert caught.value.code is ErrorCode.BRANCH_MOVED
    assert steps(session) == [2, 3]


def test_a_save_that_is_not_there_after_an_error_is_made(
    faulty: FaultyBackend, session: holdfast.Session
) -> None:
    faulty.plan(
        Fault("commit", before=failing(io_failed())), Fault("reader", nth=1, before=failing(io_failed()))
    )
    with pytest.raises(BackendError):
        session.save({"n": 2}, step=2)
    session.save({"n": 2}, step=2)
    session.save({"n": 3}, step=3)
    assert steps(session) == [2, 3]


class Late(FaultyBackend):
    """A server that has got a commit when the connection breaks, and carries it out later."""

    waiting: Batch | None = None
    breaks = False

    def commit(self, batch: Batch) -> Receipt:
        if not self.breaks:
            return super().commit(batch)
        self.waiting, self.breaks = batch, False
        raise outcome_unknown(io_failed(), self.url)


@pytest.mark.parametrize("fresh", [False, True])
def test_a_save_that_takes_place_after_it_was_looked_for_is_found_by_the_next_one(
    store: PostgresBackend, *, fresh: bool
) -> None:
    late = Late(store)
    session = holdfast.Store(late).session("work")
    session.save({"n": 1}, step=1)
    if fresh:
        session = holdfast.Store(late).session("work")
    late.breaks = True
    with pytest.raises(BackendError):
        session.save({"n": 2}, step=2)
    assert steps(session) == []
    assert late.waiting is not None
    store.commit(late.waiting)
    session.save({"n": 2}, step=2)
    session.save({"n": 3}, step=3)
    assert steps(session) == [2, 3]
