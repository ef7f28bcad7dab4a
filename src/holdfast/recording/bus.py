"""EventBus: who hears of what happens in this process.

Emitting puts an event into a bounded queue of each subscriber and is done: it never waits for one and never fails
because of one. A plain function is called on a thread of its own, a coroutine function on its event loop, a stream is
read by whoever iterates. Each sees events in order, one at a time. One that is slow costs only itself: its oldest
events.

A signal handler may emit at any point. So `put` takes no lock: a deque is appended to, and a bell is rung.
"""

from __future__ import annotations

import asyncio
import atexit
import inspect
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from holdfast.errors import bad_argument
from holdfast.recording.events import Event, check_pattern, check_type, matches, now, of_application

S = TypeVar("S", bound="Subscription")
Handler = Callable[[Event], object]

LOG = logging.getLogger("holdfast.events")

_LIMIT: Final = 1000
_REMEMBERED: Final = 4096
"""Types whose subscribers are remembered."""
_LOOK_EVERY: Final = 0.002
_AT_EXIT_SECONDS: Final = 1.0


class Subscription:
    """One subscriber of a bus, until it is cancelled. As a context manager it ends with the block."""

    def __init__(self, bus: EventBus, pattern: str, limit: int) -> None:
        self.pattern = check_pattern(pattern)
        # Weak: a worker that waits must not keep a bus alive that nobody has any more, and ends with it.
        self._bus = weakref.ref(bus, lambda _: self._end())
        self._queue: deque[Event] = deque(maxlen=_check_limit(limit))
        self._busy = False
        self._ended = False
        self._logged: set[type[BaseException]] = set()

    @property
    def pending(self) -> int:
        """How many events wait, the one that is being handled included."""
        return len(self._queue) + self._busy

    def cancel(self) -> None:
        """End it. What waits is not delivered; a handler that runs is not interrupted. Again: nothing happens."""
        self._queue.clear()
        self._end()

    def put(self, event: Event) -> None:
        """Queue an event; with too many waiting, the oldest goes. Never waits for the subscriber, and never raises."""
        if not self._ended:
            self._queue.append(event)
            self._wake()

    def _end(self) -> None:
        self._ended = True
        if (bus := self._bus()) is not None:
            bus._remove(self)  # noqa: SLF001 - the bus's own half of a cancel
        self._wake()

    def _wake(self) -> None:
        raise NotImplementedError

    def _take(self) -> Event | None:
        # Busy first: who looks in between must not find neither.
        self._busy = True
        try:
            return self._queue.popleft()
        except IndexError:
            self._busy = False
            return None

    def _blocks(self) -> bool:
        """Whether the calling thread is the one that must go on for this subscriber to get anywhere."""
        return False

    def _report(self, error: BaseException) -> None:
        """Log a failure, once for each kind: a subscriber that fails every time would fill the log."""
        if type(error) not in self._logged:
            self._logged.add(type(error))
            LOG.error(
                "a subscriber of %s failed; more failures of this kind are not logged",
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
        return f"<{type(self).__name__} {self.pattern!r} pending={self.pending}>"


class _ThreadSubscription(Subscription):
    """A plain function, called on a thread of its own."""

    def __init__(self, bus: EventBus, pattern: str, limit: int, handler: Handler) -> None:
        super().__init__(bus, pattern, limit)
        self._handler = handler
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._busy = False
        # A lock as a bell: released, it rings. Unlike a condition, a signal handler may ring it at any point.
        self._bell = threading.Lock()
        self._bell.acquire()
        self._worker = threading.Thread(
            target=self._work, name=f"holdfast-events {self.pattern}", daemon=True
        )
        self._worker.start()

    def _wake(self) -> None:
        if self._pid != os.getpid() and not self._ended:
            # A forked child: the thread stayed with the parent, and so does what waited.
            while len(self._queue) > 1:
                self._queue.popleft()
            self._begin()
        with suppress(RuntimeError):  # it rings already
            self._bell.release()

    def _work(self) -> None:
        while not self._ended or self._queue:
            event = self._take()
            if event is None:
                self._bell.acquire()
                continue
            try:
                _refuse_coroutine(self._handler(event))
            except BaseException as error:  # noqa: BLE001 - also SystemExit: whatever it is, the next event has its turn
                self._report(error)
            finally:
                self._busy = False

    def _blocks(self) -> bool:
        return self._worker is threading.current_thread()


class _LoopSubscription(Subscription):
    """A coroutine function, run on the event loop that was running when it subscribed."""

    def __init__(self, bus: EventBus, pattern: str, limit: int, handler: Callable[[Event], Any]) -> None:
        self._loop = asyncio.get_running_loop()
        super().__init__(bus, pattern, limit)
        self._handler = handler
        self._task: asyncio.Task[None] | None = None

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._begin)
        except RuntimeError:
            if not self._ended:
                LOG.warning(
                    "the event loop of a subscriber of %s is closed; it gets no more events", self.pattern
                )
                self._ended = True
                self.cancel()

    def _begin(self) -> None:
        if self._queue and (self._task is None or self._task.done()):
            # Held here: the loop itself keeps only a weak reference to a task.
            self._task = self._loop.create_task(self._pump())

    async def _pump(self) -> None:
        while (event := self._take()) is not None:
            try:
                await self._handler(event)
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                # Something that the handler waited for was cancelled, and not this.
                self._report(error)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next event has its turn
                self._report(error)
            finally:
                self._busy = False

    def _blocks(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False


class EventStream(Subscription):
    """Events as an async iterator: `async for event in bus.stream("checkpoint.*")`. It ends when the bus is closed."""

    def __init__(self, bus: EventBus, pattern: str, limit: int) -> None:
        super().__init__(bus, pattern, limit)
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        waiting = self._waiting = asyncio.get_running_loop(), asyncio.Event()
        while True:
            waiting[1].clear()
            event = self._take()
            # Given is done: nobody tells what the reader does with it.
            self._busy = False
            if event is not None:
                return event
            if self._ended:
                raise StopAsyncIteration
            await waiting[1].wait()

    async def aclose(self) -> None:
        """End it, for whoever iterates over it too."""
        self.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()

    def _wake(self) -> None:
        if self._waiting is not None:
            loop, there = self._waiting
            with suppress(RuntimeError):  # a closed loop has nobody left who waits
                loop.call_soon_threadsafe(there.set)


class EventBus:
    """Events of one process, and who subscribed to them. Any thread may emit and subscribe.

    Args:
        clock: The time for events that are emitted by their type alone.
    """

    def __init__(self, *, clock: Callable[[], datetime] = now) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._subscriptions: tuple[Subscription, ...] = ()
        self._routes: dict[str, tuple[Subscription, ...]] = {}
        _ALL.add(self)

    def emit(self, event: Event | str, /, *, session: str | None = None, **data: Any) -> None:
        """Tell all subscribers of this type. Returns at once; what they do with it happens elsewhere.

        Args:
            event: An event, or the type of one that is made here if somebody wants it.
            session: Of an event that is made here: the session it is about.
            data: Of an event that is made here: what else there is to say, as plain JSON.
        """
        route = self._route(event.type if isinstance(event, Event) else event)
        if not route:
            return
        if not isinstance(event, Event):
            event = of_application(event, data, session=session, at=self._clock())
        for subscription in route:
            subscription.put(event)

    def wants(self, type: str) -> bool:  # noqa: A002 - the field's name
        """Whether anybody subscribed to events of this type: without, there is no need to make one."""
        return bool(self._route(type))

    def subscribe(self, pattern: str, handler: Handler, *, limit: int = _LIMIT) -> Subscription:
        """Have a function called with each event that a pattern chooses, in order, one at a time.

        A plain function is called on a thread of its own. A coroutine function runs on the event loop that is running
        now. An exception is logged (`holdfast.events`), once for each kind.

        Args:
            pattern: A type, `checkpoint.*` for all below, or `*` for all.
            handler: The function.
            limit: How many events may wait; with more, the oldest is thrown away.

        Raises:
            InvalidInputError: It is no pattern, the handler is no function, or it is a coroutine function and no event
                loop is running.
        """
        if not callable(handler):
            raise bad_argument(
                f"a {type(handler).__name__} cannot be called with an event",
                "pass a function that takes one argument, the event",
            )
        if not _is_coroutine_function(handler):
            return self._add(_ThreadSubscription(self, check_pattern(pattern), _check_limit(limit), handler))
        try:
            return self._add(_LoopSubscription(self, pattern, limit, handler))
        except RuntimeError:
            raise bad_argument(
                "a coroutine function can only subscribe where an event loop is running",
                "subscribe inside of a coroutine, or pass a plain function",
            ) from None

    def stream(self, pattern: str = "*", *, limit: int = _LIMIT) -> EventStream:
        """Return events as an async iterator, from this moment on; close it, or use it with `async with`.

        Args:
            pattern: As for `subscribe`.
            limit: How many events may wait to be read; with more, the oldest is thrown away.
        """
        return self._add(EventStream(self, pattern, limit))

    def flush(self, timeout: float = 1.0) -> bool:
        """Wait until the subscribers have nothing left to handle; say whether that is so.

        It does not wait for streams. Nor for the subscriber it is called from, or for those of the event loop that it
        is called on: they go on only when it returns, so with them it ends in False. Use `aflush` on a loop.
        """
        until = time.monotonic() + timeout
        while left := self._unfinished():
            if time.monotonic() >= until or all(each._blocks() for each in left):  # noqa: SLF001 - its own
                return False
            time.sleep(_LOOK_EVERY)
        return True

    async def aflush(self, timeout: float = 1.0) -> bool:  # noqa: ASYNC109 - the same call as the plain one
        """Wait as `flush` does, while the event loop goes on."""
        until = time.monotonic() + timeout
        while self._unfinished():
            if time.monotonic() >= until:
                return False
            await asyncio.sleep(_LOOK_EVERY)
        return True

    def close(self, timeout: float = 1.0) -> bool:
        """Wait as `flush` does, then end all subscriptions; say whether everything was delivered before.

        The bus itself can be used on: emitting is never refused, and whoever subscribes later hears what comes later.
        """
        delivered = self.flush(timeout)
        for each in self._subscriptions:
            if isinstance(each, EventStream):
                each._end()  # noqa: SLF001 - what waits can still be read, and then the iteration ends
            else:
                each.cancel()
        return delivered

    def _unfinished(self) -> list[Subscription]:
        return [each for each in self._subscriptions if each.pending and not isinstance(each, EventStream)]

    def _add(self, subscription: S) -> S:
        with self._lock:
            self._subscriptions = (*self._subscriptions, subscription)
            # After the subscriptions: whoever sees the new dict sees the new subscriber too.
            self._routes = {}
        return subscription

    def _remove(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscriptions = tuple(each for each in self._subscriptions if each is not subscription)
            self._routes = {}

    def _route(self, name: str) -> tuple[Subscription, ...]:
        route = self._routes.get(name)
        if route is None:
            # Before the subscriptions, see `_add`: a stale answer can only end up in a dict that nobody uses any more.
            routes = self._routes
            check_type(name)
            if len(routes) >= _REMEMBERED:
                routes.clear()
            route = routes[name] = tuple(each for each in self._subscriptions if matches(each.pattern, name))
        return route

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _is_coroutine_function(handler: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
        getattr(handler, "__call__", None)  # noqa: B004
    )


def _refuse_coroutine(result: object) -> None:
    """A function that hands out a coroutine to be awaited was not recognised as one; say so rather than lose it."""
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError("the subscriber returned an awaitable: subscribe a function made with `async def`")


def _check_limit(limit: int) -> int:
    if type(limit) is int and limit > 0:
        return limit
    raise bad_argument(f"limit must be a whole number above 0, not {limit!r}", "leave it out for 1000")


_ALL: weakref.WeakSet[EventBus] = weakref.WeakSet()


@atexit.register
def _deliver_at_exit() -> None:
    # Workers are daemon threads, so that a stuck one never keeps the program from ending: this is their last moment.
    until = time.monotonic() + _AT_EXIT_SECONDS
    for bus in list(_ALL):
        bus.flush(max(0.0, until - time.monotonic()))
