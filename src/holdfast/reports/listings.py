"""Reports of what is there: sessions, branches, operations."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from holdfast.history.checkpoint import Checkpoint
from holdfast.reports.report import Report


@dataclass(frozen=True)
class SessionInfo(Report):
    """A session as it is listed."""

    id: str
    agent: str | None
    project: str | None
    created_at: datetime
    saves: int
    """How many checkpoints were ever saved in it."""
    branch: str
    """The branch that people are on: the one that commands use where none is named."""


@dataclass(frozen=True)
class BranchInfo(Report):
    """A branch as it is listed."""

    name: str
    head: Checkpoint
    moved_at: datetime
    current: bool
    """Whether it is the branch in use."""


@dataclass(frozen=True)
class OperationInfo(Report):
    """An entry of the operation log, for people."""

    number: int
    """1, 2, 3 ... in the session."""
    kind: str
    at: datetime
    summary: str
    """What it did, in a few words."""
    undoable: bool
    """Whether undo gets to it, one step at a time."""


@dataclass(frozen=True)
class CheckpointList(Report):
    """Checkpoints, newest first."""

    store: str
    """The store's URL."""
    session: str | None
    """The session they are of; None where they are of every session."""
    checkpoints: tuple[Checkpoint, ...]
    more: bool = False
    """Whether a limit left some out."""


@dataclass(frozen=True)
class SessionList(Report):
    """The sessions of a store, oldest first."""

    store: str
    """The store's URL."""
    sessions: tuple[SessionInfo, ...]


@dataclass(frozen=True)
class SessionStats(Report):
    """How much is in one session, and how it stands."""

    id: str
    agent: str | None
    project: str | None
    created_at: datetime
    saves: int
    """How many checkpoints were ever saved in it."""
    checkpoints: int
    """The ones that have not been removed."""
    newest_at: datetime | None
    """When the newest of them was saved."""
    state_bytes: int
    """Plain bytes of all states together."""
    stored_bytes: int
    """What they added to the store."""
    ratio: float | None
    """Plain bytes by stored bytes."""
    status: str | None
    """The status of the newest checkpoint."""
    step: int | None
    """Its step."""
    tokens: int | None
    """Tokens used so far, as it says."""
    cost_usd: float | None
    """What the work cost so far, as it says."""


@dataclass(frozen=True)
class StoreTotals(Report):
    """How much is in a store."""

    sessions: int
    branches: int
    checkpoints: int
    """The ones that have not been removed."""
    hidden: int
    """Removed ones whose rows are still there."""
    chunks: int
    chunk_bytes: int
    """Plain bytes of all chunks."""
    stored_bytes: int
    """What those chunks take after compression."""
    file_bytes: int | None
    """What the store takes on disk, indexes included, where that can be said."""
    ratio: float | None
    """Plain bytes by stored bytes."""


@dataclass(frozen=True)
class StatsReport(Report):
    """What is in a store, or in one session of it."""

    store: str
    """The store's URL."""
    totals: StoreTotals | None
    """Of the whole store; None where one session was asked for."""
    session: SessionStats | None
    """Of that session."""


@dataclass(frozen=True)
class BranchPlan(Report):
    """A branch that is renamed or deleted."""

    action: Literal["rename", "delete"]
    branch: str
    to: str | None
    """Its new name."""
    head: str
    """The id of the checkpoint where it is, or was."""


@dataclass(frozen=True)
class BranchList(Report):
    """The branches of a session, by name; after a rename or a delete as they are then."""

    store: str
    """The store's URL."""
    session: str
    dry_run: bool
    """Whether nothing was written."""
    changed: bool
    """Whether anything is, or would be, different afterwards."""
    plan: BranchPlan | None
    branches: tuple[BranchInfo, ...]


@dataclass(frozen=True)
class TagInfo(Report):
    """A tag of a session."""

    name: str
    count: int
    """How many checkpoints have it."""
    newest: Checkpoint
    """The one that `tag:NAME` means."""


@dataclass(frozen=True)
class TagList(Report):
    """The tags of a session, by name."""

    store: str
    """The store's URL."""
    session: str
    tags: tuple[TagInfo, ...]


@dataclass(frozen=True)
class PinList(Report):
    """The pinned checkpoints of a session, newest first."""

    store: str
    """The store's URL."""
    session: str
    checkpoints: tuple[Checkpoint, ...]


@dataclass(frozen=True)
class OperationList(Report):
    """The operations of a session, newest first."""

    store: str
    """The store's URL."""
    session: str
    operations: tuple[OperationInfo, ...]
    more: bool
    """Whether a limit left some out."""


@dataclass(frozen=True)
class Moment(Report):
    """A checkpoint in a timeline."""

    checkpoint: Checkpoint
    gap_seconds: float | None
    """The time since the one before it; None for the first of all, or where a filter hides what came before."""
    lane: int
    label: str | None = None
    """With --labels: its message, or what it changed."""
    label_from: Literal["message", "changes"] | None = None
    """Where the label is from."""

    def to_dict(self) -> dict[str, Any]:
        """The moment as plain JSON data; a label only where one was asked for."""
        plain = super().to_dict()
        return (
            plain if self.label is not None else {k: v for k, v in plain.items() if not k.startswith("label")}
        )


@dataclass(frozen=True)
class Timeline(Report):
    """What was saved when, newest first."""

    store: str
    """The store's URL."""
    session: str | None
    """None with --all-sessions."""
    moments: tuple[Moment, ...]
    more: bool
    """Whether a limit left some out."""


@dataclass(frozen=True)
class AtReport(Report):
    """The newest checkpoint at a moment."""

    store: str
    """The store's URL."""
    session: str
    asked: datetime
    """The moment that was understood."""
    missed_seconds: float
    """How long before it the checkpoint was saved; below zero where it came after."""
    checkpoint: Checkpoint
    next: Checkpoint | None
    """The first one after the moment."""


@dataclass(frozen=True)
class ConfigStore(Report):
    """The store that commands use from here."""

    target: str
    origin: str
    """Why this one."""
    exists: bool


@dataclass(frozen=True)
class InitReport(Report):
    """A store that was made, or was there."""

    store: str
    """Its URL."""
    created: bool


@dataclass(frozen=True)
class BackupReport(Report):
    """A copy of a store in a new file."""

    store: str
    """The URL of the store that was copied."""
    dry_run: bool
    path: str
    """The new file."""
    bytes: int
    """Its size; in a dry run about."""
    checkpoints: int
