"""Reports of operations that change history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from holdfast.history.checkpoint import Checkpoint
from holdfast.objects.codec.tagged_json import json_form
from holdfast.objects.diff.diff import Diff
from holdfast.objects.merge.conflict import MergeConflict, MergeResolution
from holdfast.reports.report import Report


@dataclass(frozen=True)
class Undone(Report):
    """The operation that an undo took back, or a redo brought again."""

    number: int
    kind: str
    at: datetime
    """When it was done."""
    summary: str
    head: Checkpoint | None
    """The head of the branch in use afterwards; None where that branch is gone."""


@dataclass(frozen=True)
class MergeReport(Report):
    """What a merge did, or why it did nothing."""

    base: Checkpoint
    """The newest checkpoint that both sides come from."""
    bases: tuple[Checkpoint, ...]
    """All checkpoints at which both sides met last, `base` first: several where they were merged crosswise."""
    base_exact: bool
    """Whether nothing nearer is gone for good. Otherwise what differs is a conflict, whoever changed it."""
    ours: Checkpoint
    """The head of the branch in use, as it was."""
    theirs: Checkpoint
    """What was merged into it."""
    checkpoint: Checkpoint | None = None
    """The merge checkpoint; None where nothing was written."""
    conflicts: tuple[MergeConflict, ...] = ()
    """What nobody decided on. As long as there is one, nothing is written."""
    resolved: tuple[MergeResolution, ...] = ()
    """The conflicts that were decided, and how."""
    unused: tuple[str, ...] = ()
    """Paths of `resolve`, those with a `*` aside, that no conflict was at."""
    up_to_date: bool = False
    """Ours has all that theirs has: there was nothing to do."""
    fast_forward: bool = False
    """Ours has not gone on since the base: the merged state is theirs."""
    dry_run: bool = False
    """Nothing was to be written."""
    changes: Diff | None = None
    """What the merge changes in our state; None where there are conflicts."""

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data for JSON; values of conflicts in tagged JSON."""
        return {
            **self.described(),
            "conflicts": [json_form(each.described()) for each in self.conflicts],
            "resolved": [json_form(each.conflict.described()) | {"how": each.how} for each in self.resolved],
        }

    def described(self) -> dict[str, Any]:
        """The same without the values of conflicts."""
        return {
            "base": self.base.to_dict(),
            "bases": [each.to_dict() for each in self.bases],
            "base_exact": self.base_exact,
            "ours": self.ours.to_dict(),
            "theirs": self.theirs.to_dict(),
            "checkpoint": None if self.checkpoint is None else self.checkpoint.to_dict(),
            "unused": list(self.unused),
            "up_to_date": self.up_to_date,
            "fast_forward": self.fast_forward,
            "dry_run": self.dry_run,
            "changes": None
            if self.changes is None
            else {"summary": self.changes.summary(), "stat": self.changes.stat().to_dict()},
        }


@dataclass(frozen=True)
class RestorePlan(Report):
    """A state that comes back as a new checkpoint."""

    session: str
    branch: str
    source: str
    """The id of the checkpoint whose state comes back."""
    head: str
    """The id of the head until then."""


@dataclass(frozen=True)
class BranchPlace(Report):
    """A branch of a session."""

    session: str
    branch: str


@dataclass(frozen=True)
class ForkPlan(Report):
    """A new branch."""

    session: str
    source: str
    """The id of the checkpoint that it begins at."""
    into: BranchPlace


@dataclass(frozen=True)
class SwitchPlan(Report):
    """Another branch to be used."""

    session: str
    from_: str
    """The branch until then."""
    to: str
    head: str
    """The id of its head."""


@dataclass(frozen=True)
class TagPlan(Report):
    """Labels of a checkpoint."""

    session: str
    checkpoint: str
    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True)
class PinPlan(Report):
    """The protection of a checkpoint."""

    session: str
    checkpoint: str
    pinned: bool


@dataclass(frozen=True)
class AnnotatePlan(Report):
    """A new message, or added metadata."""

    session: str
    checkpoint: str
    message: str | None
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class DeletePlan(Report):
    """A checkpoint that is removed from history."""

    session: str
    checkpoint: str
    branches: tuple[str, ...]
    """The branches whose head it was."""
    head: str | None
    """The id of their head afterwards."""


@dataclass(frozen=True)
class ClearPlan(Report):
    """All that is removed from a session."""

    session: str
    checkpoints: int
    branches: tuple[str, ...]


@dataclass(frozen=True)
class UndoPlan(Report):
    """An operation that is taken back, or done again."""

    session: str
    number: int
    kind: str
    at: datetime
    """When it was done."""
    summary: str
    branch: str
    """The branch in use afterwards."""
    head: str | None
    """The id of its head."""


@dataclass(frozen=True)
class StateSource(Report):
    """Where the state of a saved checkpoint came from."""

    source: Literal["file", "stdin", "repeated", "patch", "edit", "empty"]
    checkpoint: str | None
    """The id of the checkpoint that it was repeated from, or that was patched."""


@dataclass(frozen=True)
class SavePlan(Report):
    """A checkpoint that is saved by hand."""

    session: str
    branch: str
    message: str
    tags: tuple[str, ...]
    step: int | None
    status: str
    metadata: Mapping[str, Any]
    key: str | None
    agent: str | None
    project: str | None
    state: StateSource


_Plan_co = TypeVar("_Plan_co", bound=Report, covariant=True)


@dataclass(frozen=True)
class ChangeReport(Report, Generic[_Plan_co]):
    """What a command changed, or would change."""

    store: str
    """The store's URL."""
    dry_run: bool
    """Whether nothing was written because of --dry-run."""
    changed: bool
    """Whether anything is, or would be, different afterwards."""
    plan: _Plan_co
    """The same in a dry run."""


@dataclass(frozen=True)
class CheckpointChange(ChangeReport[_Plan_co]):
    """What a command changed, with the checkpoint that was made or changed."""

    checkpoint: Checkpoint | None
    """None in a dry run."""


@dataclass(frozen=True)
class UndoReport(ChangeReport[UndoPlan]):
    """What an undo took back, or a redo did again."""

    head: Checkpoint | None
    """The head of the branch in use afterwards."""


@dataclass(frozen=True)
class SaveReport(Report):
    """A checkpoint that was saved by hand, or would be."""

    store: str | None
    """The store's URL; None in a dry run where there is no store yet."""
    dry_run: bool
    plan: SavePlan
    checkpoint: Checkpoint | None
    """None in a dry run."""
