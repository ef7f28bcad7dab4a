"""Commits to a PostgreSQL store that fail: what is done again, what is refused, and what a writer does afterwards."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")

import holdfast  # noqa: E402
from holdfast.backends.postgres import PostgresBackend, backend, view, write  # noqa: E402
from holdfast.backends.postgres.connecting import Connected  # noqa: E402
from holdfast.backends.postgres.errors import outcome_unknown  # noqa: E402
from holdfast.errors import BackendError, ConflictError, ErrorCode, IntegrityError, InvalidInputError  # noqa: E402
from holdfast.storage.copying import Adoption  # noqa: E402
from holdfast.storage.records import Batch, Query, Receipt, SessionRow  # noqa: E402
from holdfast.testing.faults import Fault, FaultyBackend, failing, io_failed  # noqa: E402
from holdfast.testing.rows import batch, checkpoint_id, edit, save  # noqa: E402

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


def fail_writing(run: Run, event: str, *, times: int, state: str) -> None:
    """Have so many changes of sessions fail with a code; a sequence counts them, which never goes back."""
    run("CREATE SEQUENCE failures")
    run(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF nextval('holdfast.failures') <= {times} THEN RAISE 'as planned' USING ERRCODE = '{state}'; END IF; "
        "RETURN coalesce(NEW, OLD); END $$"
    )
    run(f"CREATE TRIGGER failing BEFORE {event} ON sessions FOR EACH ROW EXECUTE FUNCTION fail()")


def failures(run: Run) -> int:
    return int(run("SELECT last_value FROM failures")[0][0])


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


def test_an_adoption_that_the_server_takes_back_is_done_again(store: PostgresBackend, run: Run) -> None:
    fail_writing(run, "INSERT", times=2, state="40P01")
    store.adopt(Adoption(session=SessionRow(id="s", agent=None, project=None, created_at=1), expected=None))
    assert failures(run) == 3


def test_an_adoption_that_the_server_takes_back_for_ever_is_given_up(
    store: PostgresBackend, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_timeout", 1.0)
    fail_writing(run, "INSERT", times=10**9, state="40P01")
    with pytest.raises(BackendError) as caught:
        store.adopt(
            Adoption(session=SessionRow(id="s", agent=None, project=None, created_at=1), expected=None)
        )
    assert caught.value.code is ErrorCode.STORE_LOCKED
    assert 2 <= failures(run) <= 100


@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_an_erasure_that_the_server_takes_back_is_done_again(
    store: PostgresBackend, run: Run, state: str
) -> None:
    store.commit(save("a"))
    fail_writing(run, "DELETE", times=2, state=state)
    store.erase_session("work")
    assert failures(run) == 3
    assert run("SELECT count(*) FROM sessions") == [(0,)]


@pytest.mark.parametrize("table", ["header", "sessions"])
def test_a_view_that_the_server_takes_back_before_the_first_answer_is_opened_again(
    store: PostgresBackend, run: Run, table: str
) -> None:
    store.commit(save("a"))
    fail_reading(run, table, times=1)
    with store.reader() as reader:
        assert [each.id for each in reader.sessions()] == ["work"]
    assert run("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 77") == [(1,)]


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


class Clock:
    """Stands still but for pauses, which are over at once."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_view_of_a_store_with_an_empty_header_asks_now_and_then(
    store: PostgresBackend, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_timeout", 1.0)
    # Time passes in the pauses alone: how long a question takes is not what this is about.
    monkeypatch.setattr(view, "time", Clock())
    run("DELETE FROM header")
    asked: list[bool] = []
    begin = view.begin

    def counted(connection: Connected, url: str) -> bool:
        asked.append(begin(connection, url))
        return asked[-1]

    monkeypatch.setattr(view, "begin", counted)
    with pytest.raises(IntegrityError, match="header is empty"), store.reader():
        pass
    # The pauses add up to the second that it has: 2 + 4 + ... + 64 milliseconds, and then a tenth each time.
    assert 2 <= len(asked) <= 20


@pytest.mark.parametrize("name", [None, "main"])
def test_a_store_whose_header_has_lost_the_version_can_still_be_read(
    store: PostgresBackend, run: Run, name: str | None
) -> None:
    store.commit(save("a"))
    run("DELETE FROM header WHERE key = 'version'")
    with store.reader() if name is None else store.reader_for("work", name) as reader:
        branch = reader.branch("work", "main")
    assert branch is not None
    assert branch.head == checkpoint_id("a")


def test_a_commit_that_no_server_would_take_is_refused_before_it_is_sent(
    store: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "_MOST_BYTES", 1_000_000)
    session = holdfast.Store(store).session("s")
    kept = session.save({"n": os.urandom(900_000)})
    for large in (os.urandom(1_000_000), [os.urandom(250_000) for _ in range(4)]):
        with pytest.raises(InvalidInputError, match="in one commit") as caught:
            session.save({"n": large})
        assert caught.value.code is ErrorCode.VALUE_TOO_LARGE
    with pytest.raises(InvalidInputError, match="in one commit"):
        session.save({"n": 1}, metadata={"text": "x" * 500_000})
    assert session.log() == [kept]


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
    assert not session._writer._unsettled
    session.save({"n": 3}, step=3)
    # What is settled is settled: the same again is another save, but for the key.
    assert session.save({"n": 2}, step=2).id != again.id
    assert steps(session) == [2, 3, 2]


def test_a_writer_goes_on_after_a_save_that_turns_out_to_be_there(
    faulty: FaultyBackend, session: holdfast.Session
) -> None:
    lose(faulty, lambda: session.save({"n": 2}, step=2))
    # The same state, but not the same save.
    session.save({"n": 2}, step=3)
    session.save({"n": 4}, step=4)
    assert steps(session) == [2, 3, 4]


def test_a_writer_that_appends_to_what_it_has_not_seen_makes_no_double(
    faulty: FaultyBackend, session: holdfast.Session
) -> None:
    fresh = holdfast.Store(faulty).session("work")
    lose(faulty, lambda: fresh.save({"n": 2}, step=2))
    fresh.save({"n": 2}, step=2)
    assert steps(fresh) == [2]


def test_another_writer_in_between_is_still_noticed(faulty: FaultyBackend, session: holdfast.Session) -> None:
    lose(faulty, lambda: session.save({"n": 2}, step=2))
    holdfast.Store(faulty).session("work").save({"n": 3}, step=3)
    with pytest.raises(ConflictError) as caught:
        session.save({"n": 4}, step=4)
    assert caught.value.code is ErrorCode.BRANCH_MOVED
    assert steps(session) == [2, 3]


def test_what_the_caller_says_to_expect_is_what_counts(
    faulty: FaultyBackend, session: holdfast.Session
) -> None:
    first = session.checkpoint()
    lose(faulty, lambda: session.save({"n": 2}, step=2, expect=first))
    with pytest.raises(ConflictError):
        session.save({"n": 3}, step=3, expect=first)
    session.save({"n": 2}, step=2, expect=first)
    assert steps(session) == [2]


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


def test_while_nothing_can_be_read_nothing_more_is_sent(
    faulty: FaultyBackend, session: holdfast.Session
) -> None:
    faulty.plan(
        Fault("commit", nth=None, before=failing(io_failed())),
        Fault("reader", nth=None, before=failing(io_failed())),
    )
    for _ in range(5):
        with pytest.raises(BackendError):
            session.save({"n": 2}, step=2)
    assert faulty.calls["commit"] == 1
    assert len(session._writer._unsettled) == 1


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


CHANGES: dict[str, Callable[[holdfast.Session], object]] = {
    "tag": lambda session: session.tag("@~1", "seen"),
    "untag": lambda session: session.untag("@~2", "old"),
    "annotate": lambda session: session.annotate("@~1", message="another"),
    "delete": lambda session: session.delete("@~1"),
    "undo": lambda session: session.undo(),
    "prune": lambda session: session.prune(holdfast.Keep(last=2)),
    "save with retention": lambda session: session.save({"n": 9}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_rows_that_were_just_read_is_one_statement(
    store: PostgresBackend, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    session = holdfast.Store(store).session("work", keep=holdfast.Keep(last=5))
    for n in range(8):
        session.save({"n": n})
    session.tag("@~2", "old")

    def looks() -> list[tuple[object, ...]]:
        return [(each.id, each.tags, each.message) for each in session.log()]

    before = looks()
    with monkeypatch.context() as patch:
        patch.setattr(write, "locked", failing(AssertionError("it was read once more")))
        CHANGES[change](session)
    assert looks() != before
    assert len(looks()) <= 5
    assert holdfast.Store(store).verify().ok


def test_rows_that_changed_since_they_were_seen_are_read_again(
    store: PostgresBackend, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    locked, taken = write.locked, []

    def noted(*given: Any) -> Any:
        taken.append(given)
        return locked(*given)

    monkeypatch.setattr(write, "locked", noted)
    store.commit(save("a"))
    store.commit(save("b", after="a"))
    with store.reader() as reader:
        (second, first) = reader.checkpoints(Query(session="work"))
    del taken[:]
    store.commit(batch(edits=(edit(first, tags=("x",)),), seen=(first,)))
    assert not taken
    # The session is as this backend left it, and the row is not.
    store.commit(batch(edits=(edit(first, pinned=True),), seen=(first,)))
    assert len(taken) == 1
    with store.reader() as reader:
        assert reader.checkpoint(first.id) == first._replace(pinned=True)
        assert reader.checkpoint(second.id) == second


def test_a_save_that_comes_while_its_own_thread_notes_a_session_does_not_wait_for_itself() -> None:
    """As of a signal handler, or of what is collected as garbage."""
    sessions = backend.KnownSessions()
    first = write.KnownSession(1, SessionRow("first", None, None, 0))
    second = write.KnownSession(2, SessionRow("second", None, None, 0))

    class Interrupting(OrderedDict[str, Any]):
        def __setitem__(self, name: str, known: Any) -> None:
            super().__setitem__(name, known)
            if name == "first":
                sessions.put(second)

    sessions._sessions = Interrupting()
    thread = threading.Thread(target=sessions.put, args=[first], daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert [sessions.take(name) for name in ("first", "second", "first")] == [first, second, None]
