"""Saves of several threads that go to PostgreSQL together: all of them are done, each once, whatever comes between."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

psycopg = pytest.importorskip("psycopg")

from psycopg import generators  # noqa: E402

import holdfast  # noqa: E402
from holdfast.backends.postgres import asking, gathering  # noqa: E402
from holdfast.backends.postgres.asking import Statement  # noqa: E402
from holdfast.backends.postgres.gathering import Gathering, Pace  # noqa: E402
from holdfast.errors import BackendError, ConflictError, ErrorCode, HoldfastError  # noqa: E402

Run = Callable[..., list[tuple[Any, ...]]]

FIRST = "first"
OTHERS = ["b", "c", "d"]
_CHUNK = 5
"""Where its name stands among what is sent."""


class Settled(Pace):
    """Trips are slow or not, however long they take."""

    def __init__(self, *, is_slow: bool) -> None:
        super().__init__()
        self.is_slow = is_slow

    def note(self, seconds: float, count: int) -> None:
        """Nothing changes."""


class Saving:
    """Saves of one thread each, and what became of them."""

    def __init__(self, store: holdfast.Store, prefix: str = "") -> None:
        self.store = store
        self.prefix = prefix
        self.gathering: Gathering = store._backend._gathering  # type: ignore[attr-defined]
        self.sessions = {name: store.session(prefix + name) for name in (FIRST, *OTHERS)}
        for session in self.sessions.values():
            session.save({"n": 0, "of": session.id})
        self.outcomes: dict[str, Any] = {}
        self.threads: dict[str, threading.Thread] = {}

    def start(self, name: str) -> None:
        state = {"n": self.sessions[name].checkpoint().seq, "of": name}

        def work() -> None:
            try:
                self.outcomes[name] = self.sessions[name].save(state, name)
            except BaseException as error:
                self.outcomes[name] = error

        self.threads[name] = threading.Thread(target=work, daemon=True)
        self.threads[name].start()

    def end(self, *names: str) -> None:
        for name in names or self.threads:
            self.threads[name].join(60)
            assert not self.threads[name].is_alive(), name

    def is_over(self) -> bool:
        return not self.gathering._waiting and not [
            each for each in self.gathering._trips if not each.is_over
        ]

    def waiting(self, count: int) -> None:
        until(lambda: len(self.gathering._waiting) == count)

    def all_are_there_once(self, *names: str) -> None:
        for name in names or self.sessions:
            saved = self.outcomes[name]
            assert isinstance(saved, holdfast.Checkpoint), saved
            session = self.store.session(name)
            assert session.load() == {"n": 1, "of": name}
            assert session.checkpoint().id == saved.id
            assert [each.seq for each in session.log()] == [2, 1]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.fixture
def store(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[holdfast.Store]:
    # A test says itself when something goes on.
    monkeypatch.setattr(gathering, "_PATIENCE", 60.0)
    monkeypatch.setattr(gathering, "_CROWD", 2)
    with holdfast.open(postgres_url, durability="power", timeout=60) as opened:
        opened._backend._gathering.pace = Settled(is_slow=True)  # type: ignore[attr-defined]
        yield opened


@pytest.fixture
def run(store: holdfast.Store, postgres_url: str) -> Iterator[Run]:
    """Statements past the store."""
    with psycopg.connect(postgres_url, autocommit=True, options="-c search_path=holdfast") as connection:

        def execute(statement: str, *parameters: object) -> list[tuple[Any, ...]]:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

        yield execute


@contextmanager
def locked(url: str, session: str) -> Iterator[Callable[[], bool]]:
    """A session that nobody else can write to; says whether somebody waits for it."""
    with psycopg.connect(url, options="-c search_path=holdfast") as connection:
        connection.execute("SELECT 1 FROM sessions WHERE id = %s FOR UPDATE", [session])

        def is_waited_for() -> bool:
            blocked = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))"
            ).fetchone()
            return blocked is not None and blocked[0] > 0

        yield is_waited_for
        connection.rollback()


@contextmanager
def gathered(saving: Saving, url: str) -> Iterator[None]:
    """The first save is under way, held up by a lock until the end of the block, and the others wait for it."""
    with locked(url, FIRST) as is_waited_for:
        saving.start(FIRST)
        until(is_waited_for)
        for name in OTHERS:
            saving.start(name)
        saving.waiting(len(OTHERS))
        yield


def transactions(run: Run, *names: str) -> set[str]:
    """Those that wrote the newest checkpoints of sessions."""
    found = run(
        "SELECT c.xmin::text FROM checkpoints AS c JOIN sessions AS s ON s.number = c.session "
        "WHERE s.id = ANY (%s) AND c.seq = s.last_seq",
        list(names),
    )
    return {each for (each,) in found}


def test_those_who_come_meanwhile_go_together(store: holdfast.Store, run: Run, postgres_url: str) -> None:
    saving = Saving(store)
    with gathered(saving, postgres_url):
        pass
    saving.end()
    saving.all_are_there_once()
    assert len(transactions(run, *OTHERS)) == 1
    assert len(transactions(run, FIRST, *OTHERS)) == 2
    assert saving.is_over()


def held_up(saving: Saving, url: str, seconds: float = 0) -> None:
    """The first save is held up for as long as it takes the others to be done, and was before they came."""
    with locked(url, FIRST) as is_waited_for:
        saving.start(FIRST)
        until(is_waited_for)
        saving.gathering._trips[-1].began -= seconds
        for name in OTHERS:
            saving.start(name)
        saving.end(*OTHERS)
        assert saving.threads[FIRST].is_alive()
    saving.end()
    saving.all_are_there_once()
    assert saving.is_over()


def test_where_trips_are_as_quick_as_they_can_be_nobody_waits(
    store: holdfast.Store, run: Run, postgres_url: str
) -> None:
    saving = Saving(store)
    saving.gathering.pace = Settled(is_slow=False)
    held_up(saving, postgres_url)
    assert len(transactions(run, *OTHERS)) == 3


def test_few_threads_do_not_wait_for_each_other(
    store: holdfast.Store, run: Run, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "_CROWD", 5)
    held_up(Saving(store), postgres_url)
    assert len(transactions(run, *OTHERS)) == 3


def test_a_trip_that_is_held_up_holds_up_nobody_for_long(
    store: holdfast.Store, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "_PATIENCE", 0.05)
    held_up(Saving(store), postgres_url)


def test_a_trip_that_is_held_up_for_long_is_waited_for_no_more(
    store: holdfast.Store, postgres_url: str
) -> None:
    """Else everybody would wait until patience ends, with each save."""
    held_up(Saving(store), postgres_url, seconds=61)


def test_who_is_on_the_way_goes_on_waiting(
    store: holdfast.Store, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Patience ends where one waits to go, not where it is carried already: the same commit would go twice."""
    usual, calls = Statement.execute_each, []

    def carried(self: Statement, *arguments: Any) -> Any:
        calls.append(len(arguments[-1]))
        monkeypatch.setattr(gathering, "_PATIENCE", 0.001)
        assert not saving.gathering._trips[-1].is_over
        # Long enough for those who are carried to look again and again.
        time.sleep(0.2)
        return usual(self, *arguments)

    monkeypatch.setattr(gathering, "_PATIENCE", 0.01)
    monkeypatch.setattr(Statement, "execute_each", carried)
    saving = Saving(store)
    with locked(postgres_url, FIRST) as is_waited_for:
        saving.start(FIRST)
        until(is_waited_for)
        monkeypatch.setattr(gathering, "_PATIENCE", 60.0)
        for name in OTHERS:
            saving.start(name)
        saving.waiting(len(OTHERS))
    saving.end()
    saving.all_are_there_once()
    assert calls == [3]


def test_the_main_thread_goes_alone(store: holdfast.Store, postgres_url: str) -> None:
    saving = Saving(store)
    with gathered(saving, postgres_url):
        assert store.session("main").save({"n": 1}).seq == 1
        assert store.session("main").save({"n": 2}).seq == 2
        assert all(each.is_alive() for each in saving.threads.values())
    saving.end()
    saving.all_are_there_once()


def test_without_a_flush_for_each_there_is_nothing_to_gain(postgres_url: str) -> None:
    with holdfast.open(postgres_url, durability="process") as store:
        backend: Any = store._backend
        backend._gathering.pace = Settled(is_slow=True)
        backend._gathering.send = None
        session = store.session("quick")
        session.save({"n": 0})
        saved: list[Any] = []
        thread = threading.Thread(target=lambda: saved.append(session.save({"n": 1})))
        thread.start()
        thread.join()
        assert [each.seq for each in saved] == [2]


def test_what_is_large_goes_alone(
    store: holdfast.Store, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    saving = Saving(store)
    monkeypatch.setattr(gathering, "_LARGEST", 3)
    with locked(postgres_url, FIRST) as is_waited_for:
        saving.start(FIRST)
        until(is_waited_for)
        saving.start("b")
        saving.end("b")
    saving.end()
    saving.all_are_there_once(FIRST, "b")


def test_a_group_has_no_more_than_so_many(
    store: holdfast.Store, run: Run, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    monkeypatch.setattr(gathering, "_MOST", 2)
    saving = Saving(store)
    with gathered(saving, postgres_url):
        pass
    saving.end()
    saving.all_are_there_once()
    assert len(transactions(run, *OTHERS)) == 2


def test_groups_write_chunks_in_one_order(
    store: holdfast.Store, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two groups that wrote the same chunks in another order would wait for each other."""
    usual = Statement.execute_each
    seen: list[Any] = []

    def noted(self: Statement, connection: Any, first: Statement, several: Any) -> Any:
        seen.extend(each[_CHUNK] for each in several)
        return usual(self, connection, first, several)

    monkeypatch.setattr(Statement, "execute_each", noted)
    for names in (OTHERS, OTHERS[::-1]):
        saving = Saving(store, prefix="".join(names))
        with locked(postgres_url, saving.prefix + FIRST) as is_waited_for:
            saving.start(FIRST)
            until(is_waited_for)
            for count, name in enumerate(names, 1):
                saving.start(name)
                saving.waiting(count)
        saving.end()
        assert len(seen) == 3
        assert seen == sorted(seen)
        seen.clear()


def test_one_that_is_refused_takes_nobody_with_it(store: holdfast.Store, run: Run, postgres_url: str) -> None:
    saving = Saving(store)
    with gathered(saving, postgres_url), holdfast.open(postgres_url, durability="process") as other:
        theirs = other.session("c").save({"n": "theirs"})
    saving.end()
    saving.all_are_there_once(FIRST, "b", "d")
    assert isinstance(saving.outcomes["c"], ConflictError)
    assert store.session("c").checkpoint().id == theirs.id
    assert run("SELECT count(*) FROM checkpoints") == [(8,)]


def test_a_session_that_others_have_locked_is_waited_for_by_itself(
    store: holdfast.Store, postgres_url: str
) -> None:
    saving = Saving(store)
    with locked(postgres_url, "c"):
        with gathered(saving, postgres_url):
            pass
        saving.end(FIRST, "b", "d")
        assert saving.threads["c"].is_alive()
    saving.end()
    saving.all_are_there_once()
    # The patience of that group was of its transaction alone.
    with store._backend._pool.connection() as connection:  # type: ignore[attr-defined]
        assert connection.execute("SHOW lock_timeout").fetchone() == ("1min",)


def test_nobody_is_told_before_the_commit(store: holdfast.Store, run: Run, postgres_url: str) -> None:
    """A commit that fails at its very end, after all statements were answered, is no commit."""
    run(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW.message = 'c' THEN RAISE 'as planned'; END IF; RETURN NULL; END $$"
    )
    run(
        "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON checkpoints DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION fail()"
    )
    saving = Saving(store)
    with gathered(saving, postgres_url):
        pass
    saving.end()
    saving.all_are_there_once(FIRST, "b", "d")
    assert isinstance(saving.outcomes["c"], HoldfastError)
    assert store.session("c").load() == {"n": 0, "of": "c"}


def test_a_connection_that_breaks_before_the_commit_loses_nothing(
    store: holdfast.Store, run: Run, postgres_url: str
) -> None:
    # The last of the group, the first time: a sequence never goes back.
    run("CREATE SEQUENCE dawdled")
    run(
        "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW.message = 'd' AND nextval('holdfast.dawdled') = 1 THEN PERFORM pg_sleep(60); END IF; "
        "RETURN NEW; END $$"
    )
    run("CREATE TRIGGER dawdling BEFORE INSERT ON checkpoints FOR EACH ROW EXECUTE FUNCTION dawdle()")
    saving = Saving(store)
    with gathered(saving, postgres_url):
        pass
    sleeping = "FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    until(lambda: run(f"SELECT count(*) {sleeping}") == [(1,)])
    # Meanwhile the process is not held up.
    assert store.session("main").save({"n": 1}).seq == 1
    run(f"SELECT pg_terminate_backend(pid) {sleeping}")
    saving.end()
    saving.all_are_there_once()


def test_a_connection_that_breaks_after_the_commit_doubles_nothing(
    store: holdfast.Store, run: Run, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = asking._until_committed

    def lost(pgconn: Any, count: int) -> Any:
        yield from usual(pgconn, count)
        pgconn.finish()
        raise psycopg.OperationalError("as planned")

    monkeypatch.setattr(asking, "_until_committed", lost)
    saving = Saving(store)
    with gathered(saving, postgres_url):
        pass
    saving.end()
    saving.all_are_there_once()
    assert len(transactions(run, *OTHERS)) == 1


class Interrupted(BaseException):
    """Something that one thread raises in another."""


@pytest.mark.parametrize("failure", [psycopg.OperationalError("as planned"), Interrupted()])
def test_where_nobody_can_tell_what_came_of_it_each_is_told_so(
    store: holdfast.Store, postgres_url: str, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    def lost(pgconn: Any, count: int) -> Any:
        yield from generators.send(pgconn)
        pgconn.finish()
        raise failure

    saving = Saving(store)
    pool = saving.gathering._pool
    with gathered(saving, postgres_url):
        monkeypatch.setattr(asking, "_until_committed", lost)
        usual, taken = pool.take, []

        def once() -> Any:
            # For the group; whoever tries again finds no server.
            taken.append(1)
            if len(taken) > 1:
                raise BackendError("gone", code=ErrorCode.SERVER_GONE, hint="none")
            return usual()

        monkeypatch.setattr(pool, "take", once)
    saving.end()
    errors = [saving.outcomes[name] for name in OTHERS if saving.outcomes[name] is not failure]
    assert len(errors) == (2 if isinstance(failure, Interrupted) else 3)
    for error in errors:
        assert isinstance(error, BackendError), error
        assert error.details["outcome"] == "unknown"


def test_without_a_connection_each_finds_out_for_itself(
    store: holdfast.Store, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    saving = Saving(store)
    with gathered(saving, postgres_url):
        usual, asked = saving.gathering._pool.take, []

        def none_at_first() -> Any:
            asked.append(1)
            if len(asked) == 1:
                raise BackendError("none", code=ErrorCode.TOO_MANY_CONNECTIONS, hint="none")
            return usual()

        monkeypatch.setattr(saving.gathering._pool, "take", none_at_first)
    saving.end()
    # The thread that carries the group is the one that was told.
    refused = [name for name in OTHERS if isinstance(saving.outcomes[name], BackendError)]
    assert len(refused) == 1
    saving.all_are_there_once(FIRST, *(name for name in OTHERS if name not in refused))


@pytest.mark.parametrize("done", [False, True])
def test_who_was_carried_by_a_thread_that_is_interrupted_goes_on(
    store: holdfast.Store, postgres_url: str, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    usual = Statement.execute_each

    def interrupted(self: Statement, *arguments: Any) -> Any:
        if done:
            usual(self, *arguments)
        raise Interrupted

    monkeypatch.setattr(Statement, "execute_each", interrupted)
    saving = Saving(store)
    with gathered(saving, postgres_url):
        pass
    saving.end()
    stopped = [name for name in OTHERS if isinstance(saving.outcomes[name], Interrupted)]
    assert len(stopped) == 1
    saving.all_are_there_once(FIRST, *(name for name in OTHERS if name not in stopped))
    assert saving.is_over()


@pytest.mark.parametrize("called", [False, True])
def test_who_is_interrupted_while_waiting_leaves_nobody_behind(
    store: holdfast.Store, postgres_url: str, monkeypatch: pytest.MonkeyPatch, called: bool
) -> None:
    """Python does not interrupt a thread that waits for a lock, but may when it has it."""
    usual = Gathering._is_to_lead
    stopped = threading.Event()

    def interrupted(self: Gathering, mine: Any, trip: Any) -> bool:
        if not stopped.is_set():
            self._waiting.append(mine)
            stopped.set()
            if called:
                mine.wake.acquire()
            raise Interrupted
        return usual(self, mine, trip)

    monkeypatch.setattr(Gathering, "_is_to_lead", interrupted)
    monkeypatch.setattr(gathering, "_PATIENCE", 0.25 if called else 60.0)
    saving = Saving(store)
    with locked(postgres_url, FIRST) as is_waited_for:
        saving.start(FIRST)
        until(is_waited_for)
        saving.start("b")
        until(stopped.is_set)
        if not called:
            saving.end("b")
        saving.start("c")
        saving.start("d")
        if not called:
            saving.waiting(2)
    saving.end()
    assert isinstance(saving.outcomes["b"], Interrupted)
    saving.all_are_there_once(FIRST, "c", "d")
    assert saving.is_over()


@pytest.mark.parametrize("step", ["_take_along", "_call_next"])
@pytest.mark.parametrize("done", [False, True])
def test_nobody_waits_for_ever_for_a_thread_that_is_interrupted(
    store: holdfast.Store, postgres_url: str, monkeypatch: pytest.MonkeyPatch, step: str, done: bool
) -> None:
    """Before or after the steps by which others are taken along, and let go."""
    usual = getattr(Gathering, step)
    stopped: list[threading.Thread] = []

    def interrupted(self: Gathering, *arguments: Any) -> None:
        if done or stopped:
            usual(self, *arguments)
        if not stopped:
            stopped.append(threading.current_thread())
            raise Interrupted

    saving = Saving(store)
    monkeypatch.setattr(gathering, "_PATIENCE", 0.25)
    with gathered(saving, postgres_url):
        monkeypatch.setattr(Gathering, step, interrupted)
    saving.end()
    gone = [name for name, thread in saving.threads.items() if thread in stopped]
    assert len(gone) == 1
    saving.all_are_there_once(*(name for name in saving.threads if name not in gone))
    until(saving.is_over)


@pytest.mark.parametrize("lost", ["holdfast_%", "holdfast_append_%", "holdfast_limit_waits_%"])
def test_what_the_server_kept_and_lost_is_kept_again(
    store: holdfast.Store, run: Run, postgres_url: str, lost: str
) -> None:
    saving = Saving(store)
    with gathered(saving, postgres_url):
        pass
    saving.end()
    pool = saving.gathering._pool
    with ExitStack() as stack:
        for _ in range(len(pool._idle)):
            connection = stack.enter_context(pool.connection())
            names = connection.execute("SELECT name FROM pg_prepared_statements WHERE name LIKE %s", [lost])
            for (name,) in names.fetchall():
                connection.execute(f"DEALLOCATE {name}")
    before = transactions(run, *OTHERS)
    for _ in range(2):
        saving.outcomes.clear()
        with gathered(saving, postgres_url):
            pass
        saving.end()
    assert not [each for each in saving.outcomes.values() if isinstance(each, BaseException)]
    assert len(transactions(run, *OTHERS)) == 1
    assert transactions(run, *OTHERS) != before


def test_a_child_of_a_fork_waits_for_nobody_of_its_parent(store: holdfast.Store) -> None:
    backend: Any = store._backend
    trip = gathering._Trip()
    backend._gathering._trips.append(trip)
    backend.after_fork_in_child()
    assert not list(backend._gathering._trips)
    assert not backend._gathering.pace.is_slow


def test_many_threads_save_all_they_have(store: holdfast.Store, run: Run) -> None:
    def work(number: int) -> None:
        session = store.session(f"many-{number}")
        for step in range(40):
            session.save({"n": step, "by": number}, step=step)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(8):
        session = store.session(f"many-{number}")
        assert [each.step for each in session.log()] == list(range(39, -1, -1))
        assert session.load("@~7") == {"n": 32, "by": number}
    assert run("SELECT count(DISTINCT xmin::text) < count(*) FROM checkpoints") == [(True,)]
    assert not store.verify().problems
