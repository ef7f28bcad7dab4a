"""Reports of searches through a history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from holdfast.history.checkpoint import Checkpoint
from holdfast.reports.report import Report, iso

if TYPE_CHECKING:
    from holdfast.objects.diff.diff import Diff

Monotonic = Literal["assumed", "checked", "contradicted"]
ChangeOp = Literal["add", "replace", "remove"]


@dataclass(frozen=True)
class Around(Report):
    """The checkpoints on both sides of a moment."""

    asked: datetime
    """The moment, in UTC."""
    before: Checkpoint
    """The last one at that moment, or before it."""
    after: Checkpoint | None
    """The first one after it; None where there is none yet."""

    @property
    def missed(self) -> timedelta:
        """How long before the moment the last one was saved."""
        return self.asked - self.before.created_at


@dataclass(frozen=True)
class BisectReport(Report):
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
    """Whether it holds everywhere after `found` and nowhere before: assumed, checked everywhere, or not so."""
    contradictions: tuple[Checkpoint, ...] = ()
    """Checkpoints before `found` where it holds, and after it where it does not, as far as that was seen."""
    skipped: tuple[Checkpoint, ...] = ()
    """Those between `before` and `found` that could not be tested: each of them may be the first, too."""
    notes: tuple[str, ...] = ()
    """What else is to be known: keys that a state did not have, states that could not be read."""


@dataclass(frozen=True)
class Divergence(Report):
    """Where two lines of work differ first."""

    last: Checkpoint | None
    """The last checkpoint of the first line at which both have the same state; None where not even the first has."""
    a: Checkpoint | None
    """The first checkpoint of the first line that differs; None where that line ends before."""
    b: Checkpoint | None
    """The same of the second line."""
    same: int
    """In how many states both agree after they parted, or from their beginnings where they have none in common."""
    diff: Diff | None
    """What differs between the two states; where one line has ended, between its last state and the other's next."""

    @property
    def diverged(self) -> bool:
        """Whether they differ at all."""
        return self.a is not None or self.b is not None


@dataclass(frozen=True)
class PathChange(Report):
    """A checkpoint that changed what is at a path."""

    states: ClassVar[tuple[str, ...]] = ("value", "old")

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


@dataclass(frozen=True)
class Blame(Report):
    """Who set what is at a path."""

    states: ClassVar[tuple[str, ...]] = ("value", "old")

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
    loads: int
    """States of which the part was read."""
    merges: tuple[Checkpoint, ...] = ()
    """The merges by which it came in, newest first."""
    skipped: tuple[Checkpoint, ...] = ()
    """Those right before `checkpoint` whose states cannot be read: each of them may have set it, too."""
    notes: tuple[str, ...] = ()
    """What else is to be known: states that could not be read, merged checkpoints that were removed."""


@dataclass(frozen=True)
class GrepMatch(Report):
    """A text that matches, and came in with a checkpoint."""

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

    def to_dict(self) -> dict[str, Any]:
        """The match as plain JSON data, with what names its checkpoint."""
        made = self.checkpoint
        named = {"id": made.id, "seq": made.seq, "created_at": iso(made.created_at), "message": made.message}
        return {**named, **{key: each for key, each in super().to_dict().items() if key != "checkpoint"}}


@dataclass(frozen=True)
class HistoryReport(Report):
    """What was at a path over time."""

    session: str
    path: str
    changes: tuple[PathChange, ...]
    notes: tuple[str, ...]
    """States that could not be read."""


@dataclass(frozen=True)
class GrepReport(Report):
    """Texts in the states of a history that match."""

    session: str
    pattern: str
    matches: tuple[GrepMatch, ...]
    more: bool
    """Whether a limit left some out."""
    notes: tuple[str, ...]
    """States that could not be read."""
