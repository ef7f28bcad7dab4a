"""What the heartbeat itself remembers (its beat, interval, phase and what runs beside it), and what it reports.

The beat counter and the interval come back when it wakes up. The phase is information: where the last life was. Swarms,
sub-agents and channels are not brought back, because they belonged to a process that is gone; what is known of them is
handed over, for the agent to decide what to start again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from holdfast import Checkpoint
from holdfast.errors import ErrorCode, StateError, bad_argument
from holdfast.record import Record

FORMAT_VERSION = 1
"""Of the snapshot. A higher one is refused, not guessed at."""

FASTEST, SLOWEST = 5.0, 120.0
"""Seconds between two beats, where nobody says otherwise."""

_LONGEST = 1000
"""Characters of what an application says; what is longer is cut off."""


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


class Interval:
    """Seconds until the next beat: short when there is work, longer and longer when there is none, within bounds.

    Args:
        minimum: The shortest pause: the one while there is work.
        maximum: The longest one: where an idle agent ends up.
        speed_up: What the pause is divided by after a beat with work.
        slow_down: What it is multiplied with after a beat without.
    """

    def __init__(
        self,
        minimum: float = FASTEST,
        maximum: float = SLOWEST,
        *,
        speed_up: float = 4.0,
        slow_down: float = 1.5,
    ) -> None:
        self.minimum = _number(minimum, "minimum", 0, 86400)
        self.maximum = _number(maximum, "maximum", self.minimum, 86400)
        self._speed_up = _number(speed_up, "speed_up", 1, 1000)
        self._slow_down = _number(slow_down, "slow_down", 1, 1000)
        self._now = self.minimum

    @property
    def seconds(self) -> float:
        """The pause as it is now."""
        return self._now

    @seconds.setter
    def seconds(self, value: float) -> None:
        """Set it, as far as the bounds allow: a restored one may be of other bounds."""
        self._now = min(self.maximum, max(self.minimum, _number(value, "interval", 0, 86400)))

    def after(self, *, worked: bool) -> float:
        """The pause after a beat in which there was work, or none."""
        # Nothing grows by being multiplied with zero: from there it begins with a hundredth of the longest.
        idle = max(self._now, self.maximum / 100) * self._slow_down
        self.seconds = self._now / self._speed_up if worked else min(idle, self.maximum)
        return self._now


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
        swarms: What is known of swarms under way; the agent keeps this up to date.
        subagents: The same of sub-agents.
        channels: The same of channel sessions, by name.
    """

    def __init__(
        self, interval: Interval, *, every: int | None = None, app_version: str | None = None
    ) -> None:
        self.interval = interval
        self.app_version = app_version
        self.beat = self.lived = 0
        self.phase = Phase.ASLEEP
        self.last_life: str | None = None
        self.every = every
        self.last_every: int | None = None
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
            "active_swarms": list(self.swarms),
            "active_subagents": list(self.subagents),
            "channel_sessions": dict(self.channels),
            "app_version": self.app_version,
            "format_version": FORMAT_VERSION,
        }

    def restore(self, value: Any) -> None:
        """Take over beat and interval; keep the rest for `hand_over`. A key that is missing is an older form."""
        found = value if isinstance(value, dict) else {}
        beat, version = found.get("beat", self.lived), found.get("format_version", FORMAT_VERSION)
        left = HandedOver(
            found.get("active_swarms", []),
            found.get("active_subagents", []),
            found.get("channel_sessions", {}),
        )
        fits = type(beat) is int and beat >= 0 and type(version) is int and version <= FORMAT_VERSION
        if not fits or [type(part) for part in left] != [list, list, dict]:
            raise StateError(
                f"the heartbeat's own part does not fit: beat {beat!r:.20}, format version {version!r:.20}",
                code=ErrorCode.TYPE_MISMATCH,
                hint="run the version of holdfast that saved it, or a newer one",
                part="runtime",
            )
        self.interval.seconds = found.get("interval", self.interval.seconds)
        self.beat = self.lived = beat
        self.last_life, self.last_every = found.get("phase"), found.get("every")
        self._handed_over = left

    def hand_over(self) -> HandedOver | None:
        """What the last life left behind, once; None where there is nothing."""
        left, self._handed_over = self._handed_over, None
        return left or None


class WakeReport(Record):
    """How an agent woke up: from which checkpoint, with what of it, and what could not be had."""

    session: str
    beat: int
    """The beat that it goes on from."""
    reason: str
    """restored; first: there is no checkpoint; database: the agent's own database is newer; damaged: no checkpoint can
    be read; disabled: checkpoints are switched off."""
    checkpoint: Checkpoint | None = None
    age_seconds: float | None = None
    order: tuple[str, ...] = ()
    """What was restored, in the order in which that was done."""
    sources: Mapping[str, str] = {}
    """What became of each part, by name; for a failed one with the reason."""
    newer: tuple[str, ...] = ()
    """Parts that were left as they are, because the agent's own database is newer."""
    passed_over: tuple[str, ...] = ()
    """Damaged checkpoints, newest first, each with what is wrong."""
    foreign: tuple[str, ...] = ()
    """Checkpoints that somebody else saved, newest first, with none of the agent's parts: they were passed over."""
    kept_aside: tuple[str, ...] = ()
    """Files with the store as it was, where that was damaged so that it had to be made anew."""
    handed_over: HandedOver | None = None
    at_most_lost: int | None = 0
    """How many beats the last life may have lived after that checkpoint. 0: it ended in order. None: what was saved
    last is damaged, so nobody knows."""

    @property
    def complete(self) -> bool:
        """Whether everything that was wanted came back."""
        return (
            self.reason in ("restored", "first", "disabled")
            and not self.kept_aside
            and all(said == "restored" for name, said in self.sources.items() if name not in self.newer)
        )

    @property
    def failed(self) -> dict[str, str]:
        """The parts that could not take what is stored of them, and why. It is carried forward as it is."""
        return {name: said for name, said in self.sources.items() if said.startswith("failed")}

    def __str__(self) -> str:
        """One line for people."""
        told = {
            "first": f"first life of session {self.session}: nothing to restore",
            "disabled": "checkpoints are switched off: nothing is restored, and nothing will be saved",
            "database": "not restored: the agent's own database is newer than the checkpoint",
            "damaged": "cold start: there are checkpoints, but none of them can be read",
        }.get(self.reason, "")
        if self.checkpoint is not None and self.reason == "restored":
            lost = f", at most {count_of_beats(self.at_most_lost)} lost" if self.at_most_lost else ""
            if self.at_most_lost == 0 and not (self.failed or self.passed_over or self.kept_aside):
                lost = ", nothing lost"
            told = f"restored beat {self.beat} from {self.checkpoint.id[:12]}, {_age(self.age_seconds or 0)} old{lost}"
        elif self.checkpoint is not None:
            told += f" ({self.checkpoint.id[:12]}, {_age(self.age_seconds or 0)} old)"
        if self.kept_aside:
            told += (
                f"; the store was damaged and made anew, as it was it is kept in {', '.join(self.kept_aside)}"
            )
        if self.passed_over:
            told += f"; passed over as damaged: {'; '.join(self.passed_over)}"
        if self.foreign:
            told += f"; passed over, with none of its parts: {', '.join(self.foreign)}"
        missing = [name for name, said in self.sources.items() if said == "missing"]
        told += f"; not in the checkpoint: {', '.join(missing)}" if missing else ""
        failed = [f"{name}, {said}" for name, said in self.failed.items()]
        return told + (f"; not restored: {'; '.join(failed)}" if failed else "")

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON data; of what was handed over, how much there was."""
        left = self.handed_over
        told = {
            name: list(value) if isinstance(value, tuple) else value for name, value in self._asdict().items()
        }
        return told | {
            "checkpoint": None if self.checkpoint is None else self.checkpoint.id,
            "sources": dict(self.sources),
            "handed_over": left and {name: len(part) for name, part in left._asdict().items()},
            "complete": self.complete,
        }


class LifeReport(Record):
    """A life from waking to sleeping."""

    session: str
    status: str
    """paused: it went to sleep in order; interrupted: a signal, or the task was cancelled; failed: too many beats in a
    row ended in an error."""
    reason: str
    beat: int
    """The last beat, over all lives."""
    beats: int
    """How many there were in this one."""
    checkpoints: int
    failures: int
    """How many of the beats ended in an error."""
    woke: WakeReport
    last: Checkpoint | None = None
    """The checkpoint that it went to sleep with."""
    error: BaseException | None = None
    """What the last beat ended in, where there were too many."""

    def __str__(self) -> str:
        """One line for people."""
        saved = f"saved {self.last.id[:12]}" if self.last is not None else "not saved"
        return f"{self.status} at beat {self.beat} after {count_of_beats(self.beats)}, {saved}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON data."""
        return self._asdict() | {
            "woke": self.woke.to_dict(),
            "last": None if self.last is None else self.last.id,
            "error": None if self.error is None else f"{type(self.error).__name__}: {as_text(self.error)}",
        }


def as_text(said: object) -> str:
    """What an application said, or an exception of its own, as a text that can be stored and sent."""
    try:
        text = said if isinstance(said, str) else str(said)
    except Exception as error:  # noqa: BLE001 - the application's own `__str__`: telling of it must not fail too
        text = f"(cannot be shown: {type(error).__name__})"
    return text[:_LONGEST].encode("utf-8", "replace").decode("utf-8")


def named(error: BaseException) -> str:
    """An error in one line: its type, and the first line of what it says."""
    said = as_text(error).strip().partition("\n")[0][:200]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def count_of_beats(count: int) -> str:
    """`1 beat`, `2 beats`."""
    return f"{count} beat{'' if count == 1 else 's'}"


def _age(seconds: float) -> str:
    """A time for people: 12 s, 5 min, 3 h, 2 days."""
    for size, name, until in ((1, "s", 90), (60, "min", 90 * 60), (3600, "h", 48 * 3600)):
        if seconds < until:
            return f"{max(0.0, seconds) / size:.0f} {name}"
    return f"{seconds / 86400:.0f} days"


def _number(value: Any, name: str, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise bad_argument(
            f"{name} of the heartbeat cannot be {value!r:.60}", f"give a number from {low:g} to {high:g}"
        )
    return float(value)
