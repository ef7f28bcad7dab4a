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
            "sessions": [each._asdict() | {"branches": list(each.branches)} for each in self.sessions],
            "checkpoints": self.checkpoints,
            "unchanged": self.unchanged,
        }
