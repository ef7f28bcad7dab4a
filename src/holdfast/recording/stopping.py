"""How a recorder is asked to stop, and what it raises then.

`Interrupted` is a SystemExit: no `except Exception` swallows it, it ends a program without a traceback and with the
exit code that shells know for the signal (143 for SIGTERM, 130 for SIGINT). In a thread it ends that thread; catch it
there, because `threading` prints whatever comes out of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint

STOP: Final = "auto:interrupt"
"""The trigger of a last checkpoint; also what a check answers when it is time for one."""

Parting = tuple["Checkpoint | None", str]
"""The last checkpoint, or why there is none."""


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

    __slots__ = ("checkpoint", "done", "reason", "signal")

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
