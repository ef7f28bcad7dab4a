"""Connections: shared by threads, one user at a time, always given back, none left behind."""

from __future__ import annotations

import gc
import os
import threading
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from holdfast.backends.sqlite import SqliteBackend
from holdfast.errors import ErrorCode, IntegrityError, StateError
from holdfast.storage.records import Query
from holdfast.testing.rows import batch, checkpoint_id, contents, row, save

from .conftest import Open
from .test_sqlite_damage import spoil


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


def test_one_thread_uses_one_connection(store: SqliteBackend) -> None:
    for number in range(10):
        store.commit(save(f"{number}", after=f"{number - 1}" if number else None))
        contents(store)
    assert len(store._pool._idle) == 1


def test_the_connection_given_back_last_is_taken_first(store: SqliteBackend) -> None:
    first, second = store._pool.take(), store._pool.take()
    assert first is not second
    store._pool.give(first)
    store._pool.give(second)
    assert store._pool.take() is second


def test_only_a_few_idle_connections_are_kept(path: Path, store: SqliteBackend) -> None:
    taken = [store._pool.take() for _ in range(7)]
    for each in taken:
        store._pool.give(each)
    assert len(store._pool._idle) == 4


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
    assert store._pool._taken == {}
    # The file, the WAL and the index of the WAL for each connection; no more than four are kept.
    assert descriptors(path) <= 3 * 4


def test_a_thread_that_dies_in_a_read_leaves_nothing_behind(path: Path, store: SqliteBackend) -> None:
    def die() -> None:
        with suppress(ZeroDivisionError), store.reader() as reader:
            reader.sessions()
            raise ZeroDivisionError

    for _ in range(10):
        thread = threading.Thread(target=die)
        thread.start()
        thread.join()
    assert store._pool._taken == {}
    assert len(store._pool._idle) == 1


def unread_wal_can_be_emptied(path: Path) -> bool:
    """Whether no view of the store is open: a WAL that somebody reads cannot be emptied."""
    connection = apsw.Connection(str(path), vfs="cksmvfs")
    ((busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    return busy == 0


def test_a_connection_that_nobody_gives_back_does_not_keep_the_log(path: Path, store: SqliteBackend) -> None:
    store.commit(save("a"))
    before = descriptors(path)

    def interrupted() -> None:
        # As when Ctrl-C comes right after it was taken, or right before it is given back.
        connection = store._pool.take()
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM checkpoints").fetchall()
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        interrupted()
    gc.collect()
    store.commit(save("b", after="a"))
    assert len(store._pool._taken) == 0
    assert descriptors(path) == before
    ((busy, *_),) = store._pool.take().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    assert not busy


def test_a_view_ends_with_its_block_whatever_happens(path: Path, store: SqliteBackend) -> None:
    for number in range(5):
        store.commit(batch(row(f"{number}", metadata='{"k":1}')))
    with suppress(ZeroDivisionError), store.reader() as reader:
        assert len(reader.checkpoints(Query(metadata=((("k",), "1"),), limit=2))) == 2
        store.commit(batch(row("meanwhile")))
        assert not unread_wal_can_be_emptied(path)
        raise ZeroDivisionError
    assert unread_wal_can_be_emptied(path)


def test_a_view_ends_though_an_error_of_it_is_kept(path: Path, store: SqliteBackend) -> None:
    for number in range(5):
        store.commit(batch(row(f"{number}")))
    spoil(path, "UPDATE checkpoints SET message = 'changed' WHERE position = 3")
    with store.reader() as reader:
        with pytest.raises(IntegrityError) as kept:
            reader.checkpoints(Query())
        store.commit(batch(row("meanwhile")))
    assert unread_wal_can_be_emptied(path)
    assert kept.value.code is ErrorCode.ROW_DAMAGED


def test_errors_of_the_caller_inside_a_view_are_the_callers(store: SqliteBackend) -> None:
    for kind in (OverflowError, UnicodeDecodeError("utf-8", b"x", 0, 1, "mine"), apsw.SQLError):
        with pytest.raises(kind if isinstance(kind, type) else type(kind)), store.reader():
            raise kind


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


def test_a_batch_with_some_known_checkpoints_adds_the_others(store: SqliteBackend) -> None:
    (known,) = store.commit(batch(row("a", key="k"))).checkpoints
    for rows in ((row("new1"), row("a", key="k")), (row("a", key="k"), row("new2", key="l"))):
        receipt = store.commit(batch(*rows))
        assert known in receipt.checkpoints
    assert [each.seq for each in contents(store).checkpoints] == [3, 2, 1]
    assert store.commit(batch(row("b"), row("b"))).checkpoints[0].seq == 4


def test_closing_empties_the_wal_and_lets_go_of_the_files(path: Path, open_store: Open) -> None:
    backend = open_store()
    backend.commit(save("a"))
    assert path.with_name("store.db-wal").stat().st_size > 0
    assert descriptors(path) > 0
    backend.close()
    backend.close()
    assert descriptors(path) == 0
    assert [each.name for each in path.parent.iterdir()] == ["store.db"]


def test_closing_lets_a_read_finish(path: Path, open_store: Open) -> None:
    backend = open_store()
    backend.commit(save("a"))
    with backend.reader() as reader:
        backend.close()
        assert reader.session("work") is not None
        with pytest.raises(StateError) as caught:
            backend.commit(save("b", after="a"))
        assert caught.value.code is ErrorCode.STORE_CLOSED
    assert descriptors(path) == 0


def test_two_backends_of_one_process_share_a_file(open_store: Open) -> None:
    first, second = open_store(), open_store()
    first.commit(save("a"))
    second.commit(save("b", after="a"))
    first.close()
    second.commit(save("c", after="b"))
    assert len(contents(second).checkpoints) == 3
