"""Subscription: how events reach one subscriber, without the emitter waiting for it.

An event is put into a bounded queue, from whichever thread, and taken out by one consumer: a worker thread for a plain
function, the subscriber's own event loop for a coroutine function, or whoever iterates over a stream. So each of them
sees events in order, one at a time, and one that is slow or stuck costs only itself: its oldest events.

A signal handler may emit while the same thread is inside `put`. Locks here are therefore reentrant, and what they guard
is whole between any two calls.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.recording.events import Event

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future, Task

Handler = Callable[[Event], object]

_IDLE_SECONDS: Final = 10.0
"""A worker without work ends, and the next event starts another: a bus that was let go leaves no thread behind."""


class Subscription:
    """One subscriber of a bus, until it is cancelled. As a context manager it ends with the block."""

    def __init__(self, pattern: str, limit: int, leave: Callable[[Subscription], None]) -> None:
        self.pattern = pattern
        self._limit = limit
        self._leave = leave
        self._lock = threading.RLock()
        self._queue: deque[Event] = deque()
        self._accepted = 0
        self._current = 0
        self._busy = False
        self._ended = False
        self._dropped = 0
        self._delivered = 0
        self._failed = 0
        self._logged: set[type[BaseException]] = set()

    @property
    def dropped(self) -> int:
        """How many events were thrown away, because more than `limit` waited or the subscriber's loop was closed."""
        return self._dropped

    @property
    def delivered(self) -> int:
        """How many events the subscriber was given."""
        return self._delivered

    @property
    def failed(self) -> int:
        """How many of these ended in an exception of the subscriber."""
        return self._failed

    @property
    def pending(self) -> int:
        """How many events wait, the one that is being handled included."""
        with self._lock:
            return len(self._queue) + self._busy

    def cancel(self) -> None:
        """End it. What waits is not delivered; a handler that runs is not interrupted. Again: nothing happens."""
        self._end(discard=True)

    def put(self, event: Event) -> None:
        """Queue an event. Never waits for the subscriber, and never raises."""
        with self._lock:
            if self._ended:
                return
            if len(self._queue) >= self._limit:
                self._queue.popleft()
                self._dropped += 1
            self._queue.append(event)
            self._accepted += 1
        self._wake()

    def mark(self) -> int:
        """The number of the last event that was put."""
        return self._accepted

    def has_passed(self, mark: int) -> bool:
        """Whether all events up to this number were delivered or thrown away."""
        with self._lock:
            if self._busy and self._current <= mark:
                return False
            return self._accepted - len(self._queue) >= mark

    def is_own_turn(self) -> bool:
        """Whether the calling thread is the one that must go on for this subscriber to get anywhere."""
        return False

    def after_fork(self) -> None:
        """Begin anew in the child: what waits is the parent's, and so is whoever was at work."""
        self._lock = threading.RLock()
        self._queue.clear()
        self._busy = False

    def _end(self, *, discard: bool) -> None:
        with self._lock:
            self._ended = True
            if discard:
                self._queue.clear()
        self._leave(self)
        self._wake()

    def _wake(self) -> None:
        raise NotImplementedError

    def _take(self) -> Event | None:
        with self._lock:
            if not self._queue:
                return None
            event = self._queue.popleft()
            self._current = self._accepted - len(self._queue)
            self._busy = True
            self._delivered += 1
            return event

    def _done(self) -> None:
        with self._lock:
            self._busy = False

    def _report(self, error: BaseException) -> None:
        """Log a failure, once for each kind: a subscriber that fails every time would fill the log."""
        self._failed += 1
        if type(error) in self._logged:
            return
        self._logged.add(type(error))
        import logging

        logging.getLogger("holdfast.events").error(
            "a subscriber of %s failed; further failures of this kind are only counted",
            self.pattern,
            exc_info=error,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.pattern!r} pending={self.pending} dropped={self.dropped}>"


class ThreadSubscription(Subscription):
    """A plain function, called on a thread of its own."""

    def __init__(
        self, pattern: str, limit: int, leave: Callable[[Subscription], None], handler: Handler
    ) -> None:
        super().__init__(pattern, limit, leave)
        self._handler = handler
        self._worker: threading.Thread | None = None
        self._bell = _silent_bell()

    def is_own_turn(self) -> bool:
        """Whether this is called from the handler itself."""
        return self._worker is threading.current_thread()

    def after_fork(self) -> None:
        """Threads do not come along."""
        super().after_fork()
        self._worker = None
        self._bell = _silent_bell()

    def _wake(self) -> None:
        with self._lock:
            worker = None
            if self._worker is None and self._queue:
                worker = self._worker = threading.Thread(
                    target=self._work, name=f"holdfast-events {self.pattern}", daemon=True
                )
        if worker is not None:
            try:
                worker.start()
            except RuntimeError as refused:
                # No thread to be had, now or at the end of the program: the event waits, the emitter does not.
                self._worker = None
                self._report(refused)
                return
        try:
            # A lock as a bell: released, it rings. Unlike a condition it can be rung by a signal handler at any point.
            self._bell.release()
        except RuntimeError:
            # It rings already.
            return

    def _work(self) -> None:
        while not self._ended:
            event = self._take()
            if event is not None:
                self._call(event)
            elif not self._bell.acquire(timeout=_IDLE_SECONDS) and self._retire():
                return

    def _retire(self) -> bool:
        with self._lock:
            if self._queue:
                return False
            self._worker = None
            return True

    def _call(self, event: Event) -> None:
        try:
            _refuse_coroutine(self._handler(event))
        except BaseException as error:  # noqa: BLE001 - also SystemExit: whatever it is, the next event has its turn
            self._report(error)
        finally:
            self._done()


class LoopSubscription(Subscription):
    """A coroutine function, run on the event loop that was running when it subscribed."""

    def __init__(
        self,
        pattern: str,
        limit: int,
        leave: Callable[[Subscription], None],
        handler: Callable[[Event], Any],
        loop: AbstractEventLoop,
    ) -> None:
        super().__init__(pattern, limit, leave)
        self._handler = handler
        self._loop = loop
        self._scheduled = False
        self._task: Task[None] | None = None

    def is_own_turn(self) -> bool:
        """Whether this is called from the loop: while the caller waits, the loop does not go on."""
        from asyncio import _get_running_loop

        return _get_running_loop() is self._loop

    def after_fork(self) -> None:
        """The loop is the parent's, and so is this subscriber."""
        super().after_fork()
        self._ended = True
        self._leave(self)

    def _wake(self) -> None:
        with self._lock:
            if self._scheduled or not self._queue:
                return
            self._scheduled = True
        try:
            self._loop.call_soon_threadsafe(self._begin)
        except RuntimeError:
            self._lose_loop()

    def _begin(self) -> None:
        # The loop itself keeps only a weak reference to a task.
        self._task = self._loop.create_task(self._pump())

    async def _pump(self) -> None:
        try:
            while not self._ended and (event := self._next()) is not None:
                await self._call(event)
        except BaseException:
            # Cancelled, as the loop is being shut down: if it goes on after all, the next event begins another one.
            with self._lock:
                self._scheduled = False
            raise

    async def _call(self, event: Event) -> None:
        from asyncio import CancelledError, current_task

        try:
            await self._handler(event)
        except CancelledError as error:
            task = current_task()
            if task is None or task.cancelling():
                raise
            # Something that the handler waited for was cancelled, and not this.
            self._report(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next event has its turn
            self._report(error)
        finally:
            self._done()

    def _next(self) -> Event | None:
        with self._lock:
            event = self._take()
            if event is None:
                # In one piece with the look into the queue: what is put after it wakes the loop again.
                self._scheduled = False
            return event

    def _lose_loop(self) -> None:
        with self._lock:
            self._dropped += len(self._queue)
            self._end(discard=True)
        import logging

        logging.getLogger("holdfast.events").warning(
            "the event loop of a subscriber of %s is closed; it gets no more events", self.pattern
        )


class EventStream(Subscription):
    """Events as an async iterator: `async for event in bus.stream("checkpoint.*")`. It ends when the bus is closed."""

    def __init__(self, pattern: str, limit: int, leave: Callable[[Subscription], None]) -> None:
        super().__init__(pattern, limit, leave)
        self._waiting: list[tuple[AbstractEventLoop, Future[None]]] = []

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while True:
            with self._lock:
                event = self._take()
                # Given is done: nobody tells what the reader does with it.
                self._busy = False
                if event is not None:
                    return event
                if self._ended:
                    raise StopAsyncIteration
                waiting = self._wait()
            await waiting

    async def aclose(self) -> None:
        """End it, for whoever iterates over it too."""
        self.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()

    def is_own_turn(self) -> bool:
        """Nobody can wait for a reader: it may have no wish to read."""
        return True

    def after_fork(self) -> None:
        """The reader is in the parent."""
        super().after_fork()
        self._waiting = []
        self._ended = True
        self._leave(self)

    def finish(self) -> None:
        """Take no more events; what waits can still be read, and then the iteration ends."""
        self._end(discard=False)

    def _wait(self) -> Future[None]:
        from asyncio import get_running_loop

        loop = get_running_loop()
        waiting: Future[None] = loop.create_future()
        self._waiting.append((loop, waiting))
        return waiting

    def _wake(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for loop, future in waiting:
            try:
                loop.call_soon_threadsafe(_finish, future)
            except RuntimeError:
                # A closed loop has nobody left who waits.
                continue


def _finish(future: Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _silent_bell() -> Any:
    bell = threading.Lock()
    bell.acquire()
    return bell


def _refuse_coroutine(result: object) -> None:
    """A function that hands out a coroutine to be awaited was not recognised as one; say so rather than lose it."""
    if hasattr(result, "__await__"):
        close = getattr(result, "close", None)
        if close is not None:
            close()
        raise TypeError("the subscriber returned an awaitable: subscribe a function made with `async def`")
