"""What a resume reports: to what, from when, and what became of each source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from holdfast.store.verifying import DamagedCheckpoint

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
        steps_recovered: Its step.
        beats_recovered: Its beats.
        sources: What became of each source, in the order in which they were connected.
        unclaimed: What the checkpoint has and no source asked for; the next save leaves it out.
        passed_over: Damaged checkpoints that an older one was served for, newest first.
        reason: Why nothing could be restored; empty where something was.
    """

    checkpoint: Checkpoint | None
    age_seconds: float = 0.0
    steps_recovered: int | None = None
    beats_recovered: int | None = None
    sources: Mapping[str, SourceOutcome] = field(default_factory=dict)
    unclaimed: tuple[str, ...] = ()
    passed_over: tuple[DamagedCheckpoint, ...] = ()
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
            "complete": self.complete,
            "sources": {
                name: {"outcome": each.outcome, "message": each.message}
                for name, each in self.sources.items()
            },
            "unclaimed": list(self.unclaimed),
            "passed_over": [{"id": each.id, "seq": each.seq, "why": each.why} for each in self.passed_over],
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
            names = self.named(outcome)
            if names:
                parts.append(f"{outcome}: {', '.join(names)}")
        if self.unclaimed:
            parts.append(f"unclaimed: {', '.join(self.unclaimed)}")
        if self.passed_over:
            passed = ", ".join(f"#{each.seq or '?'}" for each in self.passed_over)
            parts.append(f"passed over, because damaged: {passed}")
        return "; ".join(parts)
