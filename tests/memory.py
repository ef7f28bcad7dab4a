"""What work takes of memory: at its peak, or what is left of it when it is done.

Everything in the process is counted, and not all of it belongs to the work: the table of all interned strings of the
interpreter is made anew now and then, at a few megabytes in a process that has run thousands of tests, and a file name
more may be what does it. Noise of that kind only adds and does not come twice in a row, so what is too much is looked
at again; work that really takes as much takes it each time.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

_LOOKS = 3


def peak(work: Callable[[int], object], *, below: float | None = None) -> int:
    """The bytes that work takes at its peak: the first that are below what is wanted, or the least of three looks.

    Args:
        work: Is told how many looks there were before, for names that must not be there yet.
        below: What is wanted; without it, one look.
    """
    return _least(lambda look: _peak(work, look), below)


def held(work: Callable[[], object], *, below: float) -> int:
    """The bytes that what work returns holds: the first that are below what is wanted, or the least of three looks."""
    return _least(lambda _: _held(work), below)


def _least(look_at: Callable[[int], int], below: float | None) -> int:
    least = look_at(0)
    for look in range(1, _LOOKS):
        if below is None or least < below:
            break
        least = min(least, look_at(look))
    return least


def _held(work: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        made = work()
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
        # Held until it was measured.
        del made
        return taken
    finally:
        tracemalloc.stop()


def _peak(work: Callable[[int], object], look: int) -> int:
    tracemalloc.start()
    try:
        work(look)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
