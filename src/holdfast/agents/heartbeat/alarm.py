"""Alarm: ends a hook that is a plain function when the deadline after a signal is over.

A coroutine is cancelled by the event loop, which does not get to run while a plain function does. So the clock of the
process rings (SIGALRM), and the handler raises right there, as Ctrl-C would. It is set only after somebody asked for an
end, and only where the application has no use for that signal itself; Windows has none.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self


class Overdue(BaseException):
    """Raised inside of a hook whose time is over; no `except Exception` of the application is to keep it."""


class Alarm:
    """Rings in a hook, so many seconds after `start`. For a `with` block; without one nothing rings.

    Args:
        seconds: How long a hook may still take.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_ours = False
        self._has_begun = False
        self._in_hook = False
        self._is_over = False

    def __enter__(self) -> Self:
        if (
            hasattr(signal, "setitimer")
            # Only the main thread may handle signals.
            and threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
        ):
            signal.signal(signal.SIGALRM, self._ring)
            self._is_ours = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_ours:
            self._is_ours = False
            # First the clock: from then on nothing rings for a handler that is gone.
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def start(self) -> None:
        """Somebody asked for an end. On any thread, and inside of a signal handler."""
        # Once: whoever asks again does not get more time.
        if self._is_ours and not self._has_begun:
            self._has_begun = True
            signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def call(self, hook: Callable[..., Any], *arguments: Any) -> Any:
        """What a hook returns.

        Raises:
            Overdue: Its time is over.
        """
        if self._is_over:
            raise Overdue
        self._in_hook = True
        try:
            return hook(*arguments)
        finally:
            self._in_hook = False

    def _ring(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._is_over = True
        if self._in_hook:
            raise Overdue
