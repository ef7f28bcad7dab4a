"""Reports of keeping a store in order: retention, collection, checks, repair."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from holdfast.history.checkpoint import Checkpoint
from holdfast.history.keep import Keep
from holdfast.reports.report import Report


@dataclass(frozen=True)
class DamagedCheckpoint(Report):
    """A checkpoint that cannot be loaded, with what is known of it."""

    id: str | None
    session: str | None
    seq: int | None
    why: str
    lost: bool
    """False where it is whole, and cannot be read because of what is around it: a repair brings it back."""


@dataclass(frozen=True)
class Problem(Report):
    """Something that is not as it was written."""

    kind: str
    """page, header, counter, session, branch, checkpoint, operation, log, chunk or tag."""
    what: str
    why: str
    session: str | None = None
    checkpoints: tuple[str, ...] = ()
    """The ids of the checkpoints that it affects, where that can be said."""


@dataclass(frozen=True)
class VerifyReport(Report):
    """What `verify` looked at, and what it found."""

    computed: ClassVar[tuple[str, ...]] = ("ok",)

    quick: bool
    sessions: int
    branches: int
    checkpoints: int
    operations: int
    chunks: int
    """Chunks that were read and hashed again: none if it was quick."""
    problems: tuple[Problem, ...]
    damaged: tuple[DamagedCheckpoint, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems and not self.damaged


@dataclass(frozen=True)
class MovedHead(Report):
    """A branch whose head is another one after the repair."""

    session: str
    branch: str
    before: str | None
    """The id of the lost head; None where the branch itself was not readable."""
    after: str | None
    """None where nothing of the branch is left: it is gone."""


@dataclass(frozen=True)
class RepairReport(Report):
    """What a repair did, or would do."""

    computed: ClassVar[tuple[str, ...]] = ("needed",)

    dry_run: bool
    problems: tuple[Problem, ...]
    """What was wrong; empty where nothing was, and nothing was done."""
    kept: int
    """Checkpoints that are whole."""
    lost: tuple[DamagedCheckpoint, ...]
    """Checkpoints that are not in the store any more; what is left of them is in the file that was kept."""
    relinked: int
    """Checkpoints whose way back in history now leads past a lost one."""
    moved: tuple[MovedHead, ...]
    logs_cut: tuple[str, ...]
    """Sessions whose operation log was damaged and begins anew: what was done before cannot be undone."""
    kept_aside: str | None
    """The file that has everything as it was; None where nothing was changed."""

    @property
    def needed(self) -> bool:
        """Whether anything was wrong."""
        return bool(self.problems)


@dataclass(frozen=True)
class Recovered(Report):
    """A state that is whole, and what had to be passed over to find it."""

    states: ClassVar[tuple[str, ...]] = ("state",)

    state: Any
    checkpoint: Checkpoint
    damaged: tuple[DamagedCheckpoint, ...]
    """What was asked for and could not be read, newest first; empty where nothing was wrong."""


@dataclass(frozen=True)
class PruneDecision(Report):
    """What becomes of one checkpoint, and why."""

    checkpoint: Checkpoint
    kept: bool
    reasons: tuple[str, ...]
    """Every rule that keeps it, or what removes it."""


@dataclass(frozen=True)
class PruneReport(Report):
    """What a prune did, or would do."""

    computed: ClassVar[tuple[str, ...]] = ("changed",)

    total: int
    """How many checkpoints were looked at."""
    kept: int
    """How many of them stay."""
    deleted: int
    """How many of them were removed, or would be."""
    decisions: tuple[PruneDecision, ...]
    """Newest first."""
    dry_run: bool
    session: str
    """The session; with `per="agent"` the one whose agent it is."""
    policy: Keep
    """What was carried out."""

    @property
    def changed(self) -> bool:
        """Whether anything is different afterwards."""
        return bool(self.deleted) and not self.dry_run


@dataclass(frozen=True)
class GcReport(Report):
    """What gc removed for good, or would remove."""

    checkpoints: int
    """Removed checkpoints whose time of grace is over: undo cannot bring them back any more."""
    sessions: tuple[str, ...]
    """The sessions they belong to."""
    waiting: int
    """Removed checkpoints that are kept for now, because they can still be brought back."""
    chunks: int
    freed_bytes: int
    """What the chunks took. The file keeps the room for new ones."""
    dry_run: bool
    waiting_until: datetime | None = None
    """From when on gc removes the first of those that wait."""
    overtaken: bool = False
    """Whether another collection began meanwhile: what is left is for that one to remove, or for the next gc."""


@dataclass(frozen=True)
class ForgetReport(Report):
    """What was forgotten."""

    checkpoints: int
    chunks: int
    """Chunks that nothing else needed, of these checkpoints or of others that were removed before. Without `clean` none
    go: they wait for gc."""
