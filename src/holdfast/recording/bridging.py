"""bridge: what happens in a store, as events on a bus.

A recorder says what it does itself. A bridge adds what it cannot know: checkpoints that other processes, other writers
and plain `session.save` put into the store, seen through `store.watch()`, and removals that were done through the same
Store object. A checkpoint comes once: the bus lets only the first of two announcements through, and the bridge waits
for a recorder of this process that is about to make one. One that is removed before the bridge has looked comes as
removed only: nothing is left in the store to tell of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.errors import BackendError, ErrorCode, HoldfastError, StateError
from holdfast.history.checkpoint import Checkpoint
from holdfast.recording.bus import EventBus
from holdfast.recording.events import CheckpointCreated, CheckpointPruned

if TYPE_CHECKING:
    from holdfast.aio import AsyncStore
    from holdfast.store import Store

_WAIT: Final = 0.25
"""Seconds in one question to the store: a bridge that is closed ends with the one that is under way."""

_AGAIN_AFTER: Final = 1.0
"""Seconds until a store that could not be asked is asked again."""

_PATIENCE: Final = 5.0
"""Seconds; a recorder whose save takes longer gets the event from here, and its own is the one too many."""

_LOOK: Final = 0.002


class Bridge:
    """Made by `bridge`; close it, or use it as a context manager.

    Attributes:
        error: What ended it, if it was not closed: the store was, or is damaged.
    """

    error: HoldfastError | None

    def __init__(self, store: Store | AsyncStore, bus: EventBus, *, session: str | None = None) -> None:
        self.error = None
        self._bus = bus
        self._session = session
        self._stopping = threading.Event()
        wrapped: Any = store
        plain: Store = getattr(wrapped, "_store", wrapped)
        # Here and not in the thread: whatever is saved after this returned is seen.
        self._pages = plain.watch(session=session)
        self._leave = plain._parts.metrics.observe_removals(self._removed)  # noqa: SLF001 - of no use to others
        # A daemon: a program that forgets to close it can still end.
        self._thread = threading.Thread(target=self._run, name="holdfast-bridge", daemon=True)
        self._thread.start()

    def close(self, timeout: float = 5.0) -> None:
        """Stop watching. What was seen before is on the bus when this returns; again: nothing happens."""
        self._leave()
        self._stopping.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        troubled = False
        while not self._stopping.is_set():
            try:
                self._pass_on(_WAIT)
                troubled = False
            except BackendError as trouble:
                # A server that restarts comes back, and the place in the stream is kept: nothing is lost by waiting.
                if not troubled:
                    _log("a bridge cannot ask %s at the moment, and goes on trying", trouble)
                troubled = True
                self._stopping.wait(_AGAIN_AFTER)
            except HoldfastError as end:
                self.error = end
                if not _is_closing(end):
                    _log("a bridge has ended: %s", end)
                return
        try:
            # What was saved before it was told to stop belongs to it.
            while self._pass_on(0):
                pass
        except HoldfastError as end:
            self.error = end

    def _pass_on(self, seconds: float) -> bool:
        page = self._pages.page(seconds) or []
        for checkpoint in page:
            self._let_recorder_first(checkpoint)
            self._bus.emit(CheckpointCreated.of(checkpoint, origin="watch"))
        return bool(page)

    def _let_recorder_first(self, checkpoint: Checkpoint) -> None:
        # Only those that are under way now: one that begins later did not save what is in the store already.
        under_way = self._bus.announcements(checkpoint.session)
        until = time.monotonic() + _PATIENCE
        while under_way and time.monotonic() < until:
            time.sleep(_LOOK)
            under_way &= self._bus.announcements(checkpoint.session)

    def _removed(self, session: str, reason: str, count: int, ids: Sequence[str]) -> None:
        if self._session in (None, session):
            self._bus.emit(CheckpointPruned(session=session, count=count, ids=tuple(ids), reason=reason))


def bridge(store: Store | AsyncStore, bus: EventBus, *, session: str | None = None) -> Bridge:
    """Put what happens in a store onto a bus, for as long as the `with` block lasts or until it is closed.

    Emits `checkpoint.created` (with `origin="watch"`) for checkpoints saved by anybody from this moment on, in the
    order in which the store took them, and `checkpoint.pruned` for removals through this Store object.

    Args:
        store: The store to watch. With an AsyncStore this makes one short call to it, which waits for the answer.
        bus: Where the events go.
        session: Of this session only.
    """
    return Bridge(store, bus, session=session)


def _is_closing(error: HoldfastError) -> bool:
    return isinstance(error, StateError) and error.code is ErrorCode.STORE_CLOSED


def _log(message: str, error: HoldfastError) -> None:
    import logging

    logging.getLogger("holdfast.events").warning(message, error)
