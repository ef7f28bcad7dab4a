"""What a heartbeat says about waking up and about a life as a whole: records, and one sentence of each for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.agents.heartbeat.runtime import HandedOver
from holdfast.history.checkpoint import Checkpoint
from holdfast.record import Record

_LONGEST = 1000
"""Characters of what an application says; what is longer is cut off."""

_SHORT = 200
"""The same in a line that says more."""


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
    handed_over: HandedOver | None = None
    at_most_lost: int = 0
    """How many beats the last life may have lived after that checkpoint. 0: it ended in order."""

    @property
    def complete(self) -> bool:
        """Whether everything that was wanted came back."""
        return self.reason in ("restored", "first", "disabled") and all(
            said == "restored" for name, said in self.sources.items() if name not in self.newer
        )

    def __str__(self) -> str:
        """One line for people."""
        told = {
            "first": f"first life of session {self.session}: nothing to restore",
            "disabled": "checkpoints are switched off: nothing is restored, and nothing will be saved",
            "database": "not restored: the agent's own database is newer than the checkpoint",
            "damaged": "cold start: there are checkpoints, but none of them can be read",
        }.get(self.reason, "")
        if self.checkpoint is not None and self.reason == "restored":
            age = _age(self.age_seconds or 0.0)
            told = f"restored beat {self.beat} from {self.checkpoint.id[:12]}, {age} old{self._lost()}"
        elif self.checkpoint is not None:
            told += f" ({self.checkpoint.id[:12]}, {_age(self.age_seconds or 0.0)} old)"
        if self.passed_over:
            told += f"; passed over as damaged: {'; '.join(self.passed_over)}"
        if self.foreign:
            told += f"; passed over, with none of its parts: {', '.join(self.foreign)}"
        missing = [name for name, said in self.sources.items() if said == "missing"]
        told += f"; not in the checkpoint: {', '.join(missing)}" if missing else ""
        failed = [f"{name}, {said}" for name, said in self.failed.items()]
        return told + (f"; not restored: {'; '.join(failed)}" if failed else "")

    @property
    def failed(self) -> dict[str, str]:
        """The parts that could not take what is stored of them, and why. It is carried forward as it is."""
        return {name: said for name, said in self.sources.items() if said.startswith("failed")}

    def _lost(self) -> str:
        if self.at_most_lost:
            return f", at most {count_of_beats(self.at_most_lost)} lost"
        # Of what was saved later, where that is damaged, nobody knows; and what is not back is not here.
        return "" if self.failed or self.passed_over else ", nothing lost"

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON data; of what was handed over, how much there was."""
        left = self.handed_over
        return self._asdict() | {
            "checkpoint": None if self.checkpoint is None else self.checkpoint.id,
            "order": list(self.order),
            "sources": dict(self.sources),
            "newer": list(self.newer),
            "passed_over": list(self.passed_over),
            "foreign": list(self.foreign),
            "handed_over": None
            if left is None
            else {name: len(part) for name, part in left._asdict().items()},
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
        count = count_of_beats(self.beats)
        return f"{self.status} at beat {self.beat} after {count}, {saved}: {self.reason}"

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
    except Exception as error:  # noqa: BLE001 - the application's own `__str__`: what is told about it must not fail too
        text = f"(cannot be shown: {type(error).__name__})"
    return text[:_LONGEST].encode("utf-8", "replace").decode("utf-8")


def named(error: BaseException) -> str:
    """An error in one line: its type, and the first line of what it says."""
    said = as_text(error).strip().partition("\n")[0][:_SHORT]
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
