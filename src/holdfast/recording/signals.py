"""Signals: SIGTERM and SIGINT end in a last checkpoint and a clean stop.

The first signal asks the recorder to stop: the next step, beat or tick saves with status `interrupted` and raises
`Interrupted`. If none comes in time, the block is ended wherever the program is, and saves on its way out. A second
signal waits for nothing: the handlers from before are put back, and it is raised again for them. From the first signal
to the end it takes no longer than the deadline, unless a plain function holds up an event loop.

`Interrupted` is a SystemExit: no `except Exception` swallows it, it ends a program without a traceback and with the
exit code that shells know for the signal (143 for SIGTERM, 130 for SIGINT). In a thread it ends that thread; catch it
there, because `threading` prints whatever comes out of one.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from queue import Empty, SimpleQueue
from time import monotonic
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from holdfast.errors import bad_argument

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint

LOG = logging.getLogger("holdfast.recorder")

STOP: Final = "auto:interrupt"
"""The trigger of a last checkpoint; also what a check answers when it is time for one."""

_CAN_POKE = hasattr(signal, "pthread_kill")

_SIGNALS = (signal.SIGINT, signal.SIGTERM) if _CAN_POKE else (signal.SIGINT,)
"""Windows knows SIGTERM by name, and never delivers it."""

_FOR_STEPS = 0.75
"""The part of the deadline in which a step may come; the rest of it is for the last save."""


class Interrupted(SystemExit):
    """The recorder was asked to stop, and has saved what there was.

    Attributes:
        signal: The number of the signal.
        checkpoint: The last checkpoint, with status `interrupted`. None where there is none.
        reason: Why there is none, where that was on purpose: the recorder is not enabled, or has not got back yet what
            is stored.
    """

    def __init__(self, signal: int, checkpoint: Checkpoint | None = None, reason: str = "") -> None:
        super().__init__(128 + signal)
        self.signal = signal
        self.checkpoint = checkpoint
        self.reason = reason

    def __str__(self) -> str:
        because = f": {self.reason}" if self.reason else ""
        saved = (
            f"nothing was saved{because}" if self.checkpoint is None else f"saved as #{self.checkpoint.seq}"
        )
        return f"interrupted by signal {self.signal}, {saved}"


class Stop:
    """That a recorder was asked to stop, and what has come of it."""

    def __init__(self, signal: int) -> None:
        self.signal = signal
        self.done = False
        """Whether the last checkpoint is saved, or none will be."""
        self.checkpoint: Checkpoint | None = None
        self.reason = ""

    def finish(self, checkpoint: Checkpoint | None, reason: str = "") -> Interrupted:
        """What to raise now that all is done."""
        self.done, self.checkpoint, self.reason = True, checkpoint, reason
        return self.interrupted()

    def interrupted(self) -> Interrupted:
        """What to raise."""
        return Interrupted(self.signal, self.checkpoint, self.reason)

    def unsaved(self, error: BaseException) -> Interrupted:
        """The end where the last save failed. There is no time left to try again: the log is told."""
        LOG.error("the last checkpoint before the end could not be saved: %s", error)
        ended = self.finish(None)
        ended.__cause__ = error
        return ended


class _Asked(Protocol):
    """What a block needs to know of its recorder, which imports this module."""

    _stop: Stop | None
    _is_saving: bool
    _is_out_of_time: bool

    def interrupt(self, signum: int = 15) -> None: ...
    def _begin_anew(self) -> None: ...
    def _waking(self, wake: Callable[[], object]) -> AbstractContextManager[None]: ...


class _Plain(_Asked, Protocol):
    def _last_words(self) -> Interrupted: ...


class _Awaited(_Asked, Protocol):
    def _begin_parting(self) -> asyncio.Task[tuple[Checkpoint | None, str]]: ...


class _Handlers:
    """The signal handlers of the process while a block has taken them over.

    They are taken with `signal.signal`, for event loops too: a loop's own handlers run only when the loop does, and a
    second signal has to work while it is stuck. Each is given back as it was, before the last save; one that the
    application set meanwhile stays. A signal that is ignored, or that something other than Python handles, is left
    alone.
    """

    def __init__(self, recorder: _Asked, deadline: float) -> None:
        if type(deadline) not in (int, float) or not 0 < deadline <= threading.TIMEOUT_MAX:
            raise bad_argument(
                f"a deadline must be a number of seconds above 0, not {deadline!r:.60}",
                "leave it out for 5 seconds",
                argument="deadline",
            )
        self._asked = recorder
        self._deadline = float(deadline)
        # A bound method is another object each time: this one is compared.
        self._ours: Callable[[int, FrameType | None], None] = self._handle
        self._before: dict[int, Any] = {}
        self._has_signal = False

    def _take(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            # Only the main thread may handle signals. An end that somebody asks for by hand works here as well.
            LOG.warning(
                "interrupts() is not in the main thread, and takes no signals over: SIGTERM and SIGINT end the program "
                "without a last checkpoint; have the main thread take them, and call recorder.interrupt()"
            )
            return
        for number in _SIGNALS:
            before = signal.getsignal(number)
            if before is not None and before is not signal.SIG_IGN:
                self._before[number] = before
                signal.signal(number, self._ours)

    def _give_back(self) -> None:
        for number, before in tuple(self._before.items()):
            if signal.getsignal(number) is self._ours:
                signal.signal(number, before)
            # Only now: a signal that comes in between finds the handler that it is to be handed on to.
            self._before.pop(number, None)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # The second signal, and not the second time that somebody asks: `recorder.interrupt()` is no signal.
        if self._has_signal:
            self._give_back()
            signal.raise_signal(number)
            return
        self._has_signal = True
        outer = self._before.get(number)
        self._asked.interrupt(number)
        if isinstance(getattr(outer, "__self__", None), _Handlers):
            # Of another recorder, around this one: both have something to save.
            outer(number, frame)  # type: ignore[misc]


class Interrupts(_Handlers):
    """A `with` block that a signal ends with a checkpoint; made by `Recorder.interrupts`."""

    def __init__(self, recorder: _Plain, deadline: float) -> None:
        super().__init__(recorder, deadline)
        self._recorder = recorder
        # Signal handlers may put something into it whatever their thread is doing: it has no lock to wait for.
        self._news: SimpleQueue[int | None] = SimpleQueue()
        self._gate = threading.Lock()
        self._is_late = False
        self._has_left = False

    def __enter__(self) -> Self:
        recorder = self._recorder
        recorder._begin_anew()  # noqa: SLF001 - the recorder's other half
        self._waking = recorder._waking(lambda: self._news.put(0))  # noqa: SLF001 - the same
        self._waking.__enter__()
        self._take()
        if self._before:
            # Begun here and not by the handler, which may come while its thread is inside of a lock of `threading`.
            threading.Thread(target=self._watch, name="holdfast deadline", daemon=True).start()
        if recorder._stop is not None:  # noqa: SLF001 - the same
            # It was asked before there was anybody to wake: its time begins now.
            self._news.put(0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._has_left = True
        self._news.put(None)
        with self._gate:
            # From here on the watcher leaves the main thread alone, which would have to do with other handlers.
            pass
        self._waking.__exit__(None, None, None)
        # First of all: a signal from here on is for the application, and one that came before is seen below.
        self._give_back()
        stop = self._recorder._stop  # noqa: SLF001 - the recorder's other half
        if stop is None:
            return
        if error is None:
            # The block ended by itself before it came to its next step.
            raise self._recorder._last_words()  # noqa: SLF001 - the same
        if isinstance(error, Interrupted):
            # By the deadline, or by another recorder around this one or inside.
            last = self._last_words(stop)
            error.checkpoint, error.reason = last.checkpoint, last.reason
            error.__cause__ = error.__cause__ or last.__cause__
        elif isinstance(error, Exception) and not stop.done:
            LOG.error("the block ended in an error after it had been asked to stop", exc_info=error)
            raise self._last_words(stop) from error

    def _last_words(self, stop: Stop) -> Interrupted:
        try:
            return self._recorder._last_words()  # noqa: SLF001 - the same
        except Exception as error:  # noqa: BLE001 - whatever it is, the program ends now
            return stop.unsaved(error)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._is_late:
            super()._handle(number, frame)
            return
        # Not a signal from outside: the watcher says that time is up.
        self._is_late = False
        stop = self._recorder._stop  # noqa: SLF001 - the same
        if self._has_left or stop is None or stop.done:
            return
        if self._recorder._is_saving:  # noqa: SLF001 - the same
            # It is stuck in there, and so would be the next.
            stop.finish(None, "it was in the middle of a save when time was up")
        raise stop.interrupted()

    def _watch(self) -> None:
        if self._news.get() is None:
            return
        ends = monotonic() + self._deadline * _FOR_STEPS
        try:
            while self._news.get(timeout=max(0.0, ends - monotonic())) is not None:
                # Asked once more: time has begun already.
                pass
        except Empty:
            with self._gate:
                ours = [number for number in self._before if signal.getsignal(number) is self._ours]
                if ours and not self._has_left:
                    self._is_late = True
                    _poke_main_thread(ours[0])


class AsyncInterrupts(_Handlers):
    """An `async with` block that a signal or a cancellation ends with a checkpoint."""

    def __init__(self, recorder: _Awaited, deadline: float) -> None:
        super().__init__(recorder, deadline)
        self._recorder = recorder
        self._timer: asyncio.TimerHandle | None = None
        self._ends: float | None = None
        self._is_late = False
        self._of_loop: dict[int, Any] = {}

    async def __aenter__(self) -> Self:
        recorder = self._recorder
        recorder._begin_anew()  # noqa: SLF001 - the recorder's other half
        task = asyncio.current_task()
        assert task is not None
        self._task, self._loop = task, task.get_loop()
        self._waking = recorder._waking(self._wake)  # noqa: SLF001 - the same
        self._waking.__enter__()
        self._take()
        if recorder._stop is not None:  # noqa: SLF001 - the same
            self._wake()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._waking.__exit__(None, None, None)
        if self._timer is not None:
            self._timer.cancel()
        self._give_back()
        recorder = self._recorder
        if self._is_late:
            # The cancellation was ours, and has done its work.
            self._task.uncancel()
        stop = recorder._stop  # noqa: SLF001 - the recorder's other half
        if stop is None:
            if isinstance(error, asyncio.CancelledError):
                # By the application: it goes on being cancelled, but not before there is a checkpoint.
                await self._part(Stop(signal.SIGINT))
                recorder._begin_anew()  # noqa: SLF001 - the same
        elif error is None or isinstance(error, Interrupted | asyncio.CancelledError):
            last = stop.interrupted() if stop.done else await self._part(stop)
            if error is None or (self._is_late and isinstance(error, asyncio.CancelledError)):
                raise last from last.__cause__
        elif isinstance(error, Exception) and not stop.done:
            LOG.error("the block ended in an error after it had been asked to stop", exc_info=error)
            raise await self._part(stop) from error

    async def _part(self, stop: Stop) -> Interrupted:
        """The last save, waited for no longer than allowed, also in a task that is being cancelled."""
        ends = self._loop.time() + self._deadline if self._ends is None else self._ends
        try:
            parting = self._recorder._begin_parting()  # noqa: SLF001 - the recorder's other half
            await asyncio.wait({parting}, timeout=max(0.0, ends - self._loop.time()))
            if not parting.done():
                self._recorder._is_out_of_time = True  # noqa: SLF001 - the same
                return stop.finish(None, "it took longer than the deadline")
            return stop.finish(*parting.result())
        except Exception as error:  # noqa: BLE001 - whatever it is, the program ends now
            return stop.unsaved(error)

    def _take(self) -> None:
        super()._take()
        handlers = getattr(self._loop, "_signal_handlers", None) or {}
        for number in self._before:
            # The loop's own handler would be called beside ours; there is no public way to have it back.
            self._of_loop[number] = handlers.get(number)
            try:
                # Has a signal wake the loop also where it comes right before the loop begins to wait.
                self._loop.add_signal_handler(number, _nothing)
            except (NotImplementedError, RuntimeError, ValueError):
                continue  # Windows
            signal.signal(number, self._ours)

    def _give_back(self) -> None:
        handlers = getattr(self._loop, "_signal_handlers", None)
        for number, of_loop in self._of_loop.items():
            now = signal.getsignal(number)
            if not self._loop.is_closed() and handlers is not None and number in handlers:
                if of_loop is not None:
                    handlers[number] = of_loop
                else:
                    self._loop.remove_signal_handler(number)
                    signal.signal(number, now)
        self._of_loop = {}
        super()._give_back()

    def _wake(self) -> None:
        # On whatever thread `interrupt` was called, also inside of a signal handler.
        self._loop.call_soon_threadsafe(self._begin_deadline)

    def _begin_deadline(self) -> None:
        if self._timer is None:
            self._ends = self._loop.time() + self._deadline
            self._timer = self._loop.call_later(self._deadline * _FOR_STEPS, self._pass_deadline)

    def _pass_deadline(self) -> None:
        stop = self._recorder._stop  # noqa: SLF001 - the recorder's other half
        if stop is not None and not stop.done:
            self._is_late = True
            self._task.cancel()


def _nothing() -> None:
    """What the loop calls on a signal: our own handler has done all there is to do."""


def _poke_main_thread(number: int) -> None:
    """Have the handler run on the main thread, also where that waits for something."""
    main = threading.main_thread().ident
    if _CAN_POKE and main is not None:
        signal.pthread_kill(main, number)
    else:
        import _thread

        _thread.interrupt_main(signal.Signals(number))
