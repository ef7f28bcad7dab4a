"""export_dir: a file beside each save of a session, gone again with its checkpoint.

The checkpoint is saved before anything here happens, and stays saved whatever goes wrong here: trouble is a warning.
Files are made of what the store has, and found again by the digits in their names and the id inside: a folder may hold
files of several sessions and of other programs, and nothing but a file of a removed checkpoint is touched.
"""

from __future__ import annotations

import json
import os
import warnings
import weakref
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.errors import ErrorCode, HoldfastError, HoldfastWarning, InvalidInputError
from holdfast.objects.hashing import digest
from holdfast.storage.records import CheckpointRow, Query, SessionRow
from holdfast.store.archives.exporting import IN_A_FOLDER, append, export_to_folder
from holdfast.store.archives.files import NAME, Replaced, id_in, lines_in, session_in
from holdfast.store.place import Place
from holdfast.store.upkeep import callers_level

if TYPE_CHECKING:
    from holdfast.store.metrics import Metrics

FORMATS: Final = (*IN_A_FOLDER, "jsonl")
DEFAULT: Final = "checkpoints"
"""The folder where none is named, in the one that the program runs in."""


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

    def after_save(self, place: Place, metrics: Metrics, row: CheckpointRow, owner: SessionRow) -> None:
        """Write the file of a checkpoint that was saved just now."""
        self._place = place
        # Who is told of removals is forgotten in a forked child.
        if self._process != os.getpid():
            self._process = os.getpid()
            _observe(metrics, self)
        try:
            if self.kind == "jsonl":
                append(place, (row,), owner, self._lines(place.claim.session), known=True)
            else:
                export_to_folder(place, (row,), owner, self.folder, self.kind)
        except (HoldfastError, OSError) as trouble:
            self._warn("no file was written for a checkpoint that is saved", trouble)

    def removed(self, session: str, ids: Sequence[str]) -> None:
        """Remove the files of checkpoints that are gone; without ids, of all that are not there any more."""
        if self._place is None or session != self._place.claim.session:
            return
        try:
            if self.kind == "jsonl":
                self._cut_lines(self._lines(session), ids, self._place)
                return
            for path in list(self._files(session, ids, self._place)):
                path.unlink(missing_ok=True)
        except (HoldfastError, OSError) as trouble:
            self._warn("files of removed checkpoints stay", trouble)

    def _lines(self, session: str) -> Path:
        # Not by its id, which may be any text, but by what is always a good name.
        return self.folder / f"{DEFAULT}-{digest(session.encode()).hex()[:8]}.jsonl"

    def _files(self, session: str, ids: Sequence[str], place: Place) -> Iterator[Path]:
        if not self.folder.is_dir():
            return
        for each in ids:
            for path in self.folder.glob(f"*-{each[:4]}*.json*"):
                if NAME.fullmatch(path.name) and id_in(path) == each:
                    yield path
        if ids:
            return
        kept = _there(place)
        named = json.dumps(session, ensure_ascii=False).encode()
        for path in self.folder.iterdir():
            if NAME.fullmatch(path.name) and session_in(path) == named and id_in(path) not in kept:
                yield path

    def _cut_lines(self, path: Path, ids: Sequence[str], place: Place) -> None:
        lines = list(lines_in(path))
        kept = None if ids else _there(place)
        gone = [each for each in lines if (each.id in ids if kept is None else each.id not in kept)]
        if not gone:
            return
        if len(gone) == len(lines):
            path.unlink(missing_ok=True)
            return
        left = set(gone)
        with path.open("rb") as stream:
            Replaced(path, zipped=False).write(
                stream.read(each.end - each.start).decode()
                for each in lines
                if stream.seek(each.start) >= 0 and each not in left
            )

    def _warn(self, what: str, trouble: Exception) -> None:
        warnings.warn(f"{what}: {trouble}", HoldfastWarning, stacklevel=callers_level())


def _there(place: Place) -> Collection[str]:
    with place.backend.reader() as reader:
        return {row.id.hex() for row in reader.checkpoints(Query(session=place.claim.session))}


def _observe(metrics: Metrics, folder: ExportFolder) -> None:
    """Have a folder told of removals for as long as its Session is there."""
    weak = weakref.ref(folder)

    def told(session: str, _reason: str, _count: int, ids: Sequence[str]) -> None:
        alive = weak()
        if alive is not None:
            alive.removed(session, ids)

    stop = metrics.observe_removals(told)
    weakref.finalize(folder, stop)
