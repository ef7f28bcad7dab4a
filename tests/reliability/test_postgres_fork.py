"""A PostgreSQL store across forks, in many threads, and in a process that ends without closing it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from functools import partial

import psycopg
import pytest
from tests.reliability.crews import in_threads
from tests.reliability.witness import in_new_process

import holdfast
from holdfast import Keep

# Later versions of Python warn of what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

THREADS, SAVES = 32, 20


def connections(url):
    """The connections of stores to this database, as the server counts them."""
    with psycopg.connect(url, autocommit=True) as connection:
        return {
            pid
            for (pid,) in connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
                "AND backend_type = 'client backend'"
            )
        }


def save_some(session, name, count):
    for n in range(count):
        session.save({"by": name, "n": n}, message=name, step=n)


def check_session(store, name, saves):
    log = store.session(name).log()
    assert [each.step for each in reversed(log)] == list(range(saves))
    assert [each.seq for each in reversed(log)] == list(range(1, saves + 1))


def test_both_sides_of_a_fork_go_on_with_the_same_store(postgres_url):
    with holdfast.open(postgres_url, timeout=60) as store:
        ours = store.session("ours")
        save_some(ours, "before", 3)
        before = connections(postgres_url)
        assert before

        def in_child():
            # The parent's connections are neither used nor ended from here.
            save_some(store.session("theirs"), "child", 10)
            assert ours.load() == {"by": "before", "n": 2}
            assert before <= connections(postgres_url)
            assert len(connections(postgres_url)) > len(before)
            store.close()
            assert before <= connections(postgres_url)

        in_new_process(in_child)
        assert before <= connections(postgres_url)
        ours.save({"by": "parent", "n": 3}, step=3)
        check_session(store, "ours", 4)
        check_session(store, "theirs", 10)
        assert store.verify().ok


def test_both_sides_save_at_the_same_time_to_the_same_session(postgres_url):
    with holdfast.open(postgres_url, timeout=60) as store:
        store.session("work").save({"by": "before", "n": -1}, message="before", step=-1)
        # The child goes on with what the parent knew of the session, which the parent makes untrue meanwhile.
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for n in range(30):
                    store.session("work").save({"by": "child", "n": n}, message="child", step=n)
                status = 0
            finally:
                os._exit(status)
        for n in range(30):
            store.session("work").save({"by": "parent", "n": n}, message="parent", step=n)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        log = store.session("work").log()
        assert [each.seq for each in log] == list(range(61, 0, -1))
        assert [each.parent for each in log] == [*(each.id for each in log[1:]), None]
        for name in ("parent", "child"):
            assert [each.step for each in reversed(log) if each.message == name] == list(range(30))
        assert store.verify().ok


def test_a_fork_beside_threads_that_save_hurts_neither_side(postgres_url):
    with holdfast.open(postgres_url, timeout=60) as store:
        store.session("first").save({})
        done, under_way = threading.Event(), threading.Semaphore(0)
        counts = {}

        def save_until_done(name):
            session = store.session(name)
            n = 0
            while not done.is_set():
                session.save({"n": n}, step=n)
                n += 1
                under_way.release()
            counts[name] = n

        def fork_often():
            try:
                for number in range(8):
                    for _ in range(8):
                        under_way.acquire()
                    in_new_process(partial(save_some, store.session(f"child {number}"), "child", 3))
            finally:
                done.set()

        in_threads(fork_often, *(partial(save_until_done, f"thread {each}") for each in range(4)))
        for name, count in counts.items():
            check_session(store, name, count)
        for number in range(8):
            check_session(store, f"child {number}", 3)
        assert store.verify().ok


def test_a_fork_with_a_collection_and_a_view_open_leaves_them_to_the_parent(postgres_url):
    with holdfast.open(postgres_url, timeout=60) as store:
        session = store.session("work", keep=Keep(at_most=3))
        save_some(session, "before", 5)
        backend = store._backend
        with backend.reader() as reader, backend.collection() as collection:
            row = reader.session("work")
            in_new_process(partial(save_some, store.session("child"), "child", 3))
            # What the child committed is not of this moment, and the transaction is still the same one.
            assert reader.session("work") == row
            assert reader.session("child") is None
            collection.unneeded()
        check_session(store, "child", 3)
        assert store.verify().ok


def test_32_threads_share_one_store(postgres_url):
    with holdfast.open(postgres_url, timeout=60) as store:

        def work(number):
            own = store.session(f"own {number}")
            for n in range(SAVES):
                own.save({"n": n, "same": list(range(200))}, step=n)
                assert own.load()["n"] == n
                if n % 5 == 0:
                    store.session("all").save({"n": n}, message=str(number), step=n)

        in_threads(*(partial(work, number) for number in range(THREADS)))
        # Threads beyond that waited for their turn.
        # And a few for the turns of those who lose a round.
        assert len(connections(postgres_url)) <= 16 + 4
        for number in range(THREADS):
            check_session(store, f"own {number}", SAVES)
        log = store.session("all").log()
        assert [each.seq for each in log] == list(range(THREADS * SAVES // 5, 0, -1))
        assert len({(each.message, each.step) for each in log}) == len(log)
        assert store.verify().ok


LEAVES = """
import sys, threading, holdfast
store = holdfast.open(sys.argv[1])
session = store.session("work")
for n in range(3):
    session.save({"n": n}, step=n)
{ending}
"""


def leave(url, ending):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", LEAVES.replace("{ending}", ending), url],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def test_a_process_that_ends_without_closing_the_store_ends_quietly(postgres_url):
    for ending in ("", "sys.exit(0)", "del store", "import os; os._exit(0)"):
        done = leave(postgres_url, ending)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), ending
    with holdfast.open(postgres_url, create=False) as store:
        log = store.session("work").log()
        assert [each.step for each in reversed(log)] == [0, 1, 2] * 4
        assert store.verify().ok


def test_a_process_that_dies_in_the_middle_of_an_error_keeps_its_own_error(postgres_url):
    done = leave(postgres_url, "raise RuntimeError('its own')")
    assert done.returncode == 1
    assert done.stderr.strip().endswith("RuntimeError: its own")
