"""What the conformance kit cannot see of the store in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from holdfast.backends.memory import MemoryBackend
from holdfast.storage.records import Query
from holdfast.testing.rows import batch, checkpoint_id, contents, row, save

MANY_THREADS = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


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
