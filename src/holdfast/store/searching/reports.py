"""What searching gives back: records that say what was found, and how sure that is."""

from __future__ import annotations

from typing import Any, Literal

from holdfast.history.checkpoint import Checkpoint
from holdfast.record import Record

Monotonic = Literal["assumed", "sampled", "checked", "contradicted"]
ChangeOp = Literal["add", "replace", "remove"]


class Skip:
    """What a predicate returns where it cannot say whether it holds: `return holdfast.Skip`."""


class BisectReport(Record):
    """Where a predicate begins to hold."""

    found: Checkpoint
    """The first checkpoint where it holds."""
    before: Checkpoint | None
    """The last one before it where it does not; None where it holds from the oldest on."""
    oldest: Checkpoint
    """Where the search began: `good`, or the first of the history."""
    newest: Checkpoint
    """Where it ended: `bad`, or the head."""
    total: int
    """Checkpoints from the oldest to the newest."""
    loads: int
    """States that were loaded, of which no two are the same."""
    monotonic: Monotonic
    """Whether it holds everywhere after `found` and nowhere before: assumed, sampled, checked everywhere, or not so."""
    contradictions: tuple[Checkpoint, ...] = ()
    """Checkpoints before `found` where it holds, and after it where it does not, as far as that was seen."""
    skipped: tuple[Checkpoint, ...] = ()
    """Those between `before` and `found` that could not be tested: each of them may be the first, too."""
    notes: tuple[str, ...] = ()
    """What else is to be known: keys that a state did not have, states that could not be read."""

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return {
            "found": self.found.to_dict(),
            "before": None if self.before is None else self.before.to_dict(),
            "oldest": self.oldest.to_dict(),
            "newest": self.newest.to_dict(),
            "total": self.total,
            "loads": self.loads,
            "monotonic": self.monotonic,
            "contradictions": [each.to_dict() for each in self.contradictions],
            "skipped": [each.to_dict() for each in self.skipped],
            "notes": list(self.notes),
        }


class PathChange(Record):
    """A checkpoint that changed what is at a path."""

    checkpoint: Checkpoint
    """The one that changed it."""
    op: ChangeOp
    """add: there was nothing before. remove: there is nothing since. replace: there was something else."""
    path: str
    value: Any
    """What is there since; None where it was removed."""
    old: Any
    """What was there before; None where it was added."""
    before: Checkpoint | None
    """The one before it in history, whose state has `old`; None where it is the first."""
    skipped: tuple[Checkpoint, ...] = ()
    """Those between the two whose states cannot be read: each of them may have changed it, too."""


class Blame(Record):
    """Who set what is at a path."""

    checkpoint: Checkpoint
    """The newest one that changed it; where the value came in by a merge, the one that set it on the merged line."""
    op: ChangeOp
    """add: there was nothing before. remove: there is nothing since. replace: there was something else."""
    path: str
    value: Any
    """What is there since; None where it was removed."""
    old: Any
    """What was there before; None where it was added."""
    before: Checkpoint | None
    """The one before it in history, whose state has `old`; None where it is the first."""
    certain: bool
    """False where states between were not looked at: the value may have gone away and come back there."""
    loads: int
    """States of which the part was read."""
    merges: tuple[Checkpoint, ...] = ()
    """The merges by which it came in, newest first."""
    skipped: tuple[Checkpoint, ...] = ()
    """Those right before `checkpoint` whose states cannot be read: each of them may have set it, too."""
    notes: tuple[str, ...] = ()
    """What else is to be known: states that could not be read, merged checkpoints that were removed."""


class GrepMatch(Record):
    """A text in the state of a checkpoint that matches."""

    checkpoint: Checkpoint
    path: str
    """Where the text is, as `load(path=)` takes it."""
    text: str
    """What is around the match, on one line or more; the whole text where it is short."""
    start: int
    """Where in `text` the match begins."""
    stop: int
    """Where in `text` it ends."""
    offset: int
    """Where in the whole text it begins."""
