"""What exports and imports say about themselves."""

from __future__ import annotations

from typing import Any, Literal

from holdfast.record import Record


class ExportReport(Record):
    """What was written."""

    checkpoints: int
    """Checkpoints that the files have now because of this call; what was there already does not count."""
    files: tuple[str, ...]
    """The files, in the order of their checkpoints; none for an open stream."""
    bytes: int
    """Written, compressed where the file is."""

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON data."""
        return self._asdict() | {"files": list(self.files)}


class BranchAdvance(Record):
    """A branch that an import moved forward, or would move."""

    branch: str
    before: str
    """The id of its head until then."""
    after: str
    """The id of its head since."""


class SessionImport(Record):
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
    """Checkpoints whose line begins at them here though they were made from another: that one came only now, after
    them, or it has not come at all."""
    advanced: tuple[BranchAdvance, ...] = ()
    """With `advance`: the branches that moved forward to what came in, those that an earlier import made included."""
    could_advance: tuple[str, ...] = ()
    """Without it: the branches that would have."""
    parted: tuple[str, ...] = ()
    """Branches that stayed, because what came in for them does not go on from their heads: somebody saved here, or what
    lies between is not here. It is on a branch beside, a new one or one that an earlier import made."""
    parents_missing: int = 0
    """Of those that are cut off, how many came now and follow a checkpoint that is not here."""

    def to_dict(self) -> dict[str, Any]:
        """The same as plain JSON data."""
        return self._asdict() | {
            "branches": list(self.branches),
            "advanced": [each._asdict() for each in self.advanced],
            "could_advance": list(self.could_advance),
            "parted": list(self.parted),
        }


class ImportReport(Record):
    """What was imported, or would be."""

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

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON data."""
        return {
            **self._asdict(),
            "sessions": [each.to_dict() for each in self.sessions],
            "checkpoints": self.checkpoints,
            "unchanged": self.unchanged,
        }
