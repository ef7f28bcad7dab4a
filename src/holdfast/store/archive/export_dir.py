"""export_dir: a file beside each checkpoint that a Session writes, gone again with its checkpoint.

The checkpoint is saved before anything here happens, and stays saved whatever goes wrong here: trouble is a warning.
Files are made of what the store has, and found again by the digits in their names and the id inside: a folder may hold
files of several sessions and of other programs, and nothing but a file of a removed checkpoint is touched. A file of
JSON Lines is only appended to: lines of removed checkpoints stay.

A process that is killed between a save and its file leaves a checkpoint without one. The first write of the next
Session brings it: what is newer than the newest file of the session, and no more, so that no history comes unasked.
"""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final

from holdfast.errors import HoldfastError, HoldfastWarning
from holdfast.objects.hashing import digest
from holdfast.storage.records import CheckpointRow, Query, SessionRow
from holdfast.store.archive.export import (
    IN_A_FOLDER,
    NAME,
    append_lines,
    bad,
    export_to_folder,
    field_in,
    file_path,
    line_ids,
)
from holdfast.store.place import Place, callers_level

if TYPE_CHECKING:
    from holdfast.store.metrics import Metrics

_DEFAULT: Final = "checkpoints"
_MOST_LEFT: Final = 100
"""Checkpoints without files that kills explain: each process leaves one. Of more, somebody wanted no files."""
_NOT_WRITTEN: Final = "no file was written for a checkpoint that is saved"


class ExportFolder:
    """The files of one session, as one Session object keeps them."""

    def __init__(self, folder: str | Path | bool, kind: str) -> None:  # noqa: FBT001 - True is the usual folder
        formats = (*IN_A_FOLDER, "jsonl")
        if kind not in formats:
            raise bad(f"export_format cannot be {kind!r}", f"use one of: {', '.join(formats)}")
        given: object = folder
        if not isinstance(given, str | Path | bool) or not given or "\x00" in str(given):
            raise bad(
                f"export_dir cannot be {folder!r:.60}",
                'pass a folder, or True for "checkpoints"; leave it out for no files',
            )
        self.folder = Path(_DEFAULT if folder is True else str(folder))
        self.kind = kind
        self._place: Place | None = None
        self._process = 0
        self._left: Sequence[CheckpointRow] = ()

    def join(self, place: Place, row: CheckpointRow, metrics: Metrics, *, has_retention: bool) -> None:
        """Be told of what is removed from now on, and see which checkpoints before this one have no file."""
        self._place = place
        # Who is told of removals is forgotten in a forked child.
        if self._process == os.getpid():
            return
        self._process = os.getpid()
        _observe(metrics, self)
        with _Warned(_NOT_WRITTEN):
            # Before anything goes: a file of what is gone says that there were files.
            self._left = self._missing(place, row, has_retention=has_retention)
        if has_retention:
            # A process that was killed may have left files of what it removed.
            self.removed(place.claim.session, ())

    def catch_up(self, place: Place) -> None:
        """Write the files that a killed process did not come to, before the first one of this process."""
        left, self._left = self._left, ()
        for each in left:
            self.after_operation(place, each, is_new=False)

    def after_save(self, place: Place, row: CheckpointRow, owner: SessionRow, *, is_new: bool = True) -> None:
        """Write the file of a checkpoint that was saved just now; one that is not new may have its file already."""
        with _Warned(_NOT_WRITTEN):
            if self.kind == "jsonl":
                append_lines(place, (row,), owner, self._lines(place.claim.session), is_new=is_new)
                return
            export_to_folder(place, (row,), owner, self.folder, self.kind)
            with place.backend.reader() as reader:
                found = reader.checkpoint(row.id)
            if found is None or found.hidden:
                # Somebody removed it before its file was there to be removed.
                self.removed(row.session, (row.id.hex(),))

    def after_operation(self, place: Place, row: CheckpointRow, *, is_new: bool = True) -> None:
        """Write the file of a checkpoint that a merge, a restore or a fork made, or whose save ended in an error.

        Nothing comes of it where it is not in the store. As it is there is how it is written: an operation may have
        given the session an owner.
        """
        with _Warned(_NOT_WRITTEN):
            with place.backend.reader() as reader:
                found, owner = reader.checkpoint(row.id), reader.session(row.session)
            if found is not None and owner is not None and not found.hidden:
                self.after_save(place, found, owner, is_new=is_new)

    def removed(self, session: str, ids: Sequence[str]) -> None:
        """Remove the files of checkpoints that are gone; without ids, of all that are not there any more."""
        place = self._place
        if place is None or session != place.claim.session or self.kind == "jsonl":
            return
        with _Warned("files of removed checkpoints stay"):
            wanted = {each[:4] for each in ids}
            files = [(path, digits) for path, digits in self._listed() if not ids or digits[:4] in wanted]
            ours = {path: field_in(path, "id") for path, _ in files if field_in(path, "session") == session}
            # After the list: what is saved in between is in the store.
            gone = set(ids) or set(ours.values()) - _there(place)
            for path, checkpoint in ours.items():
                if checkpoint in gone:
                    path.unlink(missing_ok=True)

    def _missing(self, place: Place, row: CheckpointRow, *, has_retention: bool) -> Sequence[CheckpointRow]:
        """Return what is older than this row and newer than the newest that has its file, oldest first."""
        session = place.claim.session
        lines = line_ids(self._lines(session)) if self.kind == "jsonl" else set()
        rows: Sequence[CheckpointRow] = ()
        # Nearly always the one before it has its file.
        for limit in (1, _MOST_LEFT + 1):
            with place.backend.reader() as reader:
                rows = reader.checkpoints(Query(session=session, before_seq=row.seq, limit=limit))
            for at, each in enumerate(rows):
                if each.id.hex() in lines or self._has_file(each):
                    return rows[:at][::-1]
        # The newest that has one may be what was just removed to make room.
        if not has_retention or len(rows) > _MOST_LEFT:
            return ()
        has_any = lines or any(field_in(path, "session") == session for path, _ in self._listed())
        return rows[::-1] if has_any else ()

    def _has_file(self, row: CheckpointRow) -> bool:
        return self.kind != "jsonl" and field_in(file_path(self.folder, row, self.kind), "id") == row.id.hex()

    def _lines(self, session: str) -> Path:
        # Not by its id, which may be any text, but by what is always a good name.
        return self.folder / f"{_DEFAULT}-{digest(session.encode()).hex()[:8]}.jsonl"

    def _listed(self) -> list[tuple[Path, str]]:
        """Return the files of the folder that may be ours, with the digits in their names."""
        try:
            found = sorted(self.folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [(path, match[1]) for path in found if (match := NAME.fullmatch(path.name))]


class _Warned:
    """Warns of trouble with a file: it is no reason for a save to fail."""

    # Not by contextlib, whose frame would end the search for the caller.
    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, trouble: BaseException | None, trace: TracebackType | None) -> bool:
        if not isinstance(trouble, HoldfastError | OSError):
            return False
        warnings.warn(f"{self._what}: {trouble}", HoldfastWarning, stacklevel=callers_level())
        return True


def _there(place: Place) -> set[str]:
    with place.backend.reader() as reader:
        return {row.id.hex() for row in reader.checkpoints(Query(session=place.claim.session))}


def _observe(metrics: Metrics, folder: ExportFolder) -> None:
    """Have a folder told of removals for as long as its Session is there."""
    weak = weakref.ref(folder)

    def told(session: str, _reason: str, _count: int, ids: Sequence[str]) -> None:
        alive = weak()
        if alive is not None:
            alive.removed(session, ids)

    weakref.finalize(folder, metrics.observe_removals(told))
