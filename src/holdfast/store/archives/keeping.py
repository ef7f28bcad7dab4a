"""export_dir: a file beside each checkpoint that a Session writes, gone again with its checkpoint.

The checkpoint is saved before anything here happens, and stays saved whatever goes wrong here: trouble is a warning.
Files are made of what the store has, and found again by the digits in their names and the id inside: a folder may hold
files of several sessions and of other programs, and nothing but a file of a removed checkpoint is touched.

A process that is killed between a save and its file leaves a checkpoint without one. The first write of the next
Session brings it: what is newer than the newest file of the session, and no more, so that no history comes unasked.
"""

from __future__ import annotations

import json
import os
import warnings
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.errors import ErrorCode, HoldfastError, HoldfastWarning, InvalidInputError
from holdfast.objects.hashing import digest
from holdfast.storage.records import CheckpointRow, Query, SessionRow
from holdfast.store.archives.exporting import append, append_new, export_to_folder
from holdfast.store.archives.files import NAME, file_path, id_in, session_in
from holdfast.store.archives.lines import UNSEEN, JsonLines
from holdfast.store.archives.targets import IN_A_FOLDER
from holdfast.store.place import Place
from holdfast.store.progress import callers_level

if TYPE_CHECKING:
    from holdfast.store.metrics import Metrics

FORMATS: Final = (*IN_A_FOLDER, "jsonl")
DEFAULT: Final = "checkpoints"
"""The folder where none is named, in the one that the program runs in."""
_MOST_LEFT: Final = 100
"""Checkpoints without files that kills explain: each process leaves one. Of more, somebody wanted no files."""


class ExportFolder:
    """The files of one session, as one Session object keeps them."""

    def __init__(self, folder: str | Path | bool, kind: str) -> None:  # noqa: FBT001 - True is the usual folder
        if kind not in FORMATS:
            raise InvalidInputError(
                f"export_format cannot be {kind!r}",
                code=ErrorCode.BAD_ARGUMENT,
                hint=f"use one of: {', '.join(FORMATS)}",
            )
        given: object = folder
        if not isinstance(given, str | Path | bool) or not given or "\x00" in str(given):
            raise InvalidInputError(
                f"export_dir cannot be {folder!r:.60}",
                code=ErrorCode.BAD_ARGUMENT,
                hint='pass a folder, or True for "checkpoints"; leave it out for no files',
            )
        self.folder = Path(DEFAULT if folder is True else str(folder))
        self.kind = kind
        self._place: Place | None = None
        self._process = 0
        self._is_behind = False
        self._left: Sequence[CheckpointRow] = ()
        self._seen_to = UNSEEN

    def join(self, place: Place, row: CheckpointRow, metrics: Metrics, *, has_retention: bool) -> None:
        """Be told of what is removed from now on, before anything is; see what came before this row without a file."""
        self._place = place
        # Who is told of removals is forgotten in a forked child.
        is_new = self._process != os.getpid()
        if is_new:
            self._process = os.getpid()
            self._is_behind = True
            _observe(metrics, self)
        if self._is_behind:
            # Before anything goes: a file of what is gone says that there were files.
            self._look_behind(place, row, has_retention=has_retention)
        if is_new and has_retention:
            # A process that was killed may have left files of what it removed.
            self.removed(place.claim.session, ())

    def catch_up(self, place: Place) -> None:
        """Before the first file of a process: write those that a killed one did not come to."""
        left, self._left = self._left, ()
        for each in left:
            # One that somebody else is just writing the file of gets the same file from both.
            self.after_operation(place, each, is_new=False)

    def after_save(self, place: Place, row: CheckpointRow, owner: SessionRow, *, is_new: bool = True) -> None:
        """Write the file of a checkpoint that was saved just now; one that is not new may have its file already."""
        try:
            if self.kind != "jsonl":
                export_to_folder(place, (row,), owner, self.folder, self.kind)
            elif is_new:
                # Not in what was seen before it was saved. Since then somebody else may have caught up with it.
                path = self._lines(place.claim.session)
                self._seen_to = append_new(place, row, owner, path, self._seen_to)
            else:
                append(place, (row,), owner, self._lines(place.claim.session))
            if not _is_there(place, row):
                # Somebody removed it before its file was there to be removed.
                self._remove(place, (row.id.hex(),))
        except (HoldfastError, OSError) as trouble:
            self._warn("no file was written for a checkpoint that is saved", trouble)

    def after_operation(self, place: Place, row: CheckpointRow, *, is_new: bool = True) -> None:
        """The same for one that was written otherwise (a merge, a restore, a fork), or whose save ended in an error.

        Nothing comes of it where it is not in the store. As it is there is how it is written: an operation may have
        given the session an owner.
        """
        try:
            with place.backend.reader() as reader:
                found, owner = reader.checkpoint(row.id), reader.session(row.session)
        except HoldfastError as trouble:
            self._warn("no file was written for a checkpoint that is saved", trouble)
            return
        if found is not None and owner is not None and not found.hidden:
            self.after_save(place, found, owner, is_new=is_new)

    def removed(self, session: str, ids: Sequence[str]) -> None:
        """Remove the files of checkpoints that are gone; without ids, of all that are not there any more."""
        if self._place is None or session != self._place.claim.session:
            return
        try:
            self._remove(self._place, ids)
        except (HoldfastError, OSError) as trouble:
            self._warn("files of removed checkpoints stay", trouble)

    def _look_behind(self, place: Place, row: CheckpointRow, *, has_retention: bool) -> None:
        try:
            self._left = self._missing(place, row, has_retention=has_retention)
            self._is_behind = False
        except (HoldfastError, OSError):
            # The file of this row meets the same trouble, and says so. The next write looks again.
            return

    def _missing(self, place: Place, row: CheckpointRow, *, has_retention: bool) -> Sequence[CheckpointRow]:
        """What is older than this row and newer than the newest that has its file, oldest first."""
        session, lines = place.claim.session, set[str]()
        if self.kind == "jsonl":
            file = JsonLines(self._lines(session))
            lines = file.ids()
            # Where somebody else has caught up with this row already, it has to be found again.
            self._seen_to = UNSEEN if row.id.hex() in lines else file.seen_to
        rows: Sequence[CheckpointRow] = ()
        # Nearly always the one before it has its file.
        for limit in (1, _MOST_LEFT + 1):
            with place.backend.reader() as reader:
                rows = reader.checkpoints(Query(session=session, before_seq=row.seq, limit=limit))
            for at, each in enumerate(rows):
                if each.id.hex() in lines or self._has_file(each):
                    return rows[:at][::-1]
        # The newest that has one may be what was just removed to make room.
        is_all = 0 < len(rows) <= _MOST_LEFT
        return rows[::-1] if is_all and has_retention and (lines or self._has_any(session)) else ()

    def _has_file(self, row: CheckpointRow) -> bool:
        return self.kind != "jsonl" and id_in(file_path(self.folder, row, self.kind)) == row.id.hex()

    def _has_any(self, session: str) -> bool:
        return any(session_in(path) == _named(session) for path, _ in self._listed())

    def _lines(self, session: str) -> Path:
        # Not by its id, which may be any text, but by what is always a good name.
        return self.folder / f"{DEFAULT}-{digest(session.encode()).hex()[:8]}.jsonl"

    def _remove(self, place: Place, ids: Sequence[str]) -> None:
        session = place.claim.session
        if self.kind == "jsonl":
            file = JsonLines(self._lines(session))
            # What is in the file comes first: what is saved in between is in the store, but not in this list.
            file.cut(ids or file.ids() - _there(place))
            return
        for path in self._files_of(ids) if ids else self._files_left(session, place):
            path.unlink(missing_ok=True)

    def _files_of(self, ids: Sequence[str]) -> Iterator[Path]:
        """The files of checkpoints; the folder is listed once, and only files are opened that may be one of them."""
        wanted: dict[str, list[str]] = {}
        for each in ids:
            wanted.setdefault(each[:4], []).append(each)
        for path, digits in self._listed():
            if any(each.startswith(digits) and id_in(path) == each for each in wanted.get(digits[:4], ())):
                yield path

    def _files_left(self, session: str, place: Place) -> Iterator[Path]:
        """The files of checkpoints that are not there any more."""
        named = _named(session)
        found = {path: id_in(path) for path, _ in self._listed() if session_in(path) == named}
        # After the list, as above.
        kept = _there(place)
        return (path for path, id in found.items() if id not in kept)  # noqa: A001 - what it is

    def _listed(self) -> list[tuple[Path, str]]:
        """The files of the folder that may be ours, with the digits in their names."""
        try:
            found = sorted(self.folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [(path, match[1]) for path in found if (match := NAME.fullmatch(path.name))]

    def _warn(self, what: str, trouble: Exception) -> None:
        warnings.warn(f"{what}: {trouble}", HoldfastWarning, stacklevel=callers_level())


def _named(session: str) -> bytes:
    """As its files name it."""
    return json.dumps(session, ensure_ascii=False).encode()


def _there(place: Place) -> set[str]:
    with place.backend.reader() as reader:
        return {row.id.hex() for row in reader.checkpoints(Query(session=place.claim.session))}


def _is_there(place: Place, row: CheckpointRow) -> bool:
    with place.backend.reader() as reader:
        found = reader.checkpoint(row.id)
    return found is not None and not found.hidden


def _observe(metrics: Metrics, folder: ExportFolder) -> None:
    """Have a folder told of removals for as long as its Session is there."""
    weak = weakref.ref(folder)

    def told(session: str, _reason: str, _count: int, ids: Sequence[str]) -> None:
        alive = weak()
        if alive is not None:
            alive.removed(session, ids)

    stop = metrics.observe_removals(told)
    weakref.finalize(folder, stop)
