"""What the conformance kit cannot see of the store in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from holdfast.backends.memory import MemoryBackend
from holdfast.storage.records import Query
from holdfast.testing.rows import batch, checkpoint_id, contents, removal, row, save

MANY_THREADS = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_a_commit_copies_the_store_only_under_a_reader() -> None:
    backend = MemoryBackend()
    backend.commit(save("a"))
    before = backend._moment
    backend.commit(save("b", after="a"))
    assert backend._moment is before
    with backend.reader() as reader:
        backend.commit(save("c", after="b"))
        assert backend._moment is not before
        assert len(reader.checkpoints(Query())) == 2
    after = backend._moment
    backend.commit(save("d", after="c"))
    assert backend._moment is after


def test_a_collection_copies_the_store_only_to_change_it_under_a_reader() -> None:
    backend = MemoryBackend()
    (kept, gone) = (backend.commit(save(name, branch=name)).checkpoints[0] for name in "ab")
    backend.commit(removal(gone))
    with backend.collection() as collection, backend.reader() as reader:
        before = backend._moment
        collection.mark([kept.root])
        assert collection.unneeded().chunks == 1
        assert backend._moment is before
        assert collection.sweep(5).chunks == 1
        assert backend._moment is not before
        assert len(reader.chunks([kept.root, gone.root])) == 2


def test_a_reader_left_by_an_error_counts_as_left() -> None:
    backend = MemoryBackend()
    with pytest.raises(KeyError), backend.reader():
        raise KeyError
    before = backend._moment
    backend.commit(save("a"))
    assert backend._moment is before


def test_a_forked_child_goes_on_with_a_copy(in_child: Callable[[Callable[[], object]], int]) -> None:
    backend = MemoryBackend()
    backend.commit(save("a"))

    def work() -> None:
        backend.commit(save("b", after="a"))
        assert len(contents(backend).checkpoints) == 2

    assert in_child(work) == 0
    assert len(contents(backend).checkpoints) == 1
    backend.commit(save("c", after="a"))


@MANY_THREADS
def test_a_fork_does_not_copy_half_a_commit(in_child: Callable[[Callable[[], object]], int]) -> None:
    backend = MemoryBackend()
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            backend.commit(batch(row(f"{number}a"), row(f"{number}b")))

    def check() -> None:
        kept = contents(backend)
        assert len(kept.checkpoints) % 2 == 0
        assert kept.sessions[0].last_seq == len(kept.checkpoints)
        backend.commit(batch(row("child")))

    backend.commit(batch(row("0a"), row("0b")))
    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert [in_child(check) for _ in range(10)] == [0] * 10
    finally:
        stop.set()
        writer.join()


def test_threads_lose_nothing() -> None:
    backend = MemoryBackend()

    def write(name: int) -> None:
        for number in range(50):
            backend.commit(batch(row(f"{name}-{number}", session=f"s{name % 2}"), session=f"s{name % 2}"))

    threads = [threading.Thread(target=write, args=(name,)) for name in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    with backend.reader() as reader:
        rows = reader.checkpoints(Query())
        assert [each.position for each in rows] == list(range(300, 0, -1))
        assert [each.last_seq for each in reader.sessions()] == [150, 150]
        assert reader.checkpoint(checkpoint_id("5-49")) is not None
