"""Interrupts: SIGTERM and SIGINT end in a last checkpoint and a clean stop.

The first signal asks the recorder to stop: the next step, beat or tick saves with status `interrupted` and raises
`Interrupted`. If none comes before the deadline, it is saved wherever the program is. A second signal does not wait for
anything: the handlers from before are put back, and it is raised again for them.

Handlers are taken with `signal.signal`, for event loops too: a loop's own handlers run only when the loop does, and a
second signal has to work while it is stuck. On leaving, each is given back as it was; one that the application set
meanwhile stays. A signal that is ignored, or that something other than Python handles, is left alone.
"""

from __future__ import annotations

import logging
import signal
import threading
import warnings
from collections.abc import Callable
from queue import Empty, SimpleQueue
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from holdfast.errors import ErrorCode, HoldfastWarning, InvalidInputError
from holdfast.recording.stopping import Interrupted, Stop

if TYPE_CHECKING:
    from holdfast.recording.deciding import Deciding

LOG = logging.getLogger("holdfast.recording")

_CAN_POKE = hasattr(signal, "pthread_kill")

_SIGNALS = (signal.SIGINT, signal.SIGTERM) if _CAN_POKE else (signal.SIGINT,)
"""Windows knows SIGTERM by name, and never delivers it."""


class Handlers:
    """The signal handlers of the process while a block has taken them over."""

    def __init__(self, recorder: Deciding, deadline: float) -> None:
        self._recorder = recorder
        self._deadline = check_deadline(deadline)
        # A bound method is another object each time: this one is compared.
        self._ours: Callable[[int, FrameType | None], None] = self._handle
        self._before: dict[int, Any] = {}

    def _take(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            # Only the main thread may handle signals; elsewhere `recorder.interrupt()` is the way to ask.
            return
        for number in _SIGNALS:
            before = signal.getsignal(number)
            if before is not None and before is not signal.SIG_IGN:
                self._before[number] = before
                signal.signal(number, self._ours)

    def _give_back(self) -> None:
        while self._before:
            number, before = self._before.popitem()
            if signal.getsignal(number) is self._ours:
                signal.signal(number, before)
            else:
                warnings.warn(
                    f"the handler of {signal.Signals(number).name} was changed inside of recorder.interrupts(), and "
                    "stays as it is now",
                    HoldfastWarning,
                    stacklevel=3,
                )

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if stop_of(self._recorder) is not None:
            self._give_back()
            signal.raise_signal(number)
            return
        outer = self._before.get(number)
        self._ask(number)
        if isinstance(getattr(outer, "__self__", None), Handlers):
            # Of another recorder, around this one: both have something to save.
            outer(number, frame)  # type: ignore[misc]

    def _ask(self, number: int) -> None:
        self._recorder.interrupt(number)


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

    def __enter__(self) -> Self:
        self._recorder._begin_anew()  # noqa: SLF001 - the recorder's other half
        self._take()
        if self._before:
            # Begun here and not by the handler, which may come while its thread is inside of a lock of `threading`.
            threading.Thread(target=self._watch, name="holdfast deadline", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if stop_of(self._recorder) is not None and (error is None or isinstance(error, Interrupted)):
                # The block ended by itself, or another recorder ended it, before this one came to its next step.
                last = self._last_words()
                if error is None:
                    raise last
        finally:
            self._signals.put(None)
            with self._gate:
                # From here on the watcher leaves the main thread alone, which would have to do with other handlers.
                self._has_left = True
            self._give_back()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._is_late:
            super()._handle(number, frame)
            return
        # Not a signal from outside: the watcher says that time is up.
        self._is_late = False
        if not self._has_left:
            raise self._end_here()

    def _ask(self, number: int) -> None:
        super()._ask(number)
        self._signals.put(number)

    def _watch(self) -> None:
        number = self._signals.get()
        if number is None:
            return
        try:
            self._signals.get(timeout=self._deadline)
        except Empty:
            with self._gate:
                stop = stop_of(self._recorder)
                if not self._has_left and stop is not None and not stop.done:
                    self._is_late = True
                    _poke_main_thread(number)

    def _end_here(self) -> Interrupted:
        """Save here and now, on the main thread, wherever it is; unless that is inside of a save."""
        stop = stop_of(self._recorder)
        assert stop is not None
        if self._recorder._saving:  # noqa: SLF001 - the recorder's other half
            return stop.finish(None)
        try:
            return self._last_words()
        except Exception as error:  # noqa: BLE001 - whatever it is, the program ends now
            return unsaved(stop, error)


def stop_of(recorder: Deciding) -> Stop | None:
    """What a recorder was asked for."""
    return recorder._stop  # noqa: SLF001 - the recorder's other half


def unsaved(stop: Stop, error: BaseException) -> Interrupted:
    """The end where the last checkpoint could not be saved. There is no time left to try again: the log is told."""
    LOG.error("the last checkpoint before the end could not be saved: %s", error)
    ended = stop.finish(None)
    ended.__cause__ = error
    return ended


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
