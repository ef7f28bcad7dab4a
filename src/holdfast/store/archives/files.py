"""Files of archives on their way to disk: whole or not at all, and named so that no id or name can lead elsewhere."""

from __future__ import annotations

import gzip
import os
import re
import secrets
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.history.checkpoint import moment
from holdfast.storage.records import CheckpointRow
from holdfast.store.archives.targets import check_ordinary, make_folder, unwritable

NAME: Final = re.compile(r"[0-9]{8}-[0-9]{6}-([0-9a-f]{4,64})\.json(\.gz)?")
"""Of a file that holds one checkpoint: when it was made, in UTC, and the first digits of its id."""

_DIGITS: Final = (4, 8, 16, 64)
# A line break and two spaces: what lies deeper stands further right, and no text has a line break of its own.
_ID: Final = re.compile(rb'\n  "id": "([0-9a-f]{64})"')
_SESSION: Final = re.compile(rb'\n  "session": ("(?:[^"\\]|\\.)*+")')
_GZIP: Final = b"\x1f\x8b"
_LOOKS: Final = (1 << 16, 4 << 20)
"""Bytes; the second look is for what has long metadata."""


class Written(NamedTuple):
    """What came of writing a file."""

    bytes: int
    """0 where it was there already, with the same content."""


def file_path(folder: Path, row: CheckpointRow, kind: str) -> Path:
    """Where the file of a checkpoint goes: with four digits of its id, and more where another one has that name."""
    when = moment(row.created_at).strftime("%Y%m%d-%H%M%S")
    paths = [folder / f"{when}-{row.id.hex()[:digits]}.{kind}" for digits in _DIGITS]
    return next((path for path in paths if id_in(path) in (None, row.id.hex())), paths[-1])


def id_in(path: Path) -> str | None:
    """The id of the checkpoint in a file; None where there is no file, and nothing where it has none."""
    found = _field(path, _ID)
    return None if found is None else found.decode()


def session_in(path: Path) -> bytes | None:
    """The session of the checkpoint in a file, as its JSON text."""
    return _field(path, _SESSION)


def _field(path: Path, pattern: re.Pattern[bytes]) -> bytes | None:
    """What stands in a field of a file; long metadata may stand before it, and a long state behind."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            # To open a pipe with a name would wait for somebody who writes to it.
            return b""
        with path.open("rb") as stream:
            zipped = stream.read(len(_GZIP)) == _GZIP
            stream.seek(0)
            return _search(gzip.GzipFile(fileobj=stream) if zipped else stream, pattern)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, EOFError, zlib.error):
        # There is something, and it is none of ours.
        return b""


def _search(stream: BinaryIO | gzip.GzipFile, pattern: re.Pattern[bytes]) -> bytes:
    data = b""
    for size in _LOOKS:
        data += stream.read(size)
        found = pattern.search(data)
        if found is not None:
            return bytes(found[1])
    return b""


def check_free(path: Path, *, force: bool) -> None:
    """Refuse to write over a file, unless that was asked for, and over anything else in any case."""
    check_ordinary(path)
    if not force and path.exists():
        raise InvalidInputError(
            f"{path} is there already",
            code=ErrorCode.PATH_EXISTS,
            hint="pass force=True (--force) to write over it, or name another file",
            path=str(path),
        )


class Replaced:
    """A file that appears whole: it is written beside its place, synced, and renamed.

    Args:
        path: Its place.
        zipped: Whether it is compressed.
        chosen: Gives the place anew. With it, the file takes the place of nothing that came there in between.
    """

    def __init__(self, path: Path, *, zipped: bool, chosen: Callable[[], Path] | None = None) -> None:
        self._path = path
        self._zipped = zipped
        self._chosen = chosen

    @property
    def path(self) -> Path:
        """Where it is."""
        return self._path

    def write(
        self,
        text: Iterable[str],
        *,
        only_if_new: bool = False,
        renaming: AbstractContextManager[None] | None = None,
    ) -> Written:
        """Write the text, in UTF-8.

        Args:
            text: What to write.
            only_if_new: Leave a file alone that has the same bytes.
            renaming: What to be in when it takes the place of what is there; until then that has not been touched.
        """
        return self.write_bytes(joined(text), only_if_new=only_if_new, renaming=renaming)

    def write_bytes(
        self,
        pieces: Iterable[bytes],
        *,
        only_if_new: bool = False,
        renaming: AbstractContextManager[None] | None = None,
    ) -> Written:
        """The same for bytes."""
        with explained(self._path):
            make_folder(self._path.parent)
            # With a dot, so that nobody takes it for an archive before it is one.
            beside = self._path.with_name(f".{self._path.name[:40]}.{secrets.token_hex(8)}")
            try:
                with beside.open("xb") as stream:
                    self._fill(stream, pieces)
                    size = stream.tell()
                    stream.flush()
                    if only_if_new and _same(self._path, beside):
                        beside.unlink()
                        return Written(0)
                    # Before the rename: a power cut must not leave a name without content.
                    os.fsync(stream.fileno())
                with renaming or nullcontext():
                    # Who may read it stays as it was.
                    with suppress(OSError):
                        beside.chmod(stat.S_IMODE(self._path.stat().st_mode))
                    self._put(beside)
            except BaseException:
                # Whatever it was: nothing half written is left behind.
                with suppress(OSError):
                    beside.unlink()
                raise
            sync_folder(self._path.parent)
        return Written(size)

    def _put(self, beside: Path) -> None:
        while self._chosen is not None:
            self._path = self._chosen()
            if self._path.exists():
                # Of the same checkpoint: any other would have had the name chosen differently.
                break
            try:
                # Unlike a rename, it fails where somebody was faster.
                os.link(beside, self._path)
            except FileExistsError:
                continue
            except OSError:
                # There are file systems without links.
                break
            beside.unlink()
            return
        beside.replace(self._path)

    def _fill(self, stream: BinaryIO, pieces: Iterable[bytes]) -> None:
        if not self._zipped:
            stream.writelines(pieces)
            return
        # No time and no name in it: the same checkpoint is the same file.
        with gzip.GzipFile(filename="", mode="wb", fileobj=stream, compresslevel=6, mtime=0) as packed:
            for piece in pieces:
                packed.write(piece)


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
def explained(path: Path) -> Iterator[None]:
    """Errors of the system as errors of ours."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error) from error
