"""Runtime: what the heartbeat itself remembers: its beat, its interval, its phase, and what runs beside it.

The beat counter and the interval come back when it wakes up. The phase is information: where the last life was. Swarms,
sub-agents and channels are not brought back, because they belonged to a process that is gone; what is known of them is
handed over, for the agent to decide what to start again.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from holdfast.agents.heartbeat.interval import Interval
from holdfast.agents.heartbeat.stored import NUMBER, misfit, parts
from holdfast.errors import ErrorCode, StateError
from holdfast.record import Record

FORMAT_VERSION = 1
"""Of the snapshot. A higher one is refused, not guessed at."""


class Phase(StrEnum):
    """Where in its life a heartbeat is."""

    ASLEEP = "asleep"
    WAKE_UP = "wake_up"
    SENSE = "sense"
    APPRAISE = "appraise"
    THINK = "think"
    ACT = "act"
    INTEGRATE = "integrate"
    SLEEP = "sleep"


BEAT = (Phase.SENSE, Phase.APPRAISE, Phase.THINK, Phase.ACT, Phase.INTEGRATE)
"""The phases of one beat."""


class HandedOver(Record):
    """What ran beside the agent when it was saved, for it to look at again."""

    swarms: list[dict[str, Any]]
    subagents: list[dict[str, Any]]
    channels: dict[str, Any]

    def __bool__(self) -> bool:
        return bool(self.swarms or self.subagents or self.channels)


class Runtime:
    """The part of a snapshot that is the heartbeat's own.

    Attributes:
        beat: The beat that is under way, or was last, over all lives of the agent.
        lived: How many beats are over. This is what is stored as `beat`: one that was broken off is lived again.
        phase: The last phase that was completed.
        last_life: The phase that the checkpoint it woke up from was saved in; None in a first life.
        every: How many beats there are at most between two checkpoints; None where that is not known.
        last_every: The same of the life that the checkpoint is of.
        epoch: Which life of the session it is, as its lease counts them.
        last_epoch: The same of the life that the checkpoint is of.
        swarms: What is known of swarms under way; the agent keeps this up to date.
        subagents: The same of sub-agents.
        channels: The same of channel sessions, by name.
    """

    def __init__(self, interval: Interval, *, app_version: str | None = None) -> None:
        self.interval = interval
        self.app_version = app_version
        self.beat = 0
        self.lived = 0
        self.phase = Phase.ASLEEP
        self.last_life: str | None = None
        self.every: int | None = None
        self.last_every: int | None = None
        self.epoch: int | None = None
        self.last_epoch: int | None = None
        self.swarms: list[dict[str, Any]] = []
        self.subagents: list[dict[str, Any]] = []
        self.channels: dict[str, Any] = {}
        self._handed_over: HandedOver | None = None

    def snapshot(self) -> dict[str, Any]:
        """All of it, with the version of the application and of this format."""
        return {
            "beat": self.lived,
            "interval": self.interval.seconds,
            "phase": str(self.phase),
            "every": self.every,
            "epoch": self.epoch,
            "active_swarms": list(self.swarms),
            "active_subagents": list(self.subagents),
            "channel_sessions": dict(self.channels),
            "app_version": self.app_version,
            "format_version": FORMAT_VERSION,
        }

    def restore(self, value: Any) -> None:
        """Take over beat and interval; keep the rest for `hand_over`."""
        found = parts(
            value,
            "runtime",
            beat=int,
            interval=NUMBER,
            phase=str,
            every=(int, type(None)),
            epoch=(int, type(None)),
            active_swarms=list,
            active_subagents=list,
            channel_sessions=dict,
            app_version=(str, type(None)),
            format_version=int,
        )
        if found.get("format_version", FORMAT_VERSION) > FORMAT_VERSION:
            raise StateError(
                f"the snapshot has format version {found['format_version']}, and this is version {FORMAT_VERSION}",
                code=ErrorCode.TYPE_MISMATCH,
                hint="run the version of holdfast that saved it, or a newer one",
            )
        if found.get("beat", 0) < 0 or not 0 <= found.get("interval", 0) <= 86400:
            raise misfit("runtime", "a beat or an interval is out of range")
        self.beat = self.lived = found.get("beat", self.lived)
        self.interval.seconds = found.get("interval", self.interval.seconds)
        self.last_life, self.last_every = found.get("phase"), found.get("every")
        self.last_epoch = found.get("epoch")
        self._handed_over = HandedOver(
            found.get("active_swarms", []),
            found.get("active_subagents", []),
            found.get("channel_sessions", {}),
        )

    def hand_over(self) -> HandedOver | None:
        """What the last life left behind, once; None where there is nothing."""
        left, self._handed_over = self._handed_over, None
        return left or None
