"""A process that forks may go on using its store on both sides."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from holdfast.backends.sqlite import SqliteBackend
from holdfast.testing.rows import batch, contents, row, save

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


def test_a_pool_of_forked_workers_shares_the_store(store: SqliteBackend) -> None:
    SHARED.append(store)
    store.commit(batch(row("parent")))
    with multiprocessing.get_context("fork").Pool(3) as workers:
        assert workers.map(save_one, range(30)) == [True] * 30
    assert len(contents(store).checkpoints) == 31


SHARED: list[SqliteBackend] = []


def save_one(number: int) -> bool:
    shared = SHARED[-1]
    shared.commit(batch(row(f"worker {os.getpid()} {number}")))
    return bool(contents(shared).checkpoints)
