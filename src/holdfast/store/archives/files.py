"""Files of archives on their way to disk: whole or not at all, and named so that no id or name can lead elsewhere."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import secrets
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, NamedTuple, Self

from holdfast.errors import BackendError, ErrorCode, HoldfastWarning, InvalidInputError
from holdfast.history.checkpoint import moment
from holdfast.storage.records import CheckpointRow

NAME: Final = re.compile(r"[0-9]{8}-[0-9]{6}-([0-9a-f]{4,64})\.json(\.gz)?")
"""Of a file that holds one checkpoint: when it was made, in UTC, and the first digits of its id."""

_DIGITS: Final = (4, 8, 16, 64)
# A line break and two spaces: what lies deeper stands further right, and no text has a line break of its own.
_ID: Final = re.compile(rb'\n  "id": "([0-9a-f]{64})"')
_SESSION: Final = re.compile(rb'\n  "session": ("(?:[^"\\]|\\.)*+")')


class Written(NamedTuple):
    """What came of writing a file."""

    bytes: int
    """0 where it was there already, with the same content."""


class Marked(NamedTuple):
    """A checkpoint in a file."""

    id: str
    start: int
    end: int


def file_name(folder: Path, row: CheckpointRow, kind: str) -> str:
    """What the file of a checkpoint is called: with four digits of its id, and more where another one has that name."""
    when = moment(row.created_at).strftime("%Y%m%d-%H%M%S")
    names = [f"{when}-{row.id.hex()[:digits]}.{kind}" for digits in _DIGITS]
    return next((name for name in names if id_in(folder / name) in (None, row.id.hex())), names[-1])


def id_in(path: Path) -> str | None:
    """The id of the checkpoint in a file; None where there is no file, and nothing where it has none."""
    try:
        with path.open("rb") as stream:
            data = _start(stream)
    except OSError:
        return None
    found = _ID.search(data)
    return found[1].decode() if found else ""


def session_in(path: Path) -> bytes | None:
    """The session of the checkpoint in a file, as its JSON text."""
    try:
        with path.open("rb") as stream:
            found = _SESSION.search(_start(stream))
    except OSError:
        return None
    return found[1] if found else None


def _start(stream: BinaryIO) -> bytes:
    """So much of a file that the id is in it; long metadata may stand before."""
    most = 4 << 20
    try:
        if stream.read(2) == b"\x1f\x8b":
            stream.seek(0)
            with gzip.GzipFile(fileobj=stream) as unpacked:
                return unpacked.read(most)
    except (EOFError, OSError, ValueError):
        return b""
    stream.seek(0)
    return stream.read(most)


def check_free(path: Path, *, force: bool) -> None:
    """Refuse to write over something, unless that was asked for."""
    if not force and (path.exists() or path.is_symlink()):
        raise InvalidInputError(
            f"{path} is there already",
            code=ErrorCode.PATH_EXISTS,
            hint="pass force=True (--force) to write over it, or name another file",
            path=str(path),
        )


class Replaced:
    """A file that appears whole: it is written beside its place, synced, and renamed."""

    def __init__(self, path: Path, *, zipped: bool) -> None:
        self._path = path
        self._zipped = zipped

    def write(self, text: Iterable[str], *, only_if_new: bool = False) -> Written:
        """Write the text, in UTF-8; with `only_if_new`, a file that has the same bytes is left alone."""
        with _explained(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # With a dot, so that nobody takes it for an archive before it is one.
            beside = self._path.with_name(f".{self._path.name[:40]}.{secrets.token_hex(8)}")
            try:
                with beside.open("xb") as stream:
                    self._fill(stream, text)
                    size = stream.tell()
                    stream.flush()
                    if only_if_new and _same(self._path, beside):
                        beside.unlink()
                        return Written(0)
                    # Before the rename: a power cut must not leave a name without content.
                    os.fsync(stream.fileno())
                beside.replace(self._path)
            except BaseException:
                # Whatever it was: nothing half written is left behind.
                with suppress(OSError):
                    beside.unlink()
                raise
            sync_folder(self._path.parent)
        return Written(size)

    def _fill(self, stream: BinaryIO, text: Iterable[str]) -> None:
        if not self._zipped:
            stream.writelines(joined(text))
            return
        # No time and no name in it: the same checkpoint is the same file.
        with gzip.GzipFile(filename="", mode="wb", fileobj=stream, compresslevel=6, mtime=0) as packed:
            for piece in joined(text):
                packed.write(piece)


class Appended:
    """A file that grows by lines; what a crash left of half a line goes first."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Self:
        with _explained(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._stream: Any = open(self._path, "ab+", buffering=0)  # noqa: PTH123 - closed below
            self._cut_half_line()
        return self

    def add(self, text: Iterable[str]) -> int:
        """Write one line; how many bytes that were."""
        line = b"".join(joined(text))
        with _explained(self._path):
            # In one call: what another process appends meanwhile comes before or after, not between.
            view = memoryview(line)
            while view:
                view = view[self._stream.write(view) :]
        return len(line)

    def _cut_half_line(self) -> None:
        end = self._stream.seek(0, os.SEEK_END)
        at = end
        while at:
            start = max(0, at - 65536)
            self._stream.seek(start)
            found = self._stream.read(at - start).rfind(b"\n")
            at = start + found + 1 if found >= 0 else start
            if found >= 0:
                break
        if at < end:
            warnings.warn(
                f"{self._path} ended in the middle of a line, which was cut off",
                HoldfastWarning,
                stacklevel=2,
            )
            self._stream.truncate(at)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _explained(self._path):
            os.fsync(self._stream.fileno())
        self._stream.close()


def lines_in(path: Path) -> Iterator[Marked]:
    """The checkpoints of a file of JSON Lines: their ids and places; none where there is no file."""
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        return
    with stream, _explained(path):
        start = 0
        for line in stream:
            end = start + len(line)
            yield Marked(_id_of_line(line), start, end)
            start = end


def _id_of_line(line: bytes) -> str:
    try:
        found = json.loads(line)["id"]
    except (ValueError, LookupError, TypeError, RecursionError):
        # The file is not ours alone: what is no checkpoint has no id.
        return ""
    return found if isinstance(found, str) else ""


def sync_folder(folder: Path) -> None:
    """Make a rename in a folder survive a power cut, where the system can."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def joined(text: Iterable[str]) -> Iterator[bytes]:
    """The pieces in UTF-8, gathered: each is a few characters."""
    some: list[str] = []
    size = 0
    for piece in text:
        some.append(piece)
        size += len(piece)
        if size > 1 << 16:
            yield "".join(some).encode()
            some, size = [], 0
    if some:
        yield "".join(some).encode()


def _same(one: Path, other: Path) -> bool:
    import filecmp

    try:
        return not one.is_symlink() and filecmp.cmp(one, other, shallow=False)
    except OSError:
        return False


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        codes = {errno.ENOSPC: ErrorCode.DISK_FULL, errno.EACCES: ErrorCode.PERMISSION_DENIED}
        raise BackendError(
            f"{path} cannot be written: {error.strerror or error}",
            code=codes.get(error.errno or 0, ErrorCode.IO_FAILED),
            hint="look at the folder, its permissions and the room on its disk",
            path=str(path),
        ) from error
