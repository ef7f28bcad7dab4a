"""Retention that looks after itself: with each save of a session that was opened with `keep=`.

Rows go in the commit of the save (`along`), or afterwards where they could not. A checkpoint is saved, and stays saved,
whatever goes wrong here: trouble is a warning. The work per save is bounded. Chunks that nothing needs are collected a
small step at a time, with each save, once enough rows have gone to make it worth looking through the store, and unless
another process is at it.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Generator
from functools import partial
from typing import Final

# For its hooks, which have to be registered before those below: the last ones are called first before a fork.
import holdfast.backends.forking  # noqa: F401
from holdfast.errors import ConflictError, ErrorCode, HoldfastError, HoldfastWarning
from holdfast.history.keep import Keep
from holdfast.storage.ports import Backend
from holdfast.storage.records import Swept
from holdfast.store.collecting import collecting
from holdfast.store.metrics import Metrics
from holdfast.store.place import Place
from holdfast.store.policies import Coming
from holdfast.store.progress import silent
from holdfast.store.retiring import MOST_ALONG, Gone, Retirement, retire, retirement_with

_WORTH_COLLECTING: Final = 64
"""Removed checkpoints; looking through the store for fewer frees little."""

_STALE_AFTER: Final = 600.0
"""Seconds without a sign of another collection until this one may take over. Waiting costs nothing but room, and a step
comes with a save: sooner, processes that save seldom would take over from each other, and none would get to the end."""

_LINGERING: Final = 64
"""Saves; each time a collection has taken so many more, it takes one step more with each. Whatever other processes and
large states leave for it to do, it comes to an end."""

_LOOKED_AT_EACH_SAVE: Final = 256
"""Checkpoints; a session that keeps more is looked through less often, so that a save does not cost its history."""

_PATIENCE: Final = 2.0
"""Seconds; a step takes far less, so whoever waits longer waits for itself: a signal handler inside of a step."""


class Upkeep:
    """The retention of one store in one process."""

    def __init__(self, backend: Backend, metrics: Metrics) -> None:
        self._backend = backend
        self._metrics = metrics
        # Held for one step of collecting: other threads go without, and take the next one.
        self._turn = threading.Lock()
        # All are touched by several threads at once, and are no more than hints about when to look.
        self._saves_left: dict[str, int] = {}
        self._large: set[str] = set()
        self._removed = 0
        self._saves = 0
        self._collecting: Generator[Swept, None, None] | None = None
        self._paused = False
        _ALL.add(self)

    def along(self, place: Place, keep: Keep) -> Callable[[Coming], Retirement | None] | None:
        """How to find what goes in the commit of the next save; None where that save need not look, or cannot.

        Policies of an agent are for afterwards: they reach into other sessions, and a commit is of one.
        """
        session = place.claim.session
        if keep.per == "agent" or self._saves_left.get(session) or session in self._large:
            return None
        return partial(_retirement, place, keep)

    def went(self, with_save: Retirement) -> None:
        """Count and tell what went in the commit of a save."""
        self._count(with_save.row.session, with_save.gone, with_save.kept)

    def after_save(self, place: Place, keep: Keep, *, is_done: bool) -> None:
        """Remove what has to go, unless it went with the save; and take one step of collecting chunks."""
        try:
            if not is_done:
                self._retire(place, keep)
            self._step()
        except HoldfastError as trouble:
            # The checkpoint is saved; that old ones could not be removed must not look as if it were not.
            warnings.warn(
                f"old checkpoints of session {place.claim.session!r} stay for now: {trouble}",
                HoldfastWarning,
                stacklevel=callers_level(),
            )

    def close(self) -> None:
        """Stop collecting."""
        if self._turn.acquire(timeout=_PATIENCE):
            try:
                self._stop()
            finally:
                self._turn.release()

    def before_fork(self) -> None:
        """Give back the connection of the collection: the fork would wait for it."""
        if self._turn.acquire(timeout=_PATIENCE):
            self._paused = True
            if self._collecting is not None:
                self._stop()
                # The next save begins another one.
                self._removed = _WORTH_COLLECTING

    def after_fork_in_parent(self) -> None:
        """Go on."""
        if self._paused:
            self._paused = False
            self._turn.release()

    def after_fork_in_child(self) -> None:
        """Nothing goes on here but `close`: the child makes one of its own."""
        self._paused = False
        self._turn = threading.Lock()

    def _retire(self, place: Place, keep: Keep) -> None:
        session = place.claim.session
        left = self._saves_left.get(session, 0)
        if left:
            self._saves_left[session] = left - 1
            return
        # Without a lock: each save answers for the cap, and threads of one session settle it by their commits.
        self._count(session, *retire(place, keep))

    def _count(self, session: str, removed: Gone, kept: int) -> None:
        for each, ids in removed.items():
            self._metrics.removed(each, "retention", ids)
            self._removed += len(ids)
        self._saves_left[session] = 0 if kept <= _LOOKED_AT_EACH_SAVE else kept // _LOOKED_AT_EACH_SAVE
        (self._large.add if kept > MOST_ALONG else self._large.discard)(session)

    def _step(self) -> None:
        if not self._turn.acquire(blocking=False):
            return
        try:
            if self._collecting is None:
                if self._removed < _WORTH_COLLECTING:
                    return
                self._collecting = collecting(self._backend, silent, stale_after=_STALE_AFTER)
                self._removed = 0
                self._saves = 0
            self._saves += 1
            for _ in range(1 + self._saves // _LINGERING):
                if next(self._collecting).done:
                    self._stop()
                    break
        except ConflictError as conflict:
            self._stop()
            if conflict.code is not ErrorCode.COLLECTION_RUNNING:
                raise
            # Another process is at it, and the newest collection is the only one that removes anything. What went
            # here meanwhile is for the next one, which this process tries to begin when as much has gone again.
        except BaseException:
            # Whatever was removed until then was not needed; the next collection begins anew.
            self._stop()
            raise
        finally:
            self._turn.release()

    def _stop(self) -> None:
        if self._collecting is not None:
            self._collecting.close()
            self._collecting = None


def _retirement(place: Place, keep: Keep, coming: Coming) -> Retirement | None:
    try:
        return retirement_with(place, keep, coming)
    except HoldfastError:
        # Old rows that cannot be read must not keep a new one from being written; `after_save` says what is wrong.
        return None


def callers_level() -> int:
    """How many frames up the one is that called `save`, of a Session or of a Document."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001 - documented, and what warnings itself uses
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("holdfast."):
        level, frame = level + 1, frame.f_back
    return level


_ALL: weakref.WeakSet[Upkeep] = weakref.WeakSet()


def _tell(moment: str) -> None:
    for upkeep in list(_ALL):
        getattr(upkeep, moment)()


# Windows has no fork, and no hooks for it. Those of the backends were registered earlier, so that they run after these.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _tell("before_fork"),
        after_in_parent=lambda: _tell("after_fork_in_parent"),
        after_in_child=lambda: _tell("after_fork_in_child"),
    )
