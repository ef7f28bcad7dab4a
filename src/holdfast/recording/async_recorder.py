"""AsyncRecorder: `Recorder` for an event loop. A call captures, what it returns writes.

Each method does its first half when it is called: it decides, takes all snapshots and makes bytes of them, before
anything is awaited, and hands them to a task of its own, which writes one capture after the other and keeps the books.
The coroutine that the call returns only waits for that: whoever is cancelled, before it began or while it waits, loses
its answer, and nothing else.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from holdfast.aio import AsyncSession
from holdfast.errors import IntegrityError, NotFoundError
from holdfast.recording.recorder import (
    Capture,
    OnDamage,
    Order,
    RecorderCore,
    check_damage_choice,
    must_be_encoded_again,
)
from holdfast.recording.resume import Plan, ResumeReport, check_session, read_bare, read_stored
from holdfast.recording.signals import LOG, STOP, AsyncInterrupts

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint
    from holdfast.store.place import Ref
    from holdfast.store.session import Session

T = TypeVar("T")
Parting = tuple["Checkpoint | None", str]
"""The last checkpoint, or why there is none."""


class AsyncRecorder(
    RecorderCore[AsyncSession, Coroutine[Any, Any, "Checkpoint | None"], Coroutine[Any, Any, "Checkpoint"]]
):
    """`Recorder`, awaitable: the same methods, arguments and errors. `restore` of a source may be awaitable too."""

    _can_await = True
    _parting: asyncio.Task[Parting] | None = None

    async def resume(self, ref: Ref = "@", *, on_damage: OnDamage = "report") -> ResumeReport | None:
        """See `Recorder.resume`."""
        check_damage_choice(on_damage)
        try:
            with self._reading():
                stored = await self._in_turn(partial(read_stored, self._saver, ref, follow=self._is_blank))
        except (NotFoundError, IntegrityError) as error:
            return self._not_read(error, ref, on_damage)
        plan = Plan(self._sources, stored)
        for name, source, value in plan.ready:
            try:
                came = source.restore(value)
                if inspect.isawaitable(came):
                    await came
            except Exception as error:  # noqa: BLE001 - the application's own code: reported, and no other stops
                plan.failed(name, error)
        left: Mapping[str, Any] = {}
        if plan.left:
            # Read again: what a source was given, it may have changed.
            left = await self._in_turn(partial(read_bare, self._saver, stored.checkpoint))
        return self._resumed(plan, stored, left)

    def interrupts(self, deadline: float = 5.0) -> AsyncInterrupts:
        """See `Recorder.interrupts`; for `async with`. A cancelled task saves as well, before it is cancelled."""
        return AsyncInterrupts(self, deadline)

    async def sleep(self, seconds: float) -> None:
        """See `Recorder.sleep`."""
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        with self._waking(lambda: loop.call_soon_threadsafe(woken.set)):
            if self._stop is None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), max(0.0, seconds))
        # Asked when time was up, it stops as well.
        if self._stop is not None:
            await self._end(self._begin_parting())

    async def close(self, timeout: float = 1.0) -> bool:  # noqa: ASYNC109 - the same call as the plain one
        """See `Recorder.close`. Saves that are still being written are waited for."""
        # Where the deadline has passed, it has passed: the store is left to finish what it was given.
        if self._writing and not self._is_out_of_time:
            await asyncio.wait(set(self._writing))
        if self._bus is None:
            return True
        delivered = await self._bus.aflush(timeout)
        if self._owns_bus:
            self._bus.close(0)
        return delivered

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            # It is raised on; what there is is saved if it can be.
            try:
                silent = self._why_silent() or await self._in_turn(self._would_overwrite)
                if not silent:
                    await self._save(self._order_of(error))
            except Exception as trouble:  # noqa: BLE001 - the one that ended the block is the one to raise
                silent = str(trouble)
            if silent:
                LOG.error("the block ended in an error, and no last checkpoint is saved: %s", silent)
        await self.close()

    def _plain(self, session: AsyncSession) -> Session:
        # A loop does not keep its tasks alive by itself.
        self._writing: set[asyncio.Task[Any]] = set()
        return check_session(session, AsyncSession)._session  # noqa: SLF001 - its other half

    def _automatic(self, due: str | None) -> Coroutine[Any, Any, Checkpoint | None]:
        if due is None:
            return _nothing()
        return self._end(self._begin_parting()) if due is STOP else self._save(Order(due))

    def _begin_parting(self) -> asyncio.Task[Parting]:
        """The last save, begun once, whoever asks: captured now, and written even if all who wait are cancelled."""
        last = self._parting
        if last is None or (last.done() and (last.cancelled() or last.exception() is not None)):
            silent = self._why_silent()
            capture = None if silent else self._capture(Order(STOP, status="interrupted"))
            self._parting = self._begin(self._part(capture, silent), capture)
        assert self._parting is not None
        return self._parting

    async def _part(self, capture: Capture | None, silent: str) -> Parting:
        silent = silent or await self._in_turn(self._would_overwrite)
        return (None, silent) if capture is None or silent else (await self._write(capture), "")

    def _begin_anew(self) -> None:
        super()._begin_anew()
        self._parting = None

    async def _end(self, parting: asyncio.Task[Parting]) -> Checkpoint | None:
        last = await asyncio.shield(parting)
        assert self._stop is not None
        raise self._stop.finish(*last)

    def _save(self, order: Order) -> Coroutine[Any, Any, Checkpoint]:
        """Capture now, begin to write, and return what waits for that."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            # `asyncio.run(recorder.save())`: nothing else runs before the loop does.
            return self._save_then(order)
        capture = self._capture(order)
        return _answer(self._begin(self._write(capture), capture))

    async def _save_then(self, order: Order) -> Checkpoint:
        return await self._save(order)

    def _begin(self, write: Coroutine[Any, Any, T], capture: Capture | None) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(write)
        self._writing.add(task)
        self._is_out_of_time = False

        def done(task: asyncio.Task[T]) -> None:
            self._writing.discard(task)
            if task.cancelled() and capture is not None:
                # Nobody has written it, because the loop ends: it is due again.
                self._rule.put_back(capture.memento)
            elif not task.cancelled():
                # Seen: whoever waits for it raises it, and otherwise nobody wants to know.
                task.exception()

        task.add_done_callback(done)
        return task

    async def _write(self, capture: Capture) -> Checkpoint:
        try:
            return self._saved(await self._in_turn(partial(self._commit, capture)))
        except BaseException as error:
            self._unsaved(capture, error)
            if not must_be_encoded_again(error):
                raise
        again = self._capture(capture.order)
        try:
            return self._saved(await self._in_turn(partial(self._commit, again)))
        except BaseException as error:
            self._unsaved(again, error)
            raise

    async def _in_turn(self, call: Callable[[], T]) -> T:
        """Run a call in a worker thread, after all other writes of the session that were called before."""
        return await self._session._written(call)  # noqa: SLF001 - its other half


async def _answer(task: asyncio.Task[T]) -> T:
    return await asyncio.shield(task)


async def _nothing() -> None:
    return None
