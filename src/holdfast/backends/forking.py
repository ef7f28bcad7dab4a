"""What has to happen around a fork: quiet before it, fresh locks after it.

A child gets a copy of the forking thread only. A lock that another thread held would stay locked in it for ever, and a
half-done change would stay half done. So each backend that is open is told before the fork, waits until nothing is in
flight, and is told again on both sides. Programs started with `subprocess` share nothing and need none of this.
"""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import AbstractContextManager
from itertools import count
from typing import Protocol


class Forkable(Protocol):
    """Something that holds locks or connections which a fork must not copy."""

    def before_fork(self) -> None:
        """Become quiet and stay so. Must not raise: nobody could catch it."""

    def after_fork_in_parent(self) -> None:
        """Go on."""

    def after_fork_in_child(self) -> None:
        """Go on with fresh locks: those of other threads are still locked."""


class _Watch:
    """The open backends of this process, in the order in which they were opened.

    The order matters: two threads that fork at once must stop the backends in the same order.
    """

    def __init__(self) -> None:
        self._numbers = count()
        self._open: weakref.WeakKeyDictionary[Forkable, int] = weakref.WeakKeyDictionary()
        self._stopped: list[Forkable] = []
        # Reentrant: a signal handler that forks may run in the thread that holds it.
        self.steady = threading.RLock()
        # Windows has no fork, and no hooks for it.
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._before, after_in_parent=self._parent, after_in_child=self._child)

    def add(self, backend: Forkable) -> None:
        with self.steady:
            self._open[backend] = next(self._numbers)

    def all(self) -> list[Forkable]:
        with self.steady:
            return list(self._open)

    def _before(self) -> None:
        self.steady.acquire()
        self._stopped = sorted(self._open, key=self._open.__getitem__)
        for backend in self._stopped:
            backend.before_fork()

    def _parent(self) -> None:
        for backend in reversed(self._stopped):
            backend.after_fork_in_parent()
        self._stopped = []
        self.steady.release()

    def _child(self) -> None:
        self.steady = threading.RLock()
        for backend in reversed(self._stopped):
            backend.after_fork_in_child()
        self._stopped = []


_WATCH = _Watch()


def no_fork() -> AbstractContextManager[object]:
    """A block in which the process does not fork; one thread at a time. Keep it short."""
    return _WATCH.steady


def watch(backend: Forkable) -> None:
    """Tell this object about forks for as long as it lives."""
    _WATCH.add(backend)


def watched() -> list[Forkable]:
    """The backends of this process: all that are open, and closed ones that somebody still holds."""
    return _WATCH.all()
