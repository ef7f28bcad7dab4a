"""Connections shared by threads: through restarts of the server, forks, and the end of the process."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

psycopg = pytest.importorskip("psycopg")

from tests.services.postgres import Role, Server  # noqa: E402
from tests.unit.backends.test_postgres_address import everything_said  # noqa: E402

from holdfast.backends.postgres.errors import is_lost, translated  # noqa: E402
from holdfast.backends.postgres.pooling import Pool  # noqa: E402
from holdfast.errors import BackendError, ErrorCode, HoldfastError, StateError  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def pool(open_pool):
    return open_pool()


@pytest.fixture(scope="module")
def mortal(require) -> Iterator[Server]:
    """A server that tests may kill; they leave it running."""
    require("postgres")
    with Server(fsync=False) as server:
        yield server


def process(pool: Pool) -> int:
    with pool.connection() as connection:
        return ask(connection)


def ask(connection) -> int:
    [(pid,)] = connection.execute("SELECT pg_backend_pid()").fetchall()
    return int(pid)


def filled(pool: Pool, count: int) -> list[int]:
    """Have so many connections open at once, and give all of them back."""
    with ExitStack() as stack:
        return [ask(stack.enter_context(pool.connection())) for _ in range(count)]


def test_a_connection_is_used_again(pool):
    assert len({process(pool) for _ in range(5)}) == 1


def test_two_users_at_once_have_two_connections(pool):
    assert len(set(filled(pool, 3))) == 3


def test_taking_a_connection_sends_nothing(open_pool, postgres):
    role = postgres.create_role()
    postgres.execute(f"ALTER ROLE {role.name} SET log_statement = 'all'")
    # An earlier process may have had the same number.
    before = len(postgres.log)
    pool = open_pool(postgres.url(role=role))
    pid = process(pool)
    for _ in range(10):
        with pool.connection():
            pass
    said = [line for line in postgres.log[before:].splitlines() if f"[{pid}] LOG:" in line]
    # One for the connection, one for its number.
    assert len(said) == 2


def test_a_dedicated_connection_may_take_the_place_of_an_idle_one(open_pool, postgres):
    pool = open_pool(postgres.url(role=postgres.create_role("CONNECTION LIMIT 2")), timeout=10.0)
    filled(pool, 2)
    with pool.dedicated() as connection, pool.connection() as other:
        assert ask(connection) != ask(other)


def test_a_dedicated_connection_is_closed_after_its_use(pool, postgres):
    with pool.dedicated() as connection:
        pid = ask(connection)
        assert process(pool) != pid
    assert connection.closed
    while postgres.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", pid):
        pass


def test_an_open_transaction_does_not_reach_the_next_user(pool):
    with pytest.raises(ZeroDivisionError), pool.connection() as connection:  # noqa: PT012
        first = ask(connection)
        connection.execute("BEGIN")
        connection.execute("CREATE TABLE t ()")
        raise ZeroDivisionError
    with pytest.raises(psycopg.Error), pool.connection() as connection:  # noqa: PT012
        connection.execute("BEGIN")
        connection.execute("SELECT nothing")
    with pool.connection() as connection:
        assert ask(connection) == first
        assert connection.execute("SELECT to_regclass('t')").fetchall() == [(None,)]
        assert connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_an_answer_that_nobody_read_does_not_reach_the_next_user(pool):
    with pytest.raises(KeyboardInterrupt), pool.connection() as connection:  # noqa: PT012
        first = ask(connection)
        connection.pgconn.send_query(b"SELECT 'for somebody else'")
        raise KeyboardInterrupt
    assert process(pool) != first


def test_those_that_are_as_old_as_a_lost_one_are_closed_when_they_are_given_back(pool):
    with ExitStack() as stack:
        old = [stack.enter_context(pool.connection()) for _ in range(3)]
        pool.drop_idle(old[0])
    assert all(each.closed for each in old)
    assert not set(old) & set(pool._idle)


def test_a_connection_that_we_close_ourselves_says_nothing_of_the_others(pool):
    before = set(filled(pool, 3))
    with pytest.raises(ZeroDivisionError), pool.connection() as connection:  # noqa: PT012
        connection.close()
        raise ZeroDivisionError
    assert len(set(filled(pool, 3)) & before) == 2


def test_an_idle_connection_that_the_server_ended_is_not_handed_out(pool, postgres):
    pids = filled(pool, 4)
    for pid in pids:
        postgres.execute("SELECT pg_terminate_backend(%s, 60000)", pid)
    assert not set(filled(pool, 4)) & set(pids)


def test_one_that_is_found_lost_takes_the_other_old_ones_with_it(pool, postgres):
    pids = filled(pool, 4)
    with pytest.raises(psycopg.OperationalError) as caught, pool.connection() as connection:  # noqa: PT012
        postgres.execute("SELECT pg_terminate_backend(%s, 60000)", ask(connection))
        connection.execute("SELECT 1")
    assert is_lost(caught.value)
    # The other three were alive, and are gone all the same: a restart would have closed them too.
    assert not set(filled(pool, 4)) & set(pids)


def test_what_was_opened_since_stays(pool, postgres):
    stack = ExitStack()
    old = [stack.enter_context(pool.connection()) for _ in range(3)]
    for connection in old:
        postgres.execute("SELECT pg_terminate_backend(%s, 60000)", connection.info.backend_pid)
    pool.drop_idle(old[0])
    new = process(pool)
    # The others are found by whoever had them.
    pool.drop_idle(old[1])
    stack.close()
    with ExitStack() as users:
        assert new in [ask(users.enter_context(pool.connection())) for _ in range(4)]


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_after_a_restart_nobody_meets_a_connection_of_before(open_pool, mortal, how):
    pool = open_pool(mortal.url())
    before = filled(pool, 5)
    getattr(mortal, how)()
    mortal.start()
    after = filled(pool, 5)
    assert len(set(after)) == 5
    assert not set(after) & set(before)


def test_a_server_that_is_gone_is_waited_for(open_pool, mortal):
    pool = open_pool(mortal.url())
    process(pool)
    mortal.kill()
    found: list[int] = []

    def dedicated() -> None:
        with pool.dedicated() as connection:
            found.append(ask(connection))

    threads = [threading.Thread(target=lambda: found.append(process(pool))) for _ in range(4)]
    threads.append(threading.Thread(target=dedicated))
    for thread in threads:
        thread.start()
    # Each has tried at least once.
    while pool._connector.failure is None:
        pass
    assert found == []
    mortal.start()
    for thread in threads:
        thread.join()
    assert len(found) == 5


@pytest.mark.parametrize("way", ["connection", "dedicated"])
def test_a_server_that_stays_away_is_an_error_after_the_timeout(open_pool, mortal, way):
    pool = open_pool(mortal.url(), timeout=0.3)
    mortal.stop()
    try:
        for _ in range(2):
            with pytest.raises(BackendError) as caught, getattr(pool, way)():
                pass
            assert caught.value.code is ErrorCode.SERVER_GONE
            assert caught.value.retryable
            assert not is_lost(caught.value)
            assert pool._connector.address.shown in str(caught.value)
    finally:
        mortal.start()


@pytest.mark.parametrize("way", ["connection", "dedicated"])
def test_what_does_not_pass_is_said_at_once(open_pool, postgres, way, caplog, capfd):
    role = postgres.create_role(password="kestrel-under-glass")
    url = postgres.url(role=Role(role.name, "guessed-by-a-heron"))
    # Waiting would be longer than any test run.
    pool = open_pool(url, timeout=1e6)
    with caplog.at_level(logging.DEBUG), pytest.raises(HoldfastError) as caught, getattr(pool, way)():
        pass
    assert caught.value.code is ErrorCode.LOGIN_REFUSED
    said = everything_said(caught.value) + caplog.text + "".join(capfd.readouterr()) + repr(pool)
    assert role.name in said
    assert "heron" not in said


def test_each_waiting_thread_gets_an_error_of_its_own(open_pool, postgres):
    role = postgres.create_role()
    pool = open_pool(postgres.url(role=Role(role.name, "guessed")))
    caught: list[HoldfastError] = []

    def work() -> None:
        try:
            process(pool)
        except HoldfastError as error:
            caught.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(error) for error in caught}) == 4


def test_a_closed_pool_says_so_and_leaves_nothing(open_pool, postgres):
    role = postgres.create_role()
    pool = open_pool(postgres.url(role=role))
    filled(pool, 3)
    before = set(threading.enumerate())
    with pool.connection() as connection:
        pool.close()
        # Who has one may finish.
        ask(connection)
    assert connection.closed
    pool.close()
    for use in (pool.connection, pool.dedicated):
        with pytest.raises(StateError) as caught, use():
            pass
        assert caught.value.code is ErrorCode.STORE_CLOSED
    with pytest.raises(StateError):
        pool.check_open()
    while postgres.execute("SELECT 1 FROM pg_stat_activity WHERE usename = %s", role.name):
        pass
    # One of an earlier test may have ended meanwhile.
    assert set(threading.enumerate()) <= before


def test_parent_and_child_go_on_with_connections_of_their_own(pool, in_child):
    mine = set(filled(pool, 3))

    def child() -> None:
        assert not set(filled(pool, 3)) & mine
        with pool.dedicated() as connection:
            assert ask(connection) not in mine
        pool.close()

    assert in_child(child) == 0
    assert set(filled(pool, 3)) == mine


def test_a_fork_in_the_middle_of_a_use_leaves_it_to_the_parent(pool, in_child):
    with pool.dedicated() as own, pool.connection() as shared:
        shared.execute("BEGIN")
        shared.execute("CREATE TEMP TABLE t AS SELECT 7 AS value")
        pids = ask(own), ask(shared)

        def child() -> None:
            for connection in (own, shared):
                with pytest.raises(BackendError) as caught, translated("url"):
                    connection.execute("SELECT 1")
                assert is_lost(caught.value)
            assert process(pool) not in pids

        assert in_child(child) == 0
        assert shared.execute("SELECT value FROM t").fetchall() == [(7,)]
        assert (ask(own), ask(shared)) == pids
        shared.execute("COMMIT")


def test_a_child_that_leaves_the_block_does_not_close_the_parents_connection(pool, in_child):
    with ExitStack() as stack:
        connections = [stack.enter_context(pool.connection()), stack.enter_context(pool.dedicated())]
        assert in_child(stack.close) == 0
        for connection in connections:
            ask(connection)


def test_a_fork_beside_busy_threads_hangs_nobody(pool, in_child):
    stop = threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while not stop.is_set():
                process(pool)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    statuses = [in_child(lambda: process(pool)) for _ in range(10)]
    stop.set()
    for thread in threads:
        thread.join()
    assert statuses == [0] * 10
    assert failures == []


_PROLOGUE = """
import os, sys, threading
from holdfast.backends.forking import watch
from holdfast.backends.postgres.address import parse
from holdfast.backends.postgres.connecting import Connector
from holdfast.backends.postgres.pooling import Pool
pool = Pool(Connector(parse(sys.argv[1]), durability="power", timeout=60.0), timeout=float(sys.argv[2]))
watch(pool)
def use():
    with pool.connection() as connection:
        connection.execute("SELECT 1")
"""


def run(program: str, url: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", _PROLOGUE + program, url, str(timeout)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=300,  # a hang is what this is about
    )


@pytest.mark.parametrize(
    "program",
    [
        "use()",
        "use(); pool.close()",
        "use(); del pool",
        "taken = pool.connection(); taken.__enter__()",
        # A child that ends in order, with all that Python does then.
        "use()\nif (pid := os.fork()) == 0:\n    sys.exit(0)\nassert os.waitpid(pid, 0)[1] == 0\nuse()",
        "use()\nif (pid := os.fork()) == 0:\n    use(); sys.exit(0)\nassert os.waitpid(pid, 0)[1] == 0\nuse()",
        "threading.Thread(target=lambda: [use() for _ in iter(int, 1)], daemon=True).start(); use()",
    ],
    ids=["open", "closed", "forgotten", "in use", "idle child", "busy child", "daemon thread"],
)
def test_a_process_ends_quietly(program, postgres_url):
    done = run(program, postgres_url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_fork_waits_for_a_thread_that_has_the_lock(postgres_url):
    """In the child nobody would ever give it back."""
    program = (
        "use()\n"
        "held, done = threading.Event(), threading.Event()\n"
        "def hold():\n"
        "    with pool._lock:\n"
        "        held.set(); done.wait(0.2)\n"
        "thread = threading.Thread(target=hold); thread.start(); held.wait()\n"
        "if (pid := os.fork()) == 0:\n"
        "    with pool._lock:\n"
        "        use()\n"
        "    sys.exit(0)\n"
        "status = os.waitpid(pid, 0)[1]\n"
        "thread.join(); use(); sys.exit(status)\n"
    )
    done = run(program, postgres_url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_failures_are_errors_and_no_words_on_standard_error():
    program = "try:\n    use()\nexcept Exception as error:\n    print(type(error).__name__)"
    done = run(program, "postgresql://me:kestrel@127.0.0.1:1/db", 0.2)
    assert (done.returncode, done.stdout, done.stderr) == (0, "BackendError\n", "")


def test_a_process_that_dies_while_its_child_lives_on_ends_its_sessions(postgres):
    role = postgres.create_role()
    program = (
        "use()\n"
        "if os.fork() == 0:\n"
        "    os.close(1); os.close(2)\n"
        "    sys.stdin.read(); os._exit(0)\n"
        "os._exit(0)"
    )
    held, holding = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", _PROLOGUE + program, postgres.url(role=role), "60"], stdin=held, cwd=ROOT
    ) as process:
        os.close(held)
        assert process.wait(300) == 0
        # Its child lives, and holds no copy of the socket: the server sees the end of it.
        while postgres.execute("SELECT 1 FROM pg_stat_activity WHERE usename = %s", role.name):
            pass
        os.close(holding)
