"""Interrupts: SIGTERM and SIGINT end in a last checkpoint and a clean stop.

The first signal asks the recorder to stop: the next step, beat or tick saves with status `interrupted` and raises
`Interrupted`. If none comes in time, the handler itself raises it, wherever the program is, and it is saved on leaving
the block: by then whoever was interrupted has let go of what it held. A second signal does not wait for anything: the
handlers from before are put back, and it is raised again for them.

Handlers are taken with `signal.signal`, for event loops too: a loop's own handlers run only when the loop does, and a
second signal has to work while it is stuck. On leaving, each is given back as it was, before the last save, so that no
signal falls in between; one that the application set meanwhile stays. A signal that is ignored, or that something other
than Python handles, is left alone.
"""

from __future__ import annotations

import logging
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from time import monotonic
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from holdfast.errors import ErrorCode, HoldfastWarning, InvalidInputError
from holdfast.recording.stopping import Interrupted, Stop

if TYPE_CHECKING:
    from holdfast.recording.deciding import Deciding

LOG = logging.getLogger("holdfast.recorder")

_CAN_POKE = hasattr(signal, "pthread_kill")

_SIGNALS = (signal.SIGINT, signal.SIGTERM) if _CAN_POKE else (signal.SIGINT,)
"""Windows knows SIGTERM by name, and never delivers it."""

FOR_STEPS = 0.75
"""The part of the deadline in which a step may come; the rest of it is for the last save."""


class Handlers:
    """The signal handlers of the process while a block has taken them over."""

    _leaving = 0
    """Blocks of the main thread that are on their way out. Only that thread looks at it."""
    _put_off: Interrupts | None = None
    """The block around them whose deadline has passed meanwhile."""

    def __init__(self, recorder: Deciding, deadline: float) -> None:
        self._recorder = recorder
        self._deadline = check_deadline(deadline)
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
        changed = []
        for number, before in tuple(self._before.items()):
            now = signal.getsignal(number)
            if now is self._ours:
                signal.signal(number, before)
            elif now is not before:
                changed.append(signal.Signals(number).name)
            # Only now: a signal that comes in between finds the handler that it is to be handed on to.
            self._before.pop(number, None)
        if changed:
            # Only now, because a warning may be an error.
            warnings.warn(
                f"the handler of {' and '.join(changed)} was changed inside of recorder.interrupts(), and stays as it "
                "is now",
                HoldfastWarning,
                stacklevel=3,
            )

    @contextmanager
    def _in_peace(self) -> Iterator[None]:
        """While this lasts, the deadline of a block around this one breaks nothing off: it is put off."""
        if threading.current_thread() is not threading.main_thread():
            # Handlers run on the main thread, and come in between nothing here.
            yield
            return
        Handlers._leaving += 1
        try:
            yield
        finally:
            Handlers._leaving -= 1
            if not Handlers._leaving:
                late, Handlers._put_off = Handlers._put_off, None
                if late is not None and stop_of(self._recorder) is None:
                    # Nothing is raised here that would end the other block as well.
                    late._pass_deadline()  # noqa: SLF001 - another one of these

    def _handle(self, number: int, frame: FrameType | None) -> None:
        # The second signal, and not the second time that somebody asks: `recorder.interrupt()` is no signal.
        if self._has_signal:
            self._give_back()
            signal.raise_signal(number)
            return
        self._has_signal = True
        outer = self._before.get(number)
        self._recorder.interrupt(number)
        if isinstance(getattr(outer, "__self__", None), Handlers):
            # Of another recorder, around this one: both have something to save.
            outer(number, frame)  # type: ignore[misc]


class Interrupts(Handlers):
    """A `with` block that a signal ends with a checkpoint; made by `Recorder.interrupts`."""

    def __init__(self, recorder: Deciding, deadline: float, last_words: Callable[[], Interrupted]) -> None:
        super().__init__(recorder, deadline)
        self._last_words = last_words
        # Signal handlers may put something into it whatever their thread is doing: it has no lock to wait for.
        self._signals: SimpleQueue[int | None] = SimpleQueue()
        self._gate = threading.Lock()
        self._is_late = False
        self._has_left = False
        self._raised: Interrupted | None = None

    def __enter__(self) -> Self:
        self._recorder._begin_anew()  # noqa: SLF001 - the recorder's other half
        self._waking = self._recorder._waking(self._wake)  # noqa: SLF001 - the same
        self._waking.__enter__()
        self._take()
        if self._before:
            # Begun here and not by the handler, which may come while its thread is inside of a lock of `threading`.
            threading.Thread(target=self._watch, name="holdfast deadline", daemon=True).start()
        if stop_of(self._recorder) is not None:
            # It was asked before there was anybody to wake: its time begins now.
            self._wake()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._has_left = True
        self._signals.put(None)
        with self._gate:
            # From here on the watcher leaves the main thread alone, which would have to do with other handlers.
            pass
        self._waking.__exit__(None, None, None)
        # Before the handlers are those of an outer block again: from then on its deadline may pass here.
        with self._in_peace():
            try:
                # First of all: a signal from here on is for the application, and one that came before is seen below.
                self._give_back()
            finally:
                self._leave(error)

    def _leave(self, error: BaseException | None) -> None:
        """Carry out a stop that was asked for, where the block did not end for a reason of its own."""
        stop = stop_of(self._recorder)
        if stop is None:
            return
        if error is None:
            # The block ended by itself before it came to its next step.
            raise self._last_words()
        if isinstance(error, Interrupted):
            # By the deadline, or by another recorder.
            last = self._parted_somehow(stop)
            if error is self._raised:
                error.checkpoint, error.reason = last.checkpoint, last.reason
                error.__cause__ = last.__cause__
        elif isinstance(error, Exception) and not stop.done:
            raise ended_in(error, self._parted_somehow(stop)) from error

    def _parted_somehow(self, stop: Stop) -> Interrupted:
        try:
            return self._last_words()
        except Exception as error:  # noqa: BLE001 - whatever it is, the program ends now
            return unsaved(stop, error)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._is_late:
            super()._handle(number, frame)
            return
        # Not a signal from outside: the watcher says that time is up.
        self._is_late = False
        self._pass_deadline()

    def _pass_deadline(self) -> None:
        """Raise, wherever the main thread is."""
        stop = stop_of(self._recorder)
        if self._has_left or stop is None or stop.done:
            return
        if self._leaving:
            Handlers._put_off = self  # noqa: SLF001 - one for all of them
            return
        if self._recorder._saving:  # noqa: SLF001 - the recorder's other half
            # It is stuck in there, and so would be the next.
            stop.finish(None, "it was in the middle of a save when time was up")
        self._raised = stop.interrupted()
        raise self._raised

    def _wake(self) -> None:
        self._signals.put(0)

    def _watch(self) -> None:
        if self._signals.get() is None:
            return
        ends = monotonic() + self._deadline * FOR_STEPS
        try:
            while self._signals.get(timeout=max(0.0, ends - monotonic())) is not None:
                # Asked once more: time has begun already.
                pass
        except Empty:
            with self._gate:
                ours = [number for number in self._before if signal.getsignal(number) is self._ours]
                if ours and not self._has_left:
                    self._is_late = True
                    _poke_main_thread(ours[0])


def stop_of(recorder: Deciding) -> Stop | None:
    """What a recorder was asked for."""
    return recorder._stop  # noqa: SLF001 - the recorder's other half


def unsaved(stop: Stop, error: BaseException) -> Interrupted:
    """The end where the last checkpoint could not be saved. There is no time left to try again: the log is told."""
    LOG.error("the last checkpoint before the end could not be saved: %s", error)
    ended = stop.finish(None)
    ended.__cause__ = error
    return ended


def ended_in(error: Exception, last: Interrupted) -> Interrupted:
    """The end of a block in which something failed after it had been asked to stop: the log has both."""
    LOG.error("the block ended in an error after it had been asked to stop: %s", last, exc_info=error)
    return last


def check_deadline(deadline: float) -> float:
    """Return `deadline` if it can be one."""
    if type(deadline) in (int, float) and 0 < deadline <= threading.TIMEOUT_MAX:
        return float(deadline)
    raise InvalidInputError(
        f"a deadline must be a number of seconds above 0, not {deadline!r:.60}",
        code=ErrorCode.BAD_ARGUMENT,
        hint="leave it out for 5 seconds",
        argument="deadline",
    )


def _poke_main_thread(number: int) -> None:
    """Have the handler run on the main thread, also where that waits for something."""
    main = threading.main_thread().ident
    if _CAN_POKE and main is not None:
        signal.pthread_kill(main, number)
    else:
        import _thread

        _thread.interrupt_main(signal.Signals(number))
