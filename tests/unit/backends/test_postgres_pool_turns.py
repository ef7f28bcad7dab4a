"""More users than connections, and users who are interrupted: everybody has a turn, and no place is lost."""

from __future__ import annotations

import gc
import threading
from contextlib import ExitStack
from queue import SimpleQueue

import pytest

psycopg = pytest.importorskip("psycopg")

from tests.unit.backends.test_postgres_pooling import process, run  # noqa: E402

from holdfast.backends.postgres import pooling  # noqa: E402
from holdfast.backends.postgres.connecting import Connected  # noqa: E402
from holdfast.backends.postgres.pooling import Pool  # noqa: E402
from holdfast.errors import BackendError, ErrorCode  # noqa: E402
from holdfast.testing.faults import failing  # noqa: E402


def test_more_users_than_connections_wait_for_their_turn(open_pool):
    pool = open_pool(most=2)
    found: list[int] = []

    def work() -> None:
        for _ in range(20):
            found.append(process(pool))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 160
    assert len(set(found)) <= 2


def interrupting(method: str, *, after: bool):
    """The same method, with Ctrl-C before or after it."""
    usual = getattr(Pool, method)

    def interrupted(pool: Pool, *arguments):
        if after:
            usual(pool, *arguments)
        raise KeyboardInterrupt

    return interrupted


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("method", ["_hand_over", "_open_another", "_connected", "_take_idle"])
def test_who_is_interrupted_leaves_no_place_taken(open_pool, monkeypatch, method, after):
    """Wherever Ctrl-C comes, and whether or not there was a connection by then: the only place there is is free."""
    pool = open_pool(timeout=60.0, most=1)
    for _ in range(3):
        with ExitStack() as stack:
            if method == "_hand_over":
                # Nobody waits but for a connection that somebody has.
                stack.enter_context(pool.connection())
            patch = stack.enter_context(monkeypatch.context())
            patch.setattr(Pool, method, interrupting(method, after=after))
            with pytest.raises(KeyboardInterrupt), pool.connection():
                pass
        # A connection that was nobody's is collected, and with it goes its place.
        gc.collect()
        with pool.connection() as connection:
            assert connection.execute("SELECT 1").fetchall() == [(1,)]
        for each in pool._idle:
            each.close()
        assert not pool._queue


def test_who_is_interrupted_while_looking_at_a_connection_puts_it_back(open_pool, monkeypatch):
    pool = open_pool(most=1)
    with pool.connection() as first:
        pass
    with monkeypatch.context() as patch:
        patch.setattr(pooling, "is_quiet", failing(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt), pool.connection():
            pass
    with pool.connection() as connection:
        assert connection is first


def test_who_is_interrupted_while_giving_back_leaves_nothing_behind(open_pool, monkeypatch):
    pool = open_pool(most=1)
    with monkeypatch.context() as patch:
        patch.setattr(Connected, "rollback", failing(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt), pool.connection() as connection:
            connection.execute("BEGIN")
    assert connection.closed
    with pool.connection() as other:
        assert other is not connection


def test_who_waits_is_handed_the_next_one_in_the_order_of_waiting(open_pool, monkeypatch):
    # Nobody would look again by himself before the test is over.
    monkeypatch.setattr(pooling, "_FIRST_PAUSE", 1e6)
    pool = open_pool(timeout=1e6, most=1)
    order: list[int] = []

    def work(number: int) -> None:
        with pool.connection():
            order.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    with pool.connection():
        for number, thread in enumerate(threads):
            thread.start()
            while len(pool._queue) <= number:
                pass
    for thread in threads:
        thread.join(300)
    assert order == [0, 1, 2, 3, 4, 5]


def test_who_uses_it_over_and_over_does_not_keep_others_from_it(open_pool):
    pool = open_pool(timeout=60.0, most=1)
    uses, done = 0, threading.Event()

    def work() -> None:
        with pool.connection():
            done.set()

    thread = threading.Thread(target=work)
    with pool.connection():
        thread.start()
        while not pool._queue:
            pass
    while not done.is_set():
        with pool.connection():
            uses += 1
    thread.join()
    # As many as it takes to see that it was done; the other one came first.
    assert uses <= 1


def test_what_was_handed_to_somebody_who_left_goes_to_others(open_pool):
    pool = open_pool(timeout=60.0, most=1)
    waiter: SimpleQueue[Connected] = SimpleQueue()
    pool._queue.append(waiter)
    with pool.connection() as connection:
        pass
    assert not pool._idle
    pool._leave(waiter)
    assert pool._idle == [connection]


def test_ctrl_c_at_any_moment_leaves_the_pool_to_the_others(postgres_url):
    """With real signals, which come between any two steps."""
    program = (
        "import random, signal, time\n"
        "def interrupt(*_): raise KeyboardInterrupt\n"
        "signal.signal(signal.SIGALRM, interrupt)\n"
        "pool._most = 1\n"
        "end = time.monotonic() + 3\n"
        "count = 0\n"
        "while time.monotonic() < end or count < 20:\n"
        "    try:\n"
        "        try:\n"
        "            signal.setitimer(signal.ITIMER_REAL, random.uniform(2e-5, 8e-4))\n"
        "            while True:\n"
        "                with pool.connection(): pool._open_another(0.0); pool._hand_over()\n"
        "        finally:\n"
        "            signal.setitimer(signal.ITIMER_REAL, 0)\n"
        "    except KeyboardInterrupt:\n"
        "        count += 1\n"
        "    if count % 20 == 0:\n"
        "        thread = threading.Thread(target=use, daemon=True); thread.start(); thread.join(60)\n"
        "        if thread.is_alive(): sys.exit('nobody else gets a connection any more')\n"
        "sys.exit(count < 20)\n"
    )
    done = run(program, postgres_url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_waiting_for_a_turn_ends_with_the_timeout(open_pool):
    # A slow machine may need longer than the time-out for the first connection itself.
    holder = open_pool(timeout=60.0, most=1)
    with holder.connection():
        holder._timeout = 0.1
        with pytest.raises(BackendError) as caught, holder.connection():
            pass
        # Nothing is handed any more to somebody who has left.
        assert not holder._queue
    assert caught.value.code is ErrorCode.STORE_LOCKED
    assert "all 1 connections" in str(caught.value)


def test_who_comes_now_does_not_go_before_those_who_wait(open_pool):
    pool = open_pool(timeout=60.0, most=1)
    with pool.connection() as connection:
        pass
    first: SimpleQueue[Connected] = SimpleQueue()
    # As between the two steps of giving one back.
    pool._queue.append(first)
    pool._timeout = 0.05
    with pytest.raises(BackendError), pool.connection():
        pass
    assert first.get_nowait() is connection
