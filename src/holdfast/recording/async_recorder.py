"""AsyncRecorder: `Recorder` for an event loop. A call captures, what it returns writes.

Each method does its first half when it is called: it decides, takes all snapshots and makes bytes of them, before
anything is awaited, and hands them to a task of its own, which writes one capture after the other and keeps the books.
The coroutine that the call returns only waits for that: whoever is cancelled, before it began or while it waits, loses
its answer, and nothing else.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from holdfast.aio import AsyncSession
from holdfast.errors import ConflictError, ErrorCode, IntegrityError, NotFoundError
from holdfast.recording.bookkeeping import NOT_BACK, Bookkeeping, Capture, OnDamage, Order
from holdfast.recording.events import Event
from holdfast.recording.resuming import Plan
from holdfast.recording.stopping import STOP, Interrupted, Parting
from holdfast.recording.stored import (
    Stored,
    check_session,
    inner_session,
    read_bare,
    read_stored,
    revived,
    write_in_turn,
)

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.history.keep import Keep
    from holdfast.recording.async_interrupts import AsyncInterrupts
    from holdfast.recording.bus import EventBus
    from holdfast.recording.report import ResumeReport
    from holdfast.recording.sources import Source
    from holdfast.recording.triggers import Trigger
    from holdfast.settings.loaded import Settings
    from holdfast.store.place import Ref

T = TypeVar("T")


class AsyncRecorder(Bookkeeping):
    """`Recorder`, awaitable: the same methods, arguments and errors. `restore` of a source may be awaitable too."""

    _can_await = True

    def __init__(
        self,
        session: AsyncSession,
        *,
        trigger: Trigger | None = None,
        keep: Keep | None = None,
        events: EventBus | None = None,
        clock: Callable[[], float] | None = None,
        enabled: bool = True,
    ) -> None:
        super().__init__(
            inner_session(check_session(session, AsyncSession)), trigger, keep, events, clock, enabled=enabled
        )
        self._session = session
        self._parting: asyncio.Task[Parting] | None = None
        # A loop does not keep its tasks alive by itself.
        self._writing: set[asyncio.Task[Any]] = set()
        self._is_out_of_time = False
        """Whether the deadline has passed over what is being written: it goes on, and is not waited for again."""

    @classmethod
    def from_settings(
        cls,
        session: AsyncSession,
        settings: Settings,
        *,
        events: EventBus | None = None,
        clock: Callable[[], float] | None = None,
    ) -> Self:
        """See `Recorder.from_settings`."""
        from holdfast.recording.configured import arguments_from

        return cls(session, events=events, clock=clock, **arguments_from(settings))

    @property
    def session(self) -> AsyncSession:
        """Where it saves."""
        return self._session

    def step(
        self,
        n: int | None = None,
        *,
        tokens: int | None = None,
        cost_usd: float | None = None,
        duration_ms: float | None = None,
    ) -> Coroutine[Any, Any, Checkpoint | None]:
        """See `Recorder.step`."""
        return self._automatic(self._step_due(n, tokens, cost_usd, duration_ms))

    def beat(self) -> Coroutine[Any, Any, Checkpoint | None]:
        """See `Recorder.beat`."""
        return self._automatic(self._beat_due())

    def tick(self) -> Coroutine[Any, Any, Checkpoint | None]:
        """See `Recorder.tick`."""
        return self._automatic(self._due())

    def emit(self, event: Event | str, /, **data: Any) -> Coroutine[Any, Any, Checkpoint | None]:
        """See `Recorder.emit`."""
        return self._automatic(self._event_due(event, data))

    def save(  # noqa: PLR0913 - each is a keyword of the public contract
        self,
        message: str = "",
        *,
        status: str = "running",
        tags: Iterable[str] = (),
        trigger: str = "manual",
        step: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        tokens: int | None = None,
        cost_usd: float | None = None,
        duration_ms: float | None = None,
    ) -> Coroutine[Any, Any, Checkpoint]:
        """See `Recorder.save`. The state is captured and encoded by the call itself; what is awaited is the writing."""
        self._say(step, tokens=tokens, cost_usd=cost_usd, duration_ms=duration_ms)
        return self._written(Order(trigger, message, status, tags, metadata))

    async def resume(self, ref: Ref = "@", *, on_damage: OnDamage = "report") -> ResumeReport | None:
        """See `Recorder.resume`."""
        self._check_damage_choice(on_damage)
        try:
            with self._reading():
                stored = await write_in_turn(self._session, partial(self._read, ref))
        except NotFoundError as missing:
            self._nothing_there(missing, ref)
            return None
        except IntegrityError as damage:
            return self._nothing_whole(damage, on_damage)
        plan = Plan(self._sources, stored)
        for name, source, value in plan.ready:
            try:
                await _restored(source, value)
            except Exception as error:  # noqa: BLE001 - the application's own code: reported, and no other stops
                plan.failed(name, error)
        left: Mapping[str, Any] = {}
        if plan.left:
            # Read again: what a source was given, it may have changed.
            left = await write_in_turn(self._session, partial(read_bare, self._saver, stored.checkpoint))
        return self._resumed(plan, stored, left)

    async def bring_back(self, name: str) -> bool:
        """See `Recorder.bring_back`; here `restore` may be awaitable."""
        source, value = self._to_bring_back(name)
        try:
            await _restored(source, revived(self._saver, value))
        except Exception as error:  # noqa: BLE001 - the application's own code: what is stored stays carried
            return self._not_back(name, error)
        self._sources.release(name)
        return True

    def interrupts(self, deadline: float = 5.0) -> AsyncInterrupts:
        """See `Recorder.interrupts`; for `async with`. A cancelled task saves as well, before it is cancelled."""
        from holdfast.recording.async_interrupts import AsyncInterrupts

        return AsyncInterrupts(self, deadline, self._begin_parting, self._give_up_waiting)

    async def sleep(self, seconds: float) -> None:
        """See `Recorder.sleep`."""
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        with self._waking(lambda: loop.call_soon_threadsafe(woken.set)):
            if self._stop is None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), max(0.0, seconds))
            # Asked when time was up, it stops as well.
            if self._stop is None:
                return
        await self._automatic(STOP)

    async def close(self, timeout: float = 1.0) -> bool:  # noqa: ASYNC109 - the same call as the plain one
        """See `Recorder.close`. Saves that are still being written are waited for."""
        if self._writing:
            await asyncio.wait(set(self._writing))
        return await self._close_bus(timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if isinstance(error, Exception):
                await self._save_failure(error)
        finally:
            # Where the deadline has passed, it has passed: the store is left to finish what it was given.
            await (self._close_bus() if self._is_out_of_time else self.close())

    async def _close_bus(self, timeout: float = 1.0) -> bool:  # noqa: ASYNC109 - as that of `close`
        if self._bus is None:
            return True
        delivered = await self._bus.aflush(timeout)
        if self._owns_bus:
            self._bus.close(0)
        return delivered

    async def _save_failure(self, failure: Exception) -> None:
        try:
            silent = self._why_silent()
            if not silent and await write_in_turn(self._session, self._would_overwrite):
                silent = NOT_BACK
            if silent:
                self._failure_unsaved(silent)
            else:
                await self._written(self._order_of(failure))
        except Exception as error:  # noqa: BLE001 - the one that ended the block is the one to raise
            self._failure_unsaved(error)

    def _automatic(self, due: str | None) -> Coroutine[Any, Any, Checkpoint | None]:
        if due is None:
            return _nothing()
        if due is STOP:
            return self._end(self._begin_parting())
        return self._written(Order(due))

    def _begin_parting(self) -> asyncio.Task[Parting]:
        """The last save, begun once, whoever asks: captured now, and written even if all who wait are cancelled."""
        if self._parting is None or _has_failed(self._parting):
            loop = asyncio.get_running_loop()
            silent = self._why_silent()
            if silent:
                self._parting = loop.create_task(_silence(silent))
            else:
                capture = self._capture(Order(STOP, status="interrupted"))
                self._parting = self._begun(loop, self._parted(capture), capture)
        return self._parting

    async def _parted(self, capture: Capture) -> Parting:
        if await write_in_turn(self._session, self._would_overwrite):
            return None, NOT_BACK
        return await self._write_in_turn(capture), ""

    def _begin_anew(self) -> None:
        super()._begin_anew()
        self._parting = None

    def _give_up_waiting(self) -> None:
        self._is_out_of_time = True

    async def _end(self, parting: asyncio.Task[Parting]) -> Checkpoint | None:
        raise await self._last_words(parting)

    async def _last_words(self, parting: asyncio.Task[Parting]) -> Interrupted:
        stop = self._stop
        assert stop is not None
        return stop.finish(*await asyncio.shield(parting))

    def _read(self, ref: Ref) -> Stored:
        # A write whose task was cancelled may still be under way.
        with self._turn:
            return read_stored(self._saver, ref, follow=self._is_blank)

    def _written(self, order: Order) -> Coroutine[Any, Any, Checkpoint]:
        """Capture now, begin to write, and return what waits for that."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            # `asyncio.run(recorder.save())`: nothing else runs before the loop does.
            return self._written_then(order)
        capture = self._capture(order)
        return _answer(self._begun(loop, self._write_in_turn(capture), capture))

    async def _written_then(self, order: Order) -> Checkpoint:
        return await self._written(order)

    def _begun(
        self, loop: asyncio.AbstractEventLoop, write: Coroutine[Any, Any, T], capture: Capture
    ) -> asyncio.Task[T]:
        task = loop.create_task(write)
        self._writing.add(task)
        self._is_out_of_time = False

        def done(task: asyncio.Task[T]) -> None:
            self._writing.discard(task)
            # Where nobody has written it, because the loop ends: it is due again.
            self._give_up(capture)

        task.add_done_callback(done)
        return task

    async def _write_in_turn(self, capture: Capture) -> Checkpoint:
        try:
            return await write_in_turn(self._session, partial(self._write, capture))
        except ConflictError as conflict:
            if conflict.code is not ErrorCode.CHUNKS_GONE:
                raise
        # What the last save left in the store was removed since; now the whole state is sent, as it is now.
        again = self._capture(capture.order)
        try:
            return await write_in_turn(self._session, partial(self._write, again))
        finally:
            self._give_up(again)


async def _answer(task: asyncio.Task[T]) -> T:
    return await asyncio.shield(task)


async def _silence(reason: str) -> Parting:
    return None, reason


async def _restored(source: Source, value: Any) -> None:
    came = source.restore(value)
    if inspect.isawaitable(came):
        await came


async def _nothing() -> None:
    return None


def _has_failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
