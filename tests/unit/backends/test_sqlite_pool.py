"""Connections: shared by threads, one user at a time, always given back, none left behind."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from holdfast.backends.sqlite import SqliteBackend
from holdfast.errors import StateError
from holdfast.storage.records import Query
from holdfast.testing.rows import batch, checkpoint_id, contents, row, save

from .conftest import Open


def descriptors(path: Path) -> int:
    """How many open descriptors of this process lead to a store."""
    count = 0
    for each in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{each}").startswith(str(path))
        except OSError:
            # It was the one of the listing itself.
            continue
    return count


def test_threads_write_and_read_at_once_and_nothing_is_lost(path: Path, store: SqliteBackend) -> None:
    failures: list[BaseException] = []

    def work(name: int) -> None:
        try:
            for number in range(25):
                store.commit(batch(row(f"{name}-{number}", session=f"s{name}"), session=f"s{name}"))
                with store.reader() as reader:
                    rows = reader.checkpoints(Query(session=f"s{name}"))
                assert [each.seq for each in rows] == list(range(number + 1, 0, -1))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    assert [each.position for each in contents(store).checkpoints] == list(range(200, 0, -1))
    # The file, the WAL and the index of the WAL; SQLite puts off closing some of them.
    assert descriptors(path) <= 3 * 8


def test_a_view_that_has_ended_does_not_answer(store: SqliteBackend) -> None:
    store.commit(save("a"))
    with store.reader() as reader:
        assert reader.session("work") is not None
    for ask in (
        lambda: reader.session("work"),
        lambda: reader.checkpoint(checkpoint_id("a")),
        lambda: reader.checkpoints(Query()),
        lambda: reader.chunks([]),
        reader.stats,
    ):
        with pytest.raises(StateError):
            ask()


def test_a_commit_inside_a_view_does_not_wait_for_it(store: SqliteBackend) -> None:
    with store.reader() as reader:
        store.commit(save("a"))
        assert reader.sessions() == []
    assert len(contents(store).sessions) == 1


def test_closing_empties_the_wal_and_lets_go_of_the_files(path: Path, open_store: Open) -> None:
    backend = open_store()
    backend.commit(save("a"))
    assert path.with_name("store.db-wal").stat().st_size > 0
    assert descriptors(path) > 0
    backend.close()
    backend.close()
    assert descriptors(path) == 0
    assert [each.name for each in path.parent.iterdir()] == ["store.db"]
