"""Interrupts on an event loop: signals and cancellation end in a last checkpoint.

As in `interrupts`, the next step, beat or tick saves and raises. When none comes in time, the task of the block is
cancelled, and saves on its way out. A task that the application cancels saves as well, and is then cancelled. From the
signal to the end it takes no longer than the deadline, whatever the store does.

Inside of another block, in the same task or in one that was begun there, the earlier deadline counts. The last save of
the inner block is not broken off by that of the outer one, but it is waited for no longer than half of the time that is
left there: the other half is for what the outer one saves.
"""

from __future__ import annotations

import asyncio
import math
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio

from holdfast.recording.interrupts import FOR_STEPS, Handlers, ended_in, stop_of, unsaved
from holdfast.recording.stopping import Interrupted, Parting, Stop

if TYPE_CHECKING:
    from holdfast.recording.deciding import Deciding


class AsyncInterrupts(Handlers):
    """An `async with` block that a signal or a cancellation ends with a checkpoint."""

    def __init__(
        self,
        recorder: Deciding,
        deadline: float,
        part: Callable[[], asyncio.Task[Parting]],
        give_up: Callable[[], None],
    ) -> None:
        super().__init__(recorder, deadline)
        self._begin_parting = part
        self._give_up_waiting = give_up
        self._timer: asyncio.TimerHandle | None = None
        self._ends: float | None = None
        self._is_late = False
        self._has_left = False
        self._outer: AsyncInterrupts | None = None
        self._is_put_off = False
        """Whether it was cancelled by the deadline of a block around this one, and has not said so yet."""
        self._of_loop: dict[int, Any] = {}
        self._bell: Bell | None = None

    async def __aenter__(self) -> Self:
        self._outer = _INNERMOST.get()
        _INNERMOST.set(self)
        self._recorder._begin_anew()  # noqa: SLF001 - the recorder's other half
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._loop = task.get_loop()
        self._waking = self._recorder._waking(self._wake)  # noqa: SLF001 - the same
        self._waking.__enter__()
        self._take()
        if self._before:
            self._bell = Bell.hung(self._loop)
        if stop_of(self._recorder) is not None:
            # It was asked before there was anybody to wake: its time begins now.
            self._wake()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._waking.__exit__(None, None, None)
        if self._timer is not None:
            self._timer.cancel()
        if self._bell is not None:
            self._bell.take_down()
        # Set, not reset: a fixture may be left in another context than the one in which it was entered.
        _INNERMOST.set(self._outer)
        with self._in_peace():
            try:
                # First of all: a signal from here on is for the application, and one that came before is seen below.
                self._give_back()
            finally:
                try:
                    await self._leave(error)
                finally:
                    self._has_left = True
                    if self._is_put_off:
                        # Now that it is saved. Whatever else is raised would end less than what was to end.
                        raise asyncio.CancelledError

    async def _leave(self, error: BaseException | None) -> None:
        if self._is_late:
            # It was ours, and has done its work, whatever has become of it on its way here.
            self._task.uncancel()
        stop = stop_of(self._recorder)
        if stop is None:
            if isinstance(error, asyncio.CancelledError):
                # By the application: it goes on being cancelled, but not before there is a checkpoint.
                await self._part(Stop(signal.SIGINT))
                self._recorder._begin_anew()  # noqa: SLF001 - the recorder's other half
        elif error is None or isinstance(error, Interrupted | asyncio.CancelledError):
            last = stop.interrupted() if stop.done else await self._part(stop)
            if error is None:
                raise last
            if self._is_late and isinstance(error, asyncio.CancelledError):
                # By us, because the deadline had passed.
                raise last from None
        elif isinstance(error, Exception) and not stop.done:
            raise ended_in(error, await self._part(stop)) from error

    async def _part(self, stop: Stop) -> Interrupted:
        """The last save, waited for no longer than allowed, also in a task that is being cancelled."""
        if self._ends is None:
            self._ends = self._loop.time() + self._deadline
        try:
            parting = self._begin_parting()
            with anyio.CancelScope(shield=True):
                await self._wait_for(parting)
            if not parting.done():
                self._give_up_waiting()
                return stop.finish(None, "it took longer than the deadline")
            return stop.finish(*parting.result())
        except Exception as error:  # noqa: BLE001 - whatever it is, the program ends now
            return unsaved(stop, error)

    async def _wait_for(self, parting: asyncio.Task[Parting]) -> None:
        ends = self._last_moment(self._loop.time())
        while True:
            left = max(0.0, ends - self._loop.time())
            try:
                await asyncio.wait({parting}, timeout=left)
            except asyncio.CancelledError:
                # By an outer deadline it is told to hurry. The application, which cancels a second time, does not wait.
                if not self._is_hurried():
                    raise
                self._is_put_off = True
                ends = min(ends, self._last_moment(self._loop.time()))
            else:
                return

    def _last_moment(self, now: float) -> float:
        """Until when a last save is waited for: each block leaves half of the time there is to the one around it."""
        ends = math.inf if self._ends is None else self._ends
        outer = self._around()
        if outer is None:
            return ends
        left = outer._last_moment(now) - now  # noqa: SLF001 - another one of these
        return min(ends, now + max(0.0, left) / 2)

    def _is_hurried(self) -> bool:
        outer = self._around()
        return outer is not None and (outer._is_late or outer._is_hurried())  # noqa: SLF001 - the same

    def _around(self) -> AsyncInterrupts | None:
        """The block around this one; a task may outlive the one that it was begun in."""
        outer = self._outer
        while outer is not None and outer._has_left:  # noqa: SLF001 - the same
            outer = outer._outer  # noqa: SLF001 - the same
        return outer

    def _take(self) -> None:
        super()._take()
        # A handler of the loop would be called beside ours. There is no public way to have it back as it was.
        handlers = getattr(self._loop, "_signal_handlers", None) or {}
        self._of_loop = {number: handlers.pop(number) for number in self._before if number in handlers}

    def _give_back(self) -> None:
        handlers = getattr(self._loop, "_signal_handlers", None)
        if handlers is not None:
            for number, handler in self._of_loop.items():
                handlers.setdefault(number, handler)
        self._of_loop = {}
        super()._give_back()

    def _wake(self) -> None:
        # On whatever thread `interrupt` was called, also inside of a signal handler.
        self._loop.call_soon_threadsafe(self._begin_deadline)

    def _begin_deadline(self) -> None:
        if self._timer is None:
            self._ends = self._loop.time() + self._deadline
            self._timer = self._loop.call_later(self._deadline * FOR_STEPS, self._pass_deadline)

    def _pass_deadline(self) -> None:
        stop = stop_of(self._recorder)
        if stop is not None and not stop.done:
            self._is_late = True
            self._task.cancel()


_INNERMOST: ContextVar[AsyncInterrupts | None] = ContextVar("_INNERMOST", default=None)
"""The block that a task is in, also where it was begun inside of it."""


class Bell:
    """Wakes the loop when a signal comes.

    The handler runs when the main thread does. A signal that comes right before the loop begins to wait does not end
    that wait, nor does one that another thread was given: without this, it would be seen when something else happens.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, ear: socket.socket, hammer: socket.socket) -> None:
        self._loop = loop
        self._ear = ear
        self._hammer = hammer

    @classmethod
    def hung(cls, loop: asyncio.AbstractEventLoop) -> Self | None:
        """One for this loop; None where signals ring one already: the loop's own, or that of a block around this."""
        there = signal.set_wakeup_fd(-1)
        if there != -1:
            signal.set_wakeup_fd(there)
            return None
        try:
            ear, hammer = socket.socketpair()
        except OSError:
            # No more files can be opened: it can do without, as said above.
            return None
        bell = cls(loop, ear, hammer)
        try:
            for each in (ear, hammer):
                each.settimeout(0)
            loop.add_reader(ear, bell._hear)
        except NotImplementedError:
            # The loop of Windows, which looks for signals in a way of its own.
            ear.close()
            hammer.close()
            return None
        # Full is as good as rung.
        signal.set_wakeup_fd(hammer.fileno(), warn_on_full_buffer=False)
        return bell

    def take_down(self) -> None:
        """Leave everything as it was; a bell that somebody else has hung meanwhile stays."""
        there = signal.set_wakeup_fd(-1)
        if there not in (-1, self._hammer.fileno()):
            signal.set_wakeup_fd(there)
        if not self._loop.is_closed():
            self._loop.remove_reader(self._ear)
        self._ear.close()
        self._hammer.close()

    def _hear(self) -> None:
        # A process that was forked off rings it too, and may have been heard already.
        with suppress(BlockingIOError):
            self._ear.recv(4096)
