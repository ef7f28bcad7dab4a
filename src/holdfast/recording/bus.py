"""EventBus: who hears of what happens in this process.

Emitting looks up who is interested in the type, puts the event into their queues, and is done: it never waits for a
subscriber and never fails because of one (see `delivering`). Who is interested is remembered for each type, so that an
event that nobody wants costs one look into a dict.

A checkpoint may be announced twice: by the recorder that saved it and by a bridge that saw it in the store. The first
gets through. A recorder puts its save and its own event into `announcing`, and a bridge lets it go first.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.recording.delivering import (
    EventStream,
    Handler,
    LoopSubscription,
    Subscription,
    ThreadSubscription,
)
from holdfast.recording.events import (
    CheckpointCreated,
    Event,
    check_pattern,
    check_type,
    matches,
    now,
    of_application,
)

__all__ = ["EventBus", "EventStream", "Subscription"]

S = TypeVar("S", bound=Subscription)

_LIMIT: Final = 1000
_REMEMBERED: Final = 4096
"""Types whose subscribers are remembered, and checkpoints that were announced: more than come within a moment."""

_AT_EXIT_SECONDS: Final = 1.0
_LOOKS: Final = (0.0, 0.0005, 0.001, 0.002, 0.005, 0.01)
"""Seconds between two looks at whether everything was delivered; the last one again and again."""


class EventBus:
    """Events of one process, and who subscribed to them. Any thread may emit and subscribe.

    Args:
        clock: The time for events that are emitted by their type alone.
    """

    def __init__(self, *, clock: Callable[[], datetime] = now) -> None:
        self._clock = clock
        # A signal handler may emit while its own thread is in here.
        self._lock = threading.RLock()
        self._subscriptions: tuple[Subscription, ...] = ()
        self._routes: dict[str, tuple[Subscription, ...]] = {}
        self._announced: dict[str, None] = {}
        self._announcing: dict[object, str] = {}
        _ALL.add(self)

    def emit(self, event: Event | str, /, *, session: str | None = None, **data: Any) -> None:
        """Tell all subscribers of this type. Returns at once; what they do with it happens elsewhere.

        Args:
            event: An event, or the type of one that is made here if somebody wants it.
            session: Of an event that is made here: the session it is about.
            data: Of an event that is made here: what else there is to say, as plain JSON.
        """
        if isinstance(event, Event):
            name = event.type
            if isinstance(event, CheckpointCreated) and not self._is_first(event.checkpoint_id):
                return
        else:
            name = event
        route = self._routes.get(name)
        if route is None:
            route = self._find_route(name)
        if not route:
            return
        if not isinstance(event, Event):
            event = of_application(event, data, session=session, at=self._clock())
        for subscription in route:
            subscription.put(event)

    def wants(self, type: str) -> bool:  # noqa: A002 - the field's name
        """Whether anybody subscribed to events of this type: without, there is no need to make one."""
        route = self._routes.get(type)
        return bool(self._find_route(type) if route is None else route)

    def subscribe(self, pattern: str, handler: Handler, *, limit: int = _LIMIT) -> Subscription:
        """Have a function called with each event that a pattern chooses, in order, one at a time.

        A plain function is called on a thread of its own. A coroutine function runs on the event loop that is running
        now. An exception is logged (`holdfast.events`), once for each kind, and counted.

        Args:
            pattern: A type, `checkpoint.*` for all below, or `*` for all.
            handler: The function.
            limit: How many events may wait; with more, the oldest is thrown away and counted.

        Raises:
            InvalidInputError: It is no pattern, the handler is no function, or it is a coroutine function and no event
                loop is running.
        """
        check_pattern(pattern)
        _check_limit(limit)
        if not callable(handler):
            raise InvalidInputError(
                f"a {type(handler).__name__} cannot be called with an event",
                code=ErrorCode.BAD_ARGUMENT,
                hint="pass a function that takes one argument, the event",
            )
        leave = _leaver(self)
        if not _is_coroutine_function(handler):
            return self._add(ThreadSubscription(pattern, limit, leave, handler))
        import asyncio

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise InvalidInputError(
                "a coroutine function can only subscribe where an event loop is running",
                code=ErrorCode.BAD_ARGUMENT,
                hint="subscribe inside of a coroutine, or pass a plain function",
            ) from None
        return self._add(LoopSubscription(pattern, limit, leave, handler, loop))

    def stream(self, pattern: str = "*", *, limit: int = _LIMIT) -> EventStream:
        """Return events as an async iterator, from this moment on; close it, or use it with `async with`.

        Args:
            pattern: As for `subscribe`.
            limit: How many events may wait to be read; with more, the oldest is thrown away and counted.
        """
        return self._add(EventStream(check_pattern(pattern), _check_limit(limit), _leaver(self)))

    def flush(self, timeout: float = 1.0) -> bool:
        """Wait until subscribers have handled everything that was emitted before; say whether they have.

        It is about events alone: checkpoints are in the store when a save returns, and need no flush.

        It does not wait for streams. Nor for the subscriber it is called from, or for those of the event loop that it
        is called on: they go on only when it returns, so with them it ends in False. Use `aflush` on a loop.
        """
        return self._flush(time.monotonic() + timeout)

    async def aflush(self, timeout: float = 1.0) -> bool:  # noqa: ASYNC109 - the same call as the plain one
        """Wait as `flush` does, while the event loop goes on."""
        import asyncio

        marks = [(each, each.mark()) for each in self._subscriptions if not isinstance(each, EventStream)]
        until = time.monotonic() + timeout
        for look in _looks():
            if all(each.has_passed(mark) for each, mark in marks):
                return True
            if time.monotonic() >= until:
                return False
            await asyncio.sleep(look)
        raise AssertionError

    def close(self, timeout: float = 1.0) -> bool:
        """Wait as `flush` does, then end all subscriptions; say whether everything was delivered before.

        The bus itself can be used on: emitting is never refused, and whoever subscribes later hears what comes later.
        """
        delivered = self.flush(timeout)
        for each in self._subscriptions:
            if isinstance(each, EventStream):
                each.finish()
            else:
                each.cancel()
        return delivered

    @contextmanager
    def announcing(self, session: str) -> Iterator[None]:
        """While this lasts, leave the checkpoints of a session to the caller, who is about to announce one."""
        token = object()
        with self._lock:
            self._announcing[token] = session
        try:
            yield
        finally:
            with self._lock:
                self._announcing.pop(token, None)

    def announcements(self, session: str) -> frozenset[object]:
        """The saves of this session that are under way here, and whose events come right after."""
        with self._lock:
            return frozenset(token for token, each in self._announcing.items() if each == session)

    def _after_fork(self) -> None:
        """Begin anew in the child: what is pending is the parent's to deliver, and locks may have been held there."""
        self._lock = threading.RLock()
        self._announcing.clear()
        for each in self._subscriptions:
            each.after_fork()

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

    def _find_route(self, name: str) -> tuple[Subscription, ...]:
        # Before the subscriptions, see `_add`: a stale answer can only end up in a dict that nobody uses any more.
        routes = self._routes
        check_type(name)
        if len(routes) >= _REMEMBERED:
            routes.clear()
        found = tuple(each for each in self._subscriptions if matches(each.pattern, name))
        routes[name] = found
        return found

    def _is_first(self, checkpoint: str) -> bool:
        with self._lock:
            if checkpoint in self._announced:
                return False
            self._announced[checkpoint] = None
            if len(self._announced) > _REMEMBERED:
                del self._announced[next(iter(self._announced))]
            return True

    def _flush(self, until: float) -> bool:
        there = [each for each in self._subscriptions if not isinstance(each, EventStream)]
        marks = [(each, each.mark()) for each in there]
        for look in _looks():
            left = [(each, mark) for each, mark in marks if not each.has_passed(mark)]
            if not left:
                return True
            if time.monotonic() >= until or all(each.is_own_turn() for each, _ in left):
                return False
            time.sleep(look)
        raise AssertionError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _leaver(bus: EventBus) -> Callable[[Subscription], None]:
    """What takes a subscription off its bus. It does not hold the bus: a worker would keep it alive for ever."""
    held = weakref.ref(bus)

    def leave(subscription: Subscription) -> None:
        bus = held()
        if bus is not None:
            bus._remove(subscription)  # noqa: SLF001 - the bus's own half of a cancel

    return leave


def _looks() -> Iterator[float]:
    yield from _LOOKS
    while True:
        yield _LOOKS[-1]


def _is_coroutine_function(handler: Callable[..., object]) -> bool:
    from inspect import iscoroutinefunction

    return iscoroutinefunction(handler) or iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004


def _check_limit(limit: int) -> int:
    if type(limit) is int and limit > 0:
        return limit
    raise InvalidInputError(
        f"limit must be a whole number above 0, not {limit!r}",
        code=ErrorCode.BAD_ARGUMENT,
        hint="leave it out for 1000",
    )


_ALL: weakref.WeakSet[EventBus] = weakref.WeakSet()


def _deliver_at_exit() -> None:
    # Workers are daemon threads, so that a stuck one never keeps the program from ending: this is their last moment.
    until = time.monotonic() + _AT_EXIT_SECONDS
    for bus in list(_ALL):
        bus._flush(until)  # noqa: SLF001 - one deadline for all of them


def _begin_anew() -> None:
    for bus in list(_ALL):
        bus._after_fork()  # noqa: SLF001 - a hook, and nobody else's to call


atexit.register(_deliver_at_exit)
# Windows has no fork, and no hooks for it.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
