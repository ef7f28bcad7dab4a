"""export: checkpoints of a session as files.

What is to be written is chosen in one view of the store; states are read in pages, each written and let go before the
next, so that memory holds the largest of them and no more. A file appears whole or not at all: it is written beside its
place and renamed. Only JSON Lines grow in place, a line at a time and under a lock.
"""

from __future__ import annotations

import errno
import filecmp
import gzip
import json
import os
import re
import secrets
import stat
import sys
import time
import warnings
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO, Final

from holdfast.errors import BackendError, ErrorCode, HoldfastWarning, InvalidInputError, UnsupportedError
from holdfast.history.checkpoint import Checkpoint, moment
from holdfast.history.refs import is_range, missing_head, nothing_in, resolve_range
from holdfast.objects.codec.errors import MalformedError
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.codec.tagged_json import tagged_json
from holdfast.objects.tree.chunk_cache import ChunksAtHand
from holdfast.record import Record
from holdfast.reports.transfer import ExportReport
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointRow, Query, SessionRow
from holdfast.store.archive.envelope import SESSION, SessionHeader, envelope_of, header_of
from holdfast.store.load_many import EachState
from holdfast.store.place import Place, callers_level, read_again, session_of

FORMATS: Final = ("json", "json.gz", "jsonl", "jsonl.gz", "html")
IN_A_FOLDER: Final = ("json", "json.gz")
NAME: Final = re.compile(r"[0-9]{8}-[0-9]{6}-([0-9a-f]{4,64})\.json(\.gz)?")
"""Of a file that holds one checkpoint: when it was made, in UTC, and the first digits of its id."""

_ENVELOPE: Final = 800
"""About so many bytes has a checkpoint without its state."""
_PAGE_ROOM: Final = 16_000_000
"""About so many bytes has a page at most."""
_PATIENCE: Final = 10.0
"""Seconds to wait for another writer of a file of lines, who holds its lock while a line is written."""
_BLOCK: Final = 1 << 16
_OURS: Final = b'{"added_metadata":'
"""How each line begins that we write: its fields are sorted."""
_KEY: Final = re.compile(r'[ ,{]*"(\w+)" ?: ?')

Ref = str | Checkpoint
States = Iterable[tuple[CheckpointRow, Any]]


class _Chosen(Record):
    """What is to be exported, from one view."""

    rows: tuple[CheckpointRow, ...]
    owner: SessionRow
    header: SessionHeader | None
    notes: tuple[str, ...] = ()
    """What is said of the ranges that have nothing in them."""


def export(
    place: Place,
    refs: Ref | Iterable[Ref],
    target: str | Path | BinaryIO,
    *,
    format: str | None,  # noqa: A002 - the word of the public contract
    session: bool,
    force: bool,
    dry_run: bool = False,
) -> ExportReport:
    """Write checkpoints to where they are wanted; see `Session.export`."""
    wanted = (refs,) if isinstance(refs, str | Checkpoint) else tuple(refs)
    # Before anything is read: what does not fit is refused whatever there is to export.
    named = _Target(target, format, whole=session) if isinstance(target, str | Path) else None
    chosen = read_again(partial(_choose, place, wanted, whole=session))
    if dry_run:
        return _estimate(chosen, named.kind if named else "json")
    report = named.write(place, chosen, force=force) if named else _to_stream(place, chosen, target, format)
    for note in chosen.notes:
        # Afterwards: where warnings are errors, what was asked for is there all the same.
        warnings.warn(note, HoldfastWarning, stacklevel=callers_level())
    return report


def _estimate(chosen: _Chosen, kind: str) -> ExportReport:
    size = sum(row.size_bytes + _ENVELOPE for row in chosen.rows)
    # States are text, and much alike.
    size = min(size, _PAGE_ROOM) if kind == "html" else size // 5 if kind.endswith(".gz") else size
    return ExportReport(len(chosen.rows), (), size, dry_run=True)


class _Target:
    """A file or a folder that was named. A link is followed, and stays a link.

    Raises:
        InvalidInputError: Path, format and what is to be written do not fit, or nothing can be written there.
    """

    def __init__(self, given: str | Path, wanted: str | None, *, whole: bool) -> None:
        if str(given) == "":
            raise bad("the path is empty", "name a file or a folder; the current folder is .")
        if wanted is not None and wanted not in FORMATS:
            raise bad(f"format cannot be {wanted!r}", f"use one of: {', '.join(FORMATS)}")
        self.path = Path(given)
        self._whole = whole
        with explained(self.path):
            self._settle(str(given), wanted, whole=whole)

    def _settle(self, given: str, wanted: str | None, *, whole: bool) -> None:
        self.is_folder = given.endswith(("/", "\\")) or self.path.is_dir()
        if self.is_folder:
            self.kind = wanted or "json.gz"
            if whole or self.kind not in IN_A_FOLDER:
                raise bad(
                    f"{given} is a folder, which gets a json or json.gz file for each checkpoint",
                    "name a file that ends with .jsonl, .jsonl.gz or .html",
                )
            if self.path.exists() and not self.path.is_dir():
                raise bad(f"{given} ends as a folder does, and {self.path} is a file", "name a folder")
            return
        check_ordinary(self.path)
        self.kind = _kind_of(self.path.name, wanted)
        if whole and self.kind in IN_A_FOLDER:
            raise bad(
                f"a whole session does not go into a {self.kind} file",
                "name a file that ends with .jsonl, .jsonl.gz or .html",
            )

    def write(self, place: Place, chosen: _Chosen, *, force: bool) -> ExportReport:
        """Write what was chosen."""
        rows = chosen.rows
        if self.is_folder:
            return export_to_folder(place, rows, chosen.owner, self.path, self.kind)
        if self.kind == "jsonl" and not self._whole and not force:
            return append_lines(place, rows, chosen.owner, self.path)
        if not force and os.path.lexists(os.path.realpath(self.path)):
            raise InvalidInputError(
                f"{self.path} is there already",
                code=ErrorCode.PATH_EXISTS,
                hint="pass force=True (--force) to write over it, or name another file",
                path=str(self.path),
            )
        if self.kind == "html":
            return self._write_page(place, chosen)
        one_line = self.kind.startswith("jsonl")
        if not one_line and len(rows) != 1:
            raise bad(
                f"{len(rows):,} checkpoints do not go into one {self.kind} file",
                "give a folder (a path that ends with /), or a .jsonl file",
            )
        return self._put(_text(place, chosen, one_line=one_line), len(rows))

    def _write_page(self, place: Place, chosen: _Chosen) -> ExportReport:
        # Only a page needs it, and what it takes to compare states.
        from holdfast.store.archive.page import MOST, page_text

        with place.backend.reader() as reader:
            heads = {each.name: each.head for each in reader.branches(chosen.owner.id)}
        newest = sorted(chosen.rows, key=lambda row: row.seq, reverse=True)
        rows, left_out = newest[:MOST], len(newest[MOST:])
        states = _states(place, rows, chosen.owner)
        return self._put(page_text(place, chosen.owner, heads, rows, states, left_out), len(rows))

    def _put(self, text: Iterable[str], count: int) -> ExportReport:
        # What a link leads to: a file that is replaced must not replace the link.
        real = Path(os.path.realpath(self.path))
        size = write_file(real, text, zipped=self.kind.endswith(".gz"))
        return ExportReport(count, (str(self.path),), size)


def _kind_of(name: str, wanted: str | None) -> str:
    found = next((each for each in sorted(FORMATS, key=len, reverse=True) if name.endswith(f".{each}")), None)
    if found is not None and wanted not in (None, found):
        # Whoever opens it, or imports it, goes by the name.
        raise bad(
            f"{name!r} ends with .{found}, and the format is {wanted}",
            f"leave the format out, or name a file that ends with .{wanted}",
        )
    if (kind := wanted or found) is None:
        ends = ", ".join(f".{each}" for each in FORMATS)
        raise bad(f"{name!r} does not say what to write", f"end it with one of: {ends}; a folder ends with /")
    return kind


def _to_stream(place: Place, chosen: _Chosen, stream: Any, kind: str | None) -> ExportReport:
    if not hasattr(stream, "write"):
        raise bad(
            f"nothing can be exported to a {type(stream).__name__}",
            "pass a path, or a file opened to write bytes",
        )
    several = chosen.header is not None or len(chosen.rows) != 1
    if kind not in (None, "json", "jsonl") or (kind == "json" and several):
        raise bad(
            f"a stream is given one checkpoint as json or any number as jsonl, not {len(chosen.rows):,} as {kind}",
            "use jsonl, or name a file or a folder",
        )
    size = 0
    for piece in _joined(_text(place, chosen, one_line=several or kind == "jsonl")):
        stream.write(piece)
        size += len(piece)
    return ExportReport(len(chosen.rows), (), size)


def _choose(place: Place, refs: tuple[Ref, ...], *, whole: bool) -> _Chosen:
    session = place.claim.session
    with place.backend.reader() as reader:
        owner = reader.session(session)
        if owner is None:
            missing_head(reader, session, place.branch)
        if whole:
            rows = tuple(reader.checkpoints(Query(session=session, oldest_first=True)))
            heads = {each.name: each.head for each in reader.branches(session)}
            current = owner.current if owner.current in heads else next(iter(heads), owner.current)
            header = SessionHeader(session, owner.agent, owner.project, current, heads, len(rows))
            return _Chosen(rows, owner, header)
        each = [(ref, tuple(_named(place, reader, ref))) for ref in refs]
        found = {row.id: row for _, named in each for row in named}
        rows = tuple(sorted(found.values(), key=lambda row: row.seq))
        # Only a range can have nothing in it: any other ref names a checkpoint, or is refused.
        ranges = dict.fromkeys(ref for ref, named in each if isinstance(ref, str) and not named)
        empty = tuple(
            nothing_in(ref, lambda other: any(True for _ in _named(place, reader, other))) for ref in ranges
        )
        if not rows:
            why = "; ".join(empty)
            raise bad(f"there is nothing to export: {why}", "name a checkpoint, or a range that has some")
        return _Chosen(rows, session_of(reader, rows[0]), None, empty)


def _named(place: Place, reader: Reader, ref: Ref) -> Iterable[CheckpointRow]:
    if isinstance(ref, str) and is_range(ref):
        return resolve_range(reader, place.claim.session, place.branch, ref, now=place.clock())
    return (place.find(reader, ref),)


def _states(
    place: Place, rows: Iterable[CheckpointRow], owner: SessionRow
) -> Iterator[tuple[CheckpointRow, Any]]:
    """Yield each row with what is stored of its state: no class is asked for, and none is needed."""
    rows = tuple(rows)
    checkpoints = (Checkpoint(row, owner) for row in rows)
    return zip(rows, EachState(place.backend, TypeRegistry(), checkpoints, ChunksAtHand()), strict=False)


def _text(place: Place, chosen: _Chosen, *, one_line: bool) -> Iterator[str]:
    if chosen.header is not None:
        yield tagged_json(dict(sorted(header_of(chosen.header).items())), one_line=True)
        yield "\n"
    for row, state in _states(place, chosen.rows, chosen.owner):
        yield from checkpoint_text(row, chosen.owner, state, one_line=one_line)


def checkpoint_text(row: CheckpointRow, owner: SessionRow, state: Any, *, one_line: bool) -> Iterator[str]:
    """Yield a checkpoint with its state, in pieces; the last is a line break.

    The envelope is sorted and, unless it is to be one line, each value has a line of its own, so that in git one
    changed value is one changed line. The state's own keys stay in the order they have: another order is another state.

    Raises:
        UnsupportedError: The state holds a time zone of a class of its own, for which there is no notation.
    """
    document = envelope_of(row, owner) | {"state": state}
    try:
        yield tagged_json(dict(sorted(document.items())), one_line=one_line)
    except MalformedError as error:
        raise UnsupportedError(
            f"checkpoint {row.id.hex()[:12]} of session {row.session!r} cannot be exported: {error}",
            code=ErrorCode.NOT_SUPPORTED,
            hint="copy_to takes every state along; or save the time zone by its name",
            checkpoint=row.id.hex(),
        ) from error
    yield "\n"


def export_to_folder(
    place: Place, rows: Iterable[CheckpointRow], owner: SessionRow, folder: Path, kind: str
) -> ExportReport:
    """Write one file a checkpoint, named by its time and the first digits of its id."""
    names: list[str] = []
    size = written = 0
    for row, state in _states(place, rows, owner):
        path = file_path(folder, row, kind)
        text = checkpoint_text(row, owner, state, one_line=False)
        done = write_file(path, text, zipped=kind.endswith(".gz"), only_if_new=True)
        names.append(str(path))
        size += done
        written += done > 0
    return ExportReport(written, tuple(names), size)


def file_path(folder: Path, row: CheckpointRow, kind: str) -> Path:
    """Return where the file of a checkpoint goes: with four digits of its id, or more where another has that name."""
    when = moment(row.created_at).strftime("%Y%m%d-%H%M%S")
    paths = [folder / f"{when}-{row.id.hex()[:digits]}.{kind}" for digits in (4, 8, 16, 64)]
    return next((path for path in paths if field_in(path, "id") in (None, row.id.hex())), paths[-1])


def field_in(path: Path, name: str) -> str | None:
    """Return a text field of the checkpoint in a file; nothing where it has none, None where there is no file."""
    # A line break and two spaces: what lies deeper stands further right, and no text has a line break of its own.
    pattern = re.compile(rf'\n  "{name}": ("(?:[^"\\]|\\.)*+")'.encode())
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            # To open a pipe with a name would wait for somebody who writes to it.
            return ""
        with path.open("rb") as stream:
            data: BinaryIO | gzip.GzipFile = gzip.GzipFile(fileobj=stream) if path.suffix == ".gz" else stream
            # The second look is for what has long metadata before it.
            seen = data.read(_BLOCK)
            found = pattern.search(seen) or pattern.search(seen + data.read(1 << 22))
            return str(json.loads(found[1])) if found else ""
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, EOFError, zlib.error, ValueError):
        # There is something, and it is none of ours.
        return ""


def write_file(path: Path, text: Iterable[str], *, zipped: bool, only_if_new: bool = False) -> int:
    """Write a file that appears whole: beside its place, synced, and renamed; return its size.

    With `only_if_new` a file that has the same bytes is left alone, and the size is 0.
    """
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # With a dot, so that nobody takes it for an archive before it is one.
        beside = path.with_name(f".{path.name[:40]}.{secrets.token_hex(8)}")
        try:
            with beside.open("xb") as stream:
                if zipped:
                    # No time and no name in it: the same checkpoint is the same file.
                    with gzip.GzipFile("", "wb", 6, stream, mtime=0) as packed:
                        for piece in _joined(text):
                            packed.write(piece)
                else:
                    stream.writelines(_joined(text))
                size = stream.tell()
                stream.flush()
                # Before the rename: a power cut must not leave a name without content.
                os.fsync(stream.fileno())
            with suppress(OSError):
                if only_if_new and not path.is_symlink() and filecmp.cmp(path, beside, shallow=False):
                    beside.unlink()
                    return 0
                # Who may read it stays as it was.
                beside.chmod(stat.S_IMODE(path.stat().st_mode))
            beside.replace(path)
        except BaseException:
            # Whatever it was: nothing half written is left behind.
            beside.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    return size


def append_lines(
    place: Place, rows: Iterable[CheckpointRow], owner: SessionRow, path: Path, *, is_new: bool = False
) -> ExportReport:
    """Add lines to a file of JSON Lines, made where there is none; a checkpoint that it has already is passed over.

    `is_new` says that the checkpoints were saved just now, so that no line can have them.
    """
    check_ordinary(path)
    there = set() if is_new else line_ids(path)
    size = count = 0
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        for row, state in _states(place, [row for row in rows if row.id.hex() not in there], owner):
            line = b"".join(_joined(checkpoint_text(row, owner, state, one_line=True)))
            # Made before the lock is taken: nothing that a store does is waited for while others wait for the file.
            with FileIO(path, "ab+") as stream, _locked(stream, path):
                _end_last_line(stream)
                _append(stream, line)
            size += len(line)
            count += 1
        if count:
            with path.open("rb+") as written:
                os.fsync(written.fileno())
            sync_folder(path.parent)
    return ExportReport(count, (str(path),), size)


def line_ids(path: Path) -> set[str]:
    """Return the ids of the checkpoints in a file of lines; none where there is no file.

    Raises:
        InvalidInputError: It is the file of a whole session, which says how many lines it has.
    """
    ids: set[str] = set()
    with (
        explained(path),
        suppress(FileNotFoundError),
        path.open(encoding="utf-8", errors="replace") as stream,
    ):
        for number, line in enumerate(stream):
            if number == 0 and _text_in(line, "format") == SESSION:
                raise InvalidInputError(
                    f"{path} is the archive of a whole session, and says how many checkpoints it has",
                    code=ErrorCode.PATH_EXISTS,
                    hint="name another file; or export the whole session again, with force=True (--whole --force)",
                    path=str(path),
                )
            if line.endswith("\n") and (found := _text_in(line, "id")):
                ids.add(found)
    return ids


def _text_in(line: str, name: str) -> str | None:
    """Return a text field of the object in a line, without reading what comes behind it: that may be large."""
    decoder = json.JSONDecoder()
    at = 0
    while found := _KEY.match(line, at):
        try:
            value, at = decoder.raw_decode(line, found.end())
        except (ValueError, RecursionError):
            break
        if found[1] == name:
            return value if type(value) is str else None
    return None


def _end_last_line(stream: FileIO) -> None:
    """See that the file ends with a line break: half a line of ours is what a crash left, and is cut off."""
    end = at = stream.seek(0, os.SEEK_END)
    tail = b""
    while at and b"\n" not in tail:
        start = max(0, at - _BLOCK)
        stream.seek(start)
        tail, at = stream.read(at - start) + tail, start
    last = tail.rpartition(b"\n")[2]
    if not last:
        return
    try:
        json.loads(last)
    except (ValueError, RecursionError):
        if _OURS.startswith(last[: len(_OURS)]):
            stream.truncate(end - len(last))
            return
    _append(stream, b"\n")


def _append(stream: FileIO, data: bytes) -> None:
    end = stream.seek(0, os.SEEK_END)
    view = memoryview(data)
    try:
        while view:
            view = view[stream.write(view) :]
    except BaseException:
        # A full disk, or Ctrl-C. It is the end of our own line, and nobody else has written since: the lock is ours.
        with suppress(OSError):
            stream.truncate(end)
        raise


if sys.platform == "win32":
    import msvcrt

    def _try_lock(handle: int) -> None:
        os.lseek(handle, 1 << 40, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _try_lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def _locked(stream: FileIO, path: Path) -> Iterator[None]:
    """Keep every other writer of lines out until the stream is closed; the system lets go for a process that dies."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            _try_lock(stream.fileno())
            break
        except (BlockingIOError, PermissionError) as error:
            if time.monotonic() > until:
                raise BackendError(
                    f"{path} cannot be written now: another process has been writing it for {_PATIENCE:.0f} seconds",
                    code=ErrorCode.IO_FAILED,
                    hint="try again; if nothing else writes it, look for a process that was stopped",
                    path=str(path),
                ) from error
            time.sleep(0.005)
    yield


def check_ordinary(path: Path) -> None:
    """Refuse to write over what is no file: a pipe with a name, a device, a link that leads in a circle."""
    with explained(path):
        try:
            ordinary = stat.S_ISREG(path.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            ordinary = False
    if not ordinary:
        raise bad(
            f"{path} is no ordinary file",
            "name a file; what is to go on through a pipe can be written to stdout (-)",
        )


def sync_folder(folder: Path) -> None:
    """Make a rename in a folder survive a power cut, where the system can."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise errors of the system as errors of ours."""
    codes = {errno.ENOSPC: ErrorCode.DISK_FULL, errno.EACCES: ErrorCode.PERMISSION_DENIED}
    try:
        yield
    except OSError as error:
        raise BackendError(
            f"{path} cannot be written: {error.strerror or error}",
            code=codes.get(error.errno or 0, ErrorCode.IO_FAILED),
            hint="look at the folder, its permissions and the room on its disk",
            path=str(path),
        ) from error


def bad(message: str, hint: str) -> InvalidInputError:
    """Return the error for what cannot be asked for."""
    return InvalidInputError(message, code=ErrorCode.BAD_ARGUMENT, hint=hint)


def _joined(text: Iterable[str]) -> Iterator[bytes]:
    """Yield the pieces in UTF-8, gathered: each is a few characters."""
    some: list[str] = []
    size = 0
    for piece in text:
        some.append(piece)
        size += len(piece)
        if size > _BLOCK:
            yield "".join(some).encode()
            some, size = [], 0
    if some:
        yield "".join(some).encode()
