"""Metrics: what a store counts about its own work, in this process.

Each Store object has one. Counting is part of every save, so a save only puts its figures down; they are added up many
at a time, or when somebody looks. What is shown to people and programs is made from a copy, in `figures`.
"""

from __future__ import annotations

import os
import threading
import weakref
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

MILLISECONDS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000)
"""Upper bounds of the buckets for times: a save to a local disk takes about one, a large one over a network seconds."""

_NANOSECONDS: Final = tuple(round(bound * 1_000_000) for bound in MILLISECONDS)
"""The same, as the clock tells them: whole numbers add up exactly."""

BYTES: Final = (256, *(1 << n for n in range(10, 31, 2)))
"""Upper bounds of the buckets for sizes: 256 bytes, then 1 KiB to 1 GiB, each four times the one before."""

_TOGETHER: Final = 128
"""Saves that are added up at once."""

Removed = Callable[[str, str, int, Sequence[str]], None]
"""Told of a session, why checkpoints were removed from it, how many, and their ids."""


class Histogram:
    """How many values lie in which bucket, and what they add up to. Its owner has the lock."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[int]) -> None:
        self.bounds = bounds
        # One more: for what lies above the last bound.
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0

    def add(self, value: int) -> None:
        """Count a value; it belongs to the first bucket whose bound it does not exceed."""
        bucket = bisect_left(self.bounds, value)
        self.counts[bucket] += 1
        self.total += value

    def add_all(self, values: Sequence[int]) -> None:
        """Count many values, for less than as many times one."""
        # Sorted, there is one search for each bound, and not one for each value.
        ordered, below = sorted(values), 0
        for bucket, bound in enumerate(self.bounds):
            up_to = bisect_right(ordered, bound, below)
            if up_to != below:
                self.counts[bucket] += up_to - below
                below = up_to
        above, more = len(ordered) - below, sum(values)
        # No call from here to the end: a signal handler that counts would come in there, and be lost.
        self.counts[-1] += above
        self.total += more


class Metrics:
    """The counters of one Store object. Safe to use from every thread, and from a signal handler."""

    def __init__(self) -> None:
        self.observers: tuple[Removed, ...] = ()
        self._begin()
        _ALL.add(self)

    def _begin(self) -> None:
        # Reentrant: a signal handler may save while its own thread counts a save.
        self._lock = threading.RLock()
        self._written: deque[tuple[str, str, int, int, int, bool]] = deque()
        self.saves: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.save_sizes = Histogram(BYTES)
        self.save_times = Histogram(_NANOSECONDS)
        self.stored_bytes = 0
        self.failed_saves: defaultdict[str, int] = defaultdict(int)
        self.conflicts = 0
        self.load_times = Histogram(_NANOSECONDS)
        self.pruned: defaultdict[str, int] = defaultdict(int)
        self.resumes = 0
        self.steps_recovered = 0

    def saved(
        self,
        trigger: str,
        status: str,
        size: int,
        stored: int,
        nanoseconds: int,
        forked: bool,  # noqa: FBT001
    ) -> None:
        """Count a checkpoint that was written: the size of its state, what that added to the store, how long it took.

        Without a lock: to append is one step, whoever else does so. All by place, because keywords cost more.
        """
        self._written.append((trigger, status, size, stored, nanoseconds, forked))
        if len(self._written) >= _TOGETHER:
            self._add_up()

    def save_failed(self, code: str, *, conflict: bool) -> None:
        """Count a save that the store refused or could not write."""
        with self._lock:
            self.failed_saves[code] += 1
            if conflict:
                self.conflicts += 1

    def loaded(self, nanoseconds: int) -> None:
        """Count a state that was read, and how long that took."""
        with self._lock:
            self.load_times.add(nanoseconds)

    def removed(
        self, session: str, reason: str, ids: Sequence[str] = (), *, count: int | None = None
    ) -> None:
        """Count checkpoints that were taken out of history, and tell the observers; forgotten ones have no ids."""
        count = len(ids) if count is None else count
        if not count:
            return
        with self._lock:
            self.pruned[reason] += count
        for observer in self.observers:
            observer(session, reason, count, ids)

    def resumed(self, steps: int | None = None) -> None:
        """Count an agent that goes on from a checkpoint, and the steps that it did not have to do again."""
        with self._lock:
            self.resumes += 1
            self.steps_recovered += steps or 0

    def observe_removals(self, observer: Removed) -> Callable[[], None]:
        """Have a function told of each removal through this store; what is returned ends that.

        It is called by whoever removes, right after: it must be quick, and must not raise.
        """
        with self._lock:
            self.observers = (*self.observers, observer)

        def stop() -> None:
            with self._lock:
                self.observers = tuple(each for each in self.observers if each is not observer)

        return stop

    def _take(self) -> list[tuple[str, str, int, int, int, bool]]:
        batch = []
        while True:
            try:
                batch.append(self._written.popleft())
            except IndexError:
                # Not asked for before: a signal handler may have taken the last one in between.
                return batch

    def _add_up(self) -> None:
        """Move what was written into the counters. Many at once cost a third of as many times one."""
        with self._lock:
            batch = self._take()
            if not batch:
                return
            triggers, statuses, sizes, stored, times, forked = zip(*batch, strict=True)
            for (trigger, status), number in Counter(zip(triggers, statuses, strict=True)).items():
                # Of `auto:<event>` only the first word: there may be any number of events.
                kind = trigger.partition(":")[0], status
                self.saves[kind] += number
            self.save_sizes.add_all(sizes)
            self.save_times.add_all(times)
            more, conflicts = sum(stored), sum(forked)
            # No call from here on, as in `Histogram.add_all`.
            self.stored_bytes += more
            self.conflicts += conflicts

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """While this lasts, everything is added up, and nobody changes the numbers."""
        with self._lock:
            self._add_up()
            yield

    def after_fork(self) -> None:
        """Begin at nothing in the child: the numbers so far are the parent's, and so is who holds the lock."""
        self.observers = ()
        self._begin()


_ALL: weakref.WeakSet[Metrics] = weakref.WeakSet()


def _begin_anew() -> None:
    for metrics in list(_ALL):
        metrics.after_fork()


# Windows has no fork, and no hooks for it.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
