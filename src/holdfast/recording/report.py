"""What a resume reports: to what, from when, and what became of each source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from holdfast.reports.upkeep import DamagedCheckpoint

if TYPE_CHECKING:
    from holdfast.history.checkpoint import Checkpoint

Outcome = Literal["restored", "missing", "failed", "absent"]


@dataclass(frozen=True, slots=True)
class SourceOutcome:
    """What became of one source.

    Attributes:
        outcome: `restored`; `missing`: the checkpoint has nothing for it, and it was left as it is; `failed`: it could
            not take its state, which is carried forward; `absent`: declared, but not there; carried forward as well.
        message: Why it failed.
    """

    outcome: Outcome
    message: str = ""


@dataclass(frozen=True, slots=True)
class ResumeReport:
    """What `resume` found and did.

    Attributes:
        checkpoint: Where the agent goes on from. None where all that there is is damaged: a cold start.
        age_seconds: How old that is.
        steps_recovered: Its step: the number of the last step that need not be done again.
        beats_recovered: Its beats. None where none were counted.
        counted_on: The id of the checkpoint that the step and the beats were found on, where that is another one with
            the same state: a person's note, a restore and a fork have none of their own.
        sources: What became of each source, in the order in which they were connected.
        unclaimed: What the checkpoint has and no source asked for; the next save leaves it out.
        passed_over: Damaged checkpoints that an older one was served for, newest first.
        newer_branches: Other branches of the session on which something newer was saved.
        reason: Why nothing could be restored; empty where something was.
    """

    checkpoint: Checkpoint | None
    age_seconds: float = 0.0
    steps_recovered: int | None = None
    beats_recovered: int | None = None
    counted_on: str | None = None
    sources: Mapping[str, SourceOutcome] = field(default_factory=dict)
    unclaimed: tuple[str, ...] = ()
    passed_over: tuple[DamagedCheckpoint, ...] = ()
    newer_branches: tuple[str, ...] = ()
    reason: str = ""

    @property
    def complete(self) -> bool:
        """Whether every source that is there got its state back."""
        return self.checkpoint is not None and all(
            each.outcome in ("restored", "absent") for each in self.sources.values()
        )

    def named(self, outcome: Outcome) -> tuple[str, ...]:
        """The sources with this outcome."""
        return tuple(name for name, each in self.sources.items() if each.outcome == outcome)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON data, the same on every surface."""
        return {
            "checkpoint": None if self.checkpoint is None else self.checkpoint.to_dict(),
            "age_seconds": self.age_seconds,
            "steps_recovered": self.steps_recovered,
            "beats_recovered": self.beats_recovered,
            "counted_on": self.counted_on,
            "complete": self.complete,
            "sources": {
                name: {"outcome": each.outcome, "message": each.message}
                for name, each in self.sources.items()
            },
            "unclaimed": list(self.unclaimed),
            "passed_over": [{"id": each.id, "seq": each.seq, "why": each.why} for each in self.passed_over],
            "newer_branches": list(self.newer_branches),
            "reason": self.reason,
        }

    def __str__(self) -> str:
        if self.checkpoint is None:
            return f"cold start: {self.reason}"
        said = f" {self.checkpoint.message!r}" if self.checkpoint.message else ""
        parts = [
            f"resumed from #{self.checkpoint.seq}{said} of {self.checkpoint.created_at:%Y-%m-%d %H:%M:%S} UTC"
        ]
        for outcome in ("restored", "missing", "failed", "absent"):
            told = [_with_reason(name, self.sources[name].message) for name in self.named(outcome)]
            if told:
                parts.append(f"{outcome}: {', '.join(told)}")
        if self.unclaimed:
            parts.append(f"unclaimed: {', '.join(self.unclaimed)}")
        if self.steps_recovered is None and self.beats_recovered is None:
            parts.append("no step or beat is known for it: counting begins at 0")
        elif self.counted_on is not None:
            parts.append(f"counted on from {self.counted_on[:12]}, which has the same state")
        if self.passed_over:
            passed = ", ".join(f"#{each.seq or '?'}" for each in self.passed_over)
            parts.append(f"passed over, because damaged: {passed}")
        if self.newer_branches:
            parts.append(f"newer, and elsewhere: {', '.join(self.newer_branches)}")
        return "; ".join(parts)


def _with_reason(name: str, message: str) -> str:
    return f"{name} ({message})" if message else name
