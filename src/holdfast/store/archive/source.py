"""Where archives come from: a file, a folder of files, or an open stream; plain or gzip; one document or one a line.

What is read is hostile until it is proven. A file is asked for one byte more than the limits allow, and what a gzip
file claims about itself is not believed. A text is measured before it is parsed, because Python's parser builds
everything it is given; and what two readers could understand differently (a key twice, NaN) is refused. Names are only
shown: nothing in an archive, and no name of a file, leads to another place.
"""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import re
import stat
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, NoReturn

from holdfast.errors import (
    BackendError,
    ErrorCode,
    HoldfastWarning,
    InvalidInputError,
    NotFoundError,
)
from holdfast.store.archive.envelope import ArchiveLimits, malformed, too_large
from holdfast.store.place import callers_level

Source = str | Path | BinaryIO

_NAMES: Final = re.compile(r"(?!\.).+\.(?:jsonl?|ndjson)(?:\.gz)?")
"""Of files in a folder that are archives; those that begin with a dot are on their way, or somebody else's."""
_LINES: Final = re.compile(r".*\.(?:jsonl|ndjson)(?:\.gz)?", re.DOTALL)
_DOCUMENT: Final = re.compile(r".*\.json(?:\.gz)?", re.DOTALL)
_GZIP: Final = b"\x1f\x8b"
_WINDOW: Final = 1 << 20

# Not every system has all of these. Without waiting: to open a pipe that nobody writes to would take for ever.
_READING: Final = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)

_STRINGS: Final = re.compile(rb'"[^"]*"')
"""Where no quotation mark is escaped. An expression that knows escapes takes room for each character it has passed."""
_NOT_BRACKETS: Final = bytes(each for each in range(256) if each not in b"[]{}")
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_LONG_NUMBER: Final = re.compile(rb"[0-9]{401}")
"""A float has 17 digits, and larger whole numbers are written as text."""
_MAYBE_INFINITE: Final = re.compile(rb"[0-9][eE]\+?[0-9]{3}|[0-9]{300}")
_HALF_PAIR: Final = re.compile(
    rb"\\u[dD][89aAbB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89aAbB]..)\\u[dD][c-fC-F]", re.DOTALL
)


class Document(NamedTuple):
    """One JSON object of an archive."""

    value: dict[str, Any]
    file: str
    """As it was named, or as it was found in a folder that was."""
    where: str
    """The same, with the line where there are several."""
    first: bool
    """Whether it is the first of its file."""
    alone: bool
    """Whether the file is one document, not lines."""
    tagged: bool
    """Whether it may hold an object with `$type`; where not, what was parsed is the value itself."""


def documents(source: Source, limits: ArchiveLimits) -> Iterator[Document]:
    """Yield every document, file by file in the order of their names."""
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
        if not stat.S_ISDIR(path.stat().st_mode):
            return [path]
        found = sorted(each for each in path.iterdir() if _NAMES.fullmatch(each.name))
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
    if not found:
        raise NotFoundError(
            f"there is no archive in {path}",
            code=ErrorCode.SOURCE_EMPTY,
            hint="archives are called *.json, *.json.gz, *.jsonl or *.jsonl.gz; folders in it are not searched",
            path=str(path),
        )
    return found


@contextmanager
def _opened(path: Path, *, follow: bool) -> Iterator[BinaryIO]:
    try:
        # Looked at before and after: to open a device may do something, and another file may take its place.
        _check_kind(path, path.stat(follow_symlinks=follow).st_mode)
        with os.fdopen(os.open(path, _READING | (0 if follow else _NO_LINK)), "rb") as stream:
            _check_kind(path, os.fstat(stream.fileno()).st_mode)
            yield stream
    except OSError as error:
        if not follow and error.errno == errno.ELOOP:
            _check_kind(path, stat.S_IFLNK)
        raise _failed(path, error) from error


def _check_kind(path: Path, mode: int) -> None:
    if stat.S_ISLNK(mode):
        why = "it is a symbolic link, and links in a folder are not followed"
        raise malformed(
            str(path), "symbolic-link", why, "put the file itself there, or import it by its path"
        )
    # A pipe or a device would wait, or never end.
    if not stat.S_ISREG(mode):
        raise malformed(str(path), "not-a-file", "it is no ordinary file", "pass the path of a file")


def _failed(path: Path, error: OSError) -> BackendError:
    code = ErrorCode.PERMISSION_DENIED if isinstance(error, PermissionError) else ErrorCode.IO_FAILED
    return BackendError(
        f"{path} cannot be read: {error.strerror or error}",
        code=code,
        hint="look at its permissions, and at the disk",
        path=str(path),
    )


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


def _of_stream(stream: BinaryIO, name: str, limits: ArchiveLimits) -> Iterator[Document]:
    peeked = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(_Unclosed(stream))
    if not peeked.peek(2).startswith(_GZIP):
        yield from _split(peeked, name, limits)
        return
    try:
        with gzip.GzipFile(fileobj=peeked) as unpacked:
            yield from _split(unpacked, name, limits)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise malformed(name, "gzip-damaged", f"it is damaged as a gzip file: {error}") from error


def _split(stream: BinaryIO | gzip.GzipFile, name: str, limits: ArchiveLimits) -> Iterator[Document]:
    most = limits.checkpoint_bytes
    line = stream.readline(most + 1)
    if not line.strip():
        raise malformed(name, "empty", "it is empty, or begins with an empty line")
    # A stream may have no name to go by: a document that we wrote has nothing but a bracket on its first line.
    known = _LINES.fullmatch(name) or _DOCUMENT.fullmatch(name)
    if not (_LINES.fullmatch(name) if known else line.rstrip().endswith(b"}")):
        data = bytearray(line)
        # In pieces: room is made for what is there, not for what may be.
        while len(data) <= most and (piece := stream.read(_WINDOW)):
            data += piece
        yield _document(bytes(data), limits, name, name, first=True, alone=True)
        return
    number = 1
    while line:
        where = f"{name} line {number:,}"
        if not line.strip():
            raise malformed(where, "empty-line", "it is empty")
        try:
            document = _document(line, limits, name, where, first=number == 1, alone=False)
        except InvalidInputError as error:
            if line.endswith(b"\n") or number == 1 or error.details["reason"] != "not-json":
                raise
            # What a crash left of a line: the lines before it are whole.
            warnings.warn(f"{where} is cut short, and left out", HoldfastWarning, callers_level())
            return
        yield document
        line, number = stream.readline(most + 1), number + 1


def _document(
    data: bytes, limits: ArchiveLimits, file: str, where: str, *, first: bool, alone: bool
) -> Document:
    value = parse(data, limits, where)
    if type(value) is not dict:
        raise malformed(where, "not-an-archive", "it holds no JSON object")
    # A single byte is found ten times as fast as two. Letters can be written by their numbers, and in no other way.
    tagged = (b"$" in data and b"$type" in data) or (b"\\" in data and b"\\u" in data)
    return Document(value, file, where, first, alone, tagged)


def parse(data: bytes, limits: ArchiveLimits, where: str) -> Any:
    """Return the value of a JSON text in UTF-8.

    Raises:
        InvalidInputError: It is too large (`archive-too-large`) or no JSON (`archive-malformed`).
    """
    exact = _measure(data, limits, where)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise malformed(where, "not-utf-8", f"byte {error.start:,} is not UTF-8") from error
    if text.startswith("\ufeff"):
        raise malformed(where, "byte-order-mark", "it begins with a byte order mark", "save it without one")
    to_float = None if exact else _finite
    try:
        return json.loads(
            text, object_pairs_hook=_unique, parse_float=to_float, parse_constant=_refuse_constant
        )
    except _DuplicateKeyError as error:
        raise malformed(where, "duplicate-key", f"an object has the key {error} twice") from error
    except _NotANumberError as error:
        raise malformed(where, "not-a-number", f"{error} is no JSON number") from error
    except RecursionError as error:
        raise too_large(where, "too-deep", "its values lie too deep in each other", "depth") from error
    except ValueError as error:
        if text.lstrip()[:1] == "<":
            why = "it is a page to look at, and has no states to read back"
            raise malformed(where, "not-json", why, "export the checkpoints again, as .jsonl") from error
        raise malformed(where, "not-json", f"it is no JSON: {error!s:.200}") from error


class _DuplicateKeyError(ValueError):
    """An object has the same key twice."""


class _NotANumberError(ValueError):
    """A number that JSON does not have, or that is too large for a float."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKeyError(f"{key!r:.60}")
            seen.add(key)
    return made


def _finite(text: str) -> float:
    number = float(text)
    if number - number != 0:
        raise _NotANumberError(f"{text:.40}")
    return number


def _refuse_constant(text: str) -> NoReturn:
    raise _NotANumberError(text)


def _measure(data: bytes, limits: ArchiveLimits, where: str) -> bool:
    """Refuse what is too large; return whether every float is known to be finite."""
    if len(data) > limits.checkpoint_bytes:
        why = f"it has more than {limits.checkpoint_bytes:,} bytes"
        raise too_large(where, "too-many-bytes", why, "checkpoint_bytes")
    if b"\\" in data:
        # From left to right, so that a mark after two backslashes ends its string. As long as before.
        data = data.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
        if _HALF_PAIR.search(data):
            raise malformed(where, "lone-surrogate", "a text in it holds half a surrogate pair")
    if len(data) > limits.text and any(
        found.end() - found.start() > limits.text for found in _STRINGS.finditer(data)
    ):
        raise too_large(where, "text-too-long", f"it has a text of more than {limits.text:,} bytes", "text")
    rest = _outside_strings(data)
    if 1 + rest.count(b",") + rest.count(b"[") + rest.count(b"{") > limits.values:
        raise too_large(where, "too-many-values", f"it has more than {limits.values:,} values", "values")
    brackets = rest.translate(None, _NOT_BRACKETS)
    deepest = max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)
    if deepest > limits.depth:
        raise too_large(where, "too-deep", f"its values lie {deepest:,} deep in each other", "depth")
    if _LONG_NUMBER.search(rest):
        raise malformed(where, "number-too-long", "it has a number of more than 400 digits")
    return _MAYBE_INFINITE.search(rest) is None


def _outside_strings(data: bytes) -> bytes:
    """Return what stands between strings; no quotation mark in the data is escaped."""
    kept: list[bytes] = []
    inside = False
    # Window by window: a text of nothing but short strings would become millions of pieces at once.
    for start in range(0, len(data), _WINDOW):
        parts = data[start : start + _WINDOW].split(b'"')
        kept.append(b"".join(parts[inside::2]))
        inside ^= len(parts) % 2 == 0
    return b"".join(kept)
