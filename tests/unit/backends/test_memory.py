"""What the conformance kit cannot see of the store in memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.backends.memory import MemoryBackend
from holdfast.testing.rows import contents, save

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
