"""Forks: open backends close their connections before one, and take fresh locks in the child.

A child gets a copy of the forking thread only, so a lock that another thread held stays locked in it for ever; and a
SQLite connection must not cross a fork. Fork while other threads are quiet: what they are in the middle of is cut off.
Programs started with `subprocess` share nothing and need none of this.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol

STEADY = threading.RLock()
"""Held while the process forks, and by whoever must not be forked in the middle; keep it short. Reentrant: a signal
handler that forks may run in the thread that holds it."""


class Forkable(Protocol):
    """A backend that holds locks or connections which a fork must not copy."""

    def before_fork(self) -> None:
        """Close every connection. Must not raise: nobody could catch it."""

    def after_fork_in_child(self) -> None:
        """Go on with fresh locks."""


_OPEN: weakref.WeakSet[Forkable] = weakref.WeakSet()


def watch(backend: Forkable) -> None:
    """Tell this backend about forks for as long as it lives."""
    with STEADY:
        _OPEN.add(backend)


def watched() -> list[Forkable]:
    """The backends of this process: all that are open, and closed ones that somebody still holds."""
    with STEADY:
        return list(_OPEN)


def _before() -> None:
    STEADY.acquire()
    for backend in list(_OPEN):
        backend.before_fork()


def _in_child() -> None:
    for backend in list(_OPEN):
        backend.after_fork_in_child()
    STEADY.release()


# Windows has no fork, and no hooks for it.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=STEADY.release, after_in_child=_in_child)
