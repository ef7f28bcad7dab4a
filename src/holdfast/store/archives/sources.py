"""Where archives come from: a file, a folder of files, or an open stream; plain or gzip; one document or one a line.

Each document is handed on as bytes, never more of them than the limits allow: a file is asked for one byte more than
that, and what a gzip file claims about itself is not believed. Names are only shown: nothing in an archive, and no name
of a file, leads to another place.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, TypeVar

from holdfast.errors import BackendError, ErrorCode, InvalidInputError, NotFoundError
from holdfast.store.archives.limits import ArchiveLimits
from holdfast.store.archives.refusing import malformed, too_large

Source = str | Path | BinaryIO

_Bytes = TypeVar("_Bytes", bytes, bytearray)

_NAMES: Final = re.compile(r"(?!\.).+\.(?:jsonl?|ndjson)(?:\.gz)?")
"""Of files in a folder that are archives; those that begin with a dot are on their way, or somebody else's."""
_LINES: Final = re.compile(r".*\.(?:jsonl|ndjson)(?:\.gz)?", re.DOTALL)
_DOCUMENT: Final = re.compile(r".*\.json(?:\.gz)?", re.DOTALL)
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_PIECE: Final = 1 << 20

# Not every system has all of these. Without waiting: to open a pipe that nobody writes to would take for ever.
_READING: Final = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)


class Document(NamedTuple):
    """One JSON text of an archive."""

    data: bytes
    file: str
    """As it was named, or as it was found in a folder that was."""
    where: str
    """The same, with the line where there are several."""
    first: bool
    """Whether it is the first of its file."""
    last: bool
    """Whether it is the only one of its file that can be: the file is one document."""


def documents(source: Source, limits: ArchiveLimits) -> Iterator[Document]:
    """Every document, file by file in the order of their names."""
    if isinstance(source, str | Path):
        if source == "":
            # What a variable that is not set leaves: the current folder is not what was meant.
            raise InvalidInputError(
                "the path is empty",
                code=ErrorCode.BAD_ARGUMENT,
                hint="name a file or a folder; the current folder is .",
            )
        given = Path(source)
        for path in _files(given):
            # What a person names may be a link; what lies in a folder that came from elsewhere may not lead out of it.
            with _opened(path, follow=path is given) as stream:
                yield from _of_stream(stream, str(path), limits)
    elif hasattr(source, "read"):
        yield from _of_stream(source, str(getattr(source, "name", "the stream")), limits)
    else:
        raise InvalidInputError(
            f"nothing can be imported from a {type(source).__name__}",
            code=ErrorCode.BAD_ARGUMENT,
            hint="pass a path, or a file that was opened to read bytes",
        )


def _files(path: Path) -> list[Path]:
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            found = sorted(each for each in path.iterdir() if _NAMES.fullmatch(each.name))
            if not found:
                raise NotFoundError(
                    f"there is no archive in {path}",
                    code=ErrorCode.SOURCE_EMPTY,
                    hint=f"archives are called *.json, *.json.gz, *.jsonl or *.jsonl.gz{_further_in(path)}",
                    path=str(path),
                )
            return found
    except FileNotFoundError as error:
        raise NotFoundError(
            f"there is no file {path}",
            code=ErrorCode.SOURCE_MISSING,
            hint="look for it with ls; it is a file that export wrote, or a folder of them",
            path=str(path),
        ) from error
    except OSError as error:
        raise _failed(path, error) from error
    except ValueError as error:
        # A NUL in the name: no file has one.
        raise InvalidInputError(
            f"{str(path)!r:.80} cannot be a path", code=ErrorCode.BAD_PATH, hint="pass the path of a file"
        ) from error
    return [path]


def _further_in(path: Path) -> str:
    """Where the archives of a folder may be instead."""
    inner = sorted(each for each in path.iterdir() if each.is_dir() and not each.is_symlink())
    for each in inner:
        # One that may not be looked into says nothing about the others.
        with suppress(OSError):
            if any(_NAMES.fullmatch(one.name) for one in each.iterdir()):
                return f"; folders in it are not searched, and {each} has some: import that"
    return "; folders in it are not searched" if inner else ""


@contextmanager
def _opened(path: Path, *, follow: bool) -> Iterator[BinaryIO]:
    try:
        _check_kind(path, path.stat(follow_symlinks=follow).st_mode)
        with os.fdopen(os.open(path, _READING | (0 if follow else _NO_LINK)), "rb") as stream:
            # Something else may have taken its place since.
            _check_kind(path, os.fstat(stream.fileno()).st_mode)
            yield stream
    except OSError as error:
        if not follow and error.errno == errno.ELOOP:
            raise _is_link(path) from error
        raise _failed(path, error) from error


def _check_kind(path: Path, mode: int) -> None:
    if stat.S_ISLNK(mode):
        raise _is_link(path)
    # A pipe or a device would wait, or never end.
    if not stat.S_ISREG(mode):
        raise malformed(str(path), "not-a-file", "it is no ordinary file", "pass the path of a file")


def _is_link(path: Path) -> InvalidInputError:
    return malformed(
        str(path),
        "symbolic-link",
        "it is a symbolic link, and links in a folder are not followed",
        "put the file itself there, or import it by its own path",
    )


def _failed(path: Path, error: OSError) -> BackendError:
    code = ErrorCode.PERMISSION_DENIED if isinstance(error, PermissionError) else ErrorCode.IO_FAILED
    return BackendError(
        f"{path} cannot be read: {error.strerror or error}",
        code=code,
        hint="look at its permissions, and at the disk",
        path=str(path),
    )


def _of_stream(stream: BinaryIO, name: str, limits: ArchiveLimits) -> Iterator[Document]:
    peeked = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(_Unclosed(stream))
    start = peeked.peek(4)[:4]
    if start == _ZSTD:
        raise malformed(name, "not-gzip", "it is compressed with zstd", "unpack it with: zstd -d")
    if not start.startswith(_GZIP):
        yield from _split(peeked, name, limits)
        return
    try:
        with gzip.GzipFile(fileobj=peeked) as unpacked:
            yield from _split(unpacked, name, limits)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise malformed(name, "gzip-damaged", f"it is damaged as a gzip file: {error}") from error


def _split(stream: BinaryIO | gzip.GzipFile, name: str, limits: ArchiveLimits) -> Iterator[Document]:
    most = limits.checkpoint_bytes
    line = _bounded(stream.readline(most + 1), name, most)
    if not line.strip():
        raise malformed(name, "empty", "it is empty" if not line else "it begins with an empty line")
    if _is_lines(line, name):
        yield from _lines(stream, line, name, most)
        return
    data = bytearray(line)
    # In pieces: room is made for what is there, not for what may be.
    while len(data) <= most and (piece := stream.read(_PIECE)):
        data += piece
    yield Document(bytes(_bounded(data, name, most)), name, name, first=True, last=True)


def _lines(stream: BinaryIO | gzip.GzipFile, line: bytes, name: str, most: int) -> Iterator[Document]:
    number = 0
    while line:
        number += 1
        where = f"{name} line {number:,}"
        if not line.strip():
            raise malformed(where, "empty-line", "it is empty")
        yield Document(_bounded(line, where, most), name, where, first=number == 1, last=False)
        line = stream.readline(most + 1)


def _is_lines(line: bytes, name: str) -> bool:
    if _LINES.fullmatch(name) or _DOCUMENT.fullmatch(name):
        return bool(_LINES.fullmatch(name))
    # A stream has no name to go by: a document that we wrote has nothing but a bracket on its first line.
    return line.rstrip().endswith(b"}")


def _bounded(data: _Bytes, where: str, most: int) -> _Bytes:
    if len(data) > most:
        raise too_large(where, "too-many-bytes", f"it has more than {most:,} bytes", "checkpoint_bytes")
    return data


class _Unclosed(io.RawIOBase):
    """Reads from somebody's stream, which stays open when this is closed."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self._stream = stream

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """As that of a file."""
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
