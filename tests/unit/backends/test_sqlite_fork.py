"""A process that forks may go on using its store on both sides."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from pathlib import Path

import apsw
import pytest

from holdfast.backends.sqlite import SqliteBackend
from holdfast.errors import ErrorCode, StateError
from holdfast.storage.records import Query
from holdfast.testing.rows import batch, contents, row, save

from .conftest import Open
from .test_sqlite_pool import descriptors

InChild = Callable[[Callable[[], object]], int]

# Forking beside threads is what is tested here; Python 3.12 and later warn about it.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_both_sides_of_a_fork_go_on(store: SqliteBackend, in_child: InChild) -> None:
    store.commit(save("a"))

    def work() -> None:
        assert len(contents(store).checkpoints) == 1
        store.commit(save("b", after="a"))
        store.close()

    assert in_child(work) == 0
    store.commit(save("c", after="b"))
    assert len(contents(store).checkpoints) == 3


def test_no_connection_is_open_while_the_process_forks(
    path: Path, store: SqliteBackend, in_child: InChild
) -> None:
    store.commit(save("a"))
    first, second = store._pool.take(), store._pool.take()
    store._pool.give(first)
    store._pool.give(second)
    assert descriptors(path) > 0

    def work() -> None:
        assert descriptors(path) == 0

    assert in_child(work) == 0
    assert len(contents(store).checkpoints) == 1


def test_every_store_of_the_process_is_told(tmp_path: Path, open_store: Open, in_child: InChild) -> None:
    stores = [open_store(tmp_path / f"{number}.db") for number in range(3)]

    def work() -> None:
        assert descriptors(tmp_path) == 0
        for number, each in enumerate(stores):
            each.commit(batch(row(f"child {number}")))

    assert in_child(work) == 0
    assert [len(contents(each).checkpoints) for each in stores] == [1, 1, 1]


def test_forks_beside_threads_that_write_lose_nothing(
    path: Path, store: SqliteBackend, in_child: InChild
) -> None:
    stop = threading.Event()
    acknowledged = [0, 0]

    def write(name: int) -> None:
        while not stop.is_set():
            store.commit(batch(row(f"{name}-{acknowledged[name]}")))
            acknowledged[name] += 1

    writers = [threading.Thread(target=write, args=(name,)) for name in range(2)]
    for each in writers:
        each.start()
    try:
        for number in range(15):

            def work(number: int = number) -> None:
                store.commit(batch(row(f"child {number}")))
                assert contents(store).checkpoints

            assert in_child(work) == 0
    finally:
        stop.set()
        for each in writers:
            each.join()
    store.commit(batch(row("last")))
    assert len(contents(store).checkpoints) == sum(acknowledged) + 15 + 1
    store.close()
    connection = apsw.Connection(str(path), vfs="cksmvfs")
    assert connection.execute("PRAGMA integrity_check").get == "ok"
    connection.close()


def test_a_fork_inside_a_read_ends_that_read_and_nothing_else(
    store: SqliteBackend, in_child: InChild
) -> None:
    store.commit(save("a"))
    with store.reader() as reader:
        assert reader.session("work") is not None

        def work() -> None:
            with pytest.raises(StateError):
                reader.session("work")
            store.commit(save("b", after="a"))

        assert in_child(work) == 0
        with pytest.raises(StateError) as caught:
            reader.session("work")
    assert caught.value.code is ErrorCode.STORE_CLOSED
    assert "fork" in caught.value.hint
    store.commit(save("c", after="b"))
    assert store._pool._taken == {}


def test_a_fork_waits_for_the_reads_of_other_threads(store: SqliteBackend, in_child: InChild) -> None:
    store.commit(save("a"))
    inside, leave, seen = threading.Event(), threading.Event(), []

    def read() -> None:
        with store.reader() as reader:
            inside.set()
            leave.wait()
            # A thread that has a connection may take a second one, or the fork would wait for it in vain.
            store.commit(save("b", after="a"))
            seen.append(reader.checkpoints(Query()))

    thread = threading.Thread(target=read)
    thread.start()
    inside.wait()
    waking = threading.Timer(0.1, leave.set)
    waking.start()
    assert in_child(lambda: contents(store)) == 0
    assert len(seen[0]) == 1
    thread.join()
    waking.join()


def test_a_read_that_holds_up_a_fork_for_too_long_is_cut_off(store: SqliteBackend, in_child: InChild) -> None:
    store.commit(save("a"))
    store._pool._grace = 0.05
    inside, leave = threading.Event(), threading.Event()
    errors: list[StateError] = []

    def read() -> None:
        with store.reader() as reader:
            inside.set()
            leave.wait()
            try:
                reader.session("work")
            except StateError as error:
                errors.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    inside.wait()
    assert in_child(lambda: store.commit(save("b", after="a"))) == 0
    leave.set()
    thread.join()
    assert [each.code for each in errors] == [ErrorCode.STORE_CLOSED]
    store.commit(save("c", after="b"))


def test_threads_that_come_while_a_fork_waits_wait_for_it(store: SqliteBackend) -> None:
    store.commit(save("a"))
    forked = threading.Event()
    late: list[bool] = []

    def fork() -> None:
        store._pool.before_fork()
        forked.set()
        store._pool.after_fork_in_parent()

    def read() -> None:
        with store.reader():
            late.append(forked.is_set())

    with store.reader():
        forking = threading.Thread(target=fork)
        forking.start()
        while not store._pool._forking:
            pass
        reading = threading.Thread(target=read)
        reading.start()
        reading.join(0.05)
        assert reading.is_alive()
    forking.join()
    reading.join()
    assert late == [True]


@pytest.mark.parametrize("lock", ["_turns._lock", "_recent._lock", "_pool._changed"])
def test_a_lock_that_another_thread_holds_does_not_stop_the_child(
    store: SqliteBackend, in_child: InChild, lock: str
) -> None:
    store.commit(save("a"))
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with attrgetter(lock)(store):
            held.set()
            # The pool's lock is waited for, so that its holder must let go by itself.
            release.wait(0.1 if lock == "_pool._changed" else None)

    def work() -> None:
        # A child that waits for ever is ended by this.
        signal.alarm(30)
        store.commit(save("b", after="a"))

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    assert in_child(work) == 0
    release.set()
    holder.join()
    store.commit(save("c", after="b"))


def test_a_child_may_start_threads(store: SqliteBackend, in_child: InChild) -> None:
    def work() -> None:
        signal.alarm(30)
        thread = threading.Thread(target=store.commit, args=(save("a"),))
        thread.start()
        thread.join()
        assert len(contents(store).checkpoints) == 1

    assert in_child(work) == 0


def test_a_child_may_fork_again(store: SqliteBackend, in_child: InChild) -> None:
    def grandchild() -> None:
        store.commit(batch(row("grandchild")))

    def child() -> None:
        store.commit(batch(row("child")))
        assert in_child(grandchild) == 0
        store.commit(batch(row("child again")))

    assert in_child(child) == 0
    store.commit(batch(row("parent")))
    assert len(contents(store).checkpoints) == 4


def test_a_pool_of_forked_workers_shares_the_store(store: SqliteBackend) -> None:
    SHARED.append(store)
    store.commit(batch(row("parent")))
    with multiprocessing.get_context("fork").Pool(3) as workers:
        assert workers.map(save_one, range(30)) == [True] * 30
    assert len(contents(store).checkpoints) == 31


def test_a_closed_store_does_not_mind_a_fork(store: SqliteBackend, in_child: InChild) -> None:
    store.close()

    def work() -> None:
        with pytest.raises(StateError):
            store.commit(save("a"))

    assert in_child(work) == 0


def test_two_threads_may_fork_at_once(store: SqliteBackend, in_child: InChild) -> None:
    statuses: list[int] = []

    def fork(name: int) -> None:
        for number in range(5):
            statuses.append(in_child(partial(store.commit, batch(row(f"{name}-{number}")))))

    threads = [threading.Thread(target=fork, args=(name,)) for name in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert statuses == [0] * 15
    assert len(contents(store).checkpoints) == 15


SHARED: list[SqliteBackend] = []


def save_one(number: int) -> bool:
    shared = SHARED[-1]
    shared.commit(batch(row(f"worker {os.getpid()} {number}")))
    return bool(contents(shared).checkpoints)
