"""Reports of moving checkpoints between stores and files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from holdfast.reports.report import Report


@dataclass(frozen=True)
class SessionCopy(Report):
    """What a copy did with one session, or would do."""

    id: str
    status: Literal["new", "updated", "unchanged", "ahead"]
    """`ahead`: the target has all of it and more, and was left alone."""
    checkpoints: int
    """Checkpoints that the target did not have."""
    changed: int
    """Checkpoints that it had otherwise: with other tags, removed meanwhile, or brought back."""
    removed: int
    """Checkpoints that it had, and that are gone for good at the source."""


@dataclass(frozen=True)
class CopyReport(Report):
    """What was copied, or would be."""

    computed: ClassVar[tuple[str, ...]] = ("checkpoints", "changed", "removed")

    source: str
    target: str
    sessions: tuple[SessionCopy, ...]
    chunks: int
    """Chunks that were sent: none in a dry run."""
    bytes: int
    """Their plain bytes; in a dry run what the new checkpoints take at the source."""
    dry_run: bool

    @property
    def checkpoints(self) -> int:
        """Checkpoints that the target did not have."""
        return sum(each.checkpoints for each in self.sessions)

    @property
    def changed(self) -> int:
        """Checkpoints that it had otherwise."""
        return sum(each.changed for each in self.sessions)

    @property
    def removed(self) -> int:
        """Checkpoints that were taken out of the target."""
        return sum(each.removed for each in self.sessions)


@dataclass(frozen=True)
class ExportReport(Report):
    """What was written."""

    checkpoints: int
    """Checkpoints that the files have now because of this call; what was there already does not count."""
    files: tuple[str, ...]
    """The files, in the order of their checkpoints; none for an open stream."""
    bytes: int
    """Written, compressed where the file is; in a dry run about so many."""
    dry_run: bool = False


@dataclass(frozen=True)
class BranchAdvance(Report):
    """A branch that an import moved forward, or would move."""

    branch: str
    before: str
    """The id of its head until then."""
    after: str
    """The id of its head since."""


@dataclass(frozen=True)
class SessionImport(Report):
    """What an import did with one session, or would do."""

    id: str
    status: Literal["new", "updated", "unchanged"]
    checkpoints: int
    """Checkpoints that the store did not have."""
    unchanged: int
    """Checkpoints that it had."""
    removed: int
    """Of those, how many were removed from history here, and stay so until undo brings them back."""
    branches: tuple[str, ...]
    """The branches that were made for what is new."""
    cut_off: int = 0
    """Checkpoints that came now, and whose line begins at them here: what they followed is not here."""
    advanced: tuple[BranchAdvance, ...] = ()
    """With `advance`: the branches that moved forward to what came in."""
    could_advance: tuple[str, ...] = ()
    """Without it: the branches that would have."""


@dataclass(frozen=True)
class ImportReport(Report):
    """What was imported, or would be."""

    computed: ClassVar[tuple[str, ...]] = ("checkpoints", "unchanged")

    source: str
    target: str
    sessions: tuple[SessionImport, ...]
    dry_run: bool

    @property
    def checkpoints(self) -> int:
        """Checkpoints that the store did not have."""
        return sum(each.checkpoints for each in self.sessions)

    @property
    def unchanged(self) -> int:
        """Checkpoints that it had."""
        return sum(each.unchanged for each in self.sessions)
