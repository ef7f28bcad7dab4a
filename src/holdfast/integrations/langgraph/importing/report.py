"""What came of an import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from holdfast.record import Record


class ThreadImport(Record):
    """What an import did with one thread, or would do."""

    id: str
    status: Literal["new", "updated", "unchanged", "ahead", "failed"]
    """`ahead`: the store has all of it and has gone on since; it was left alone. `failed`: it could not be imported."""
    checkpoints: int
    """Checkpoints that the store did not have."""
    writes: int
    """Pending writes that it did not have."""
    session: str = ""
    """What it is called in the store; its id unless it was given another."""
    problem: Mapping[str, Any] | None = None
    """Why it failed: code, message, hint and details of the error."""


class ImportReport(Record):
    """What was imported, or would be."""

    source: str
    """Where from, without any secret."""
    target: str
    threads: tuple[ThreadImport, ...]
    opaque: Mapping[str, int]
    """Classes that the store does not know, and how many objects of each are kept as `holdfast.Opaque`."""
    bare: Mapping[str, int]
    """Classes whose constructor refused what was stored, and how many objects of each are kept as bare data."""
    dry_run: bool

    @property
    def failed(self) -> tuple[ThreadImport, ...]:
        """Threads that could not be imported; of an import that was told to keep going."""
        return tuple(each for each in self.threads if each.status == "failed")

    @property
    def checkpoints(self) -> int:
        """Checkpoints that the store did not have."""
        return sum(each.checkpoints for each in self.threads)

    @property
    def writes(self) -> int:
        """Pending writes that it did not have."""
        return sum(each.writes for each in self.threads)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON data."""
        return {
            **self._asdict(),
            "threads": [each._asdict() for each in self.threads],
            "opaque": _counted(self.opaque),
            "bare": _counted(self.bare),
            "checkpoints": self.checkpoints,
            "writes": self.writes,
        }


def _counted(classes: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"class": name, "objects": count} for name, count in sorted(classes.items())]
