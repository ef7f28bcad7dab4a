"""A file of JSON Lines that several writers share: lines come at its end and go from its middle, and none is lost.

Every change is made under a lock, so what stands at the end without a line break is not a line on its way but what a
crash left of one, or what an editor did. A line that is whole gets its line break; half a line of ours is put aside. A
line is made before the lock is taken: nothing that a store does is waited for while others wait for the file.

The file is not ours alone. Ids are found by a scan that stops where it has one, and never builds what a line holds: a
state may lie deeper than Python recurses.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from holdfast.errors import ErrorCode, HoldfastWarning, InvalidInputError
from holdfast.store.archives.envelope import SESSION
from holdfast.store.archives.files import Replaced, explained, joined, sync_folder
from holdfast.store.archives.locking import locked
from holdfast.store.archives.targets import check_ordinary, make_folder, real
from holdfast.store.progress import callers_level

_OURS: Final = b'{"added_metadata":'
"""How each line begins that we write: its fields are sorted."""
_TOKEN: Final = re.compile(rb'"[^"]*"|["{}\[\]]')
"""Where no quotation mark is escaped; the last of an odd number stands alone."""
_STEPS: Final = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}
_NAMED: Final = re.compile(rb'\s*:\s*"([^"\\]*)"')
_ID: Final = re.compile("[0-9a-f]{64}")
_FIRST_LOOK: Final = 1 << 14
"""Bytes of a line. The id comes before the state and the metadata, so most lines are not looked at any further."""
_BLOCK: Final = 1 << 16
_LONGEST_HEADER: Final = 64 << 20


class Line(NamedTuple):
    """A line of a file, with its line break if it has one."""

    id: str
    """Of the checkpoint in it; nothing where it is none, or only half of one."""
    start: int
    end: int
    ended: bool


SeenTo = tuple[int, int, int]
"""The numbers of a file system and of a file on it, and how many bytes of that."""
UNSEEN: Final = (0, 0, 0)


class JsonLines:
    """The file."""

    def __init__(self, path: Path, seen_to: SeenTo = UNSEEN) -> None:
        self._named = path
        # What a link leads to: lines that are cut out make a new file, and the link has to stay one.
        self._path = real(path)
        check_ordinary(self._path)
        self._seen: set[str] = set()
        self.seen_to = seen_to
        """How far it was looked through. From where another one has come, only what was added since is looked at."""

    def ids(self) -> set[str]:
        """The checkpoints that it has; none where there is no file."""
        with explained(self._named), suppress(FileNotFoundError), FileIO(self._path, "rb") as stream:
            return set(self._look(stream))
        return set()

    def add(self, text: Iterable[str], unless: str | None = None) -> int:
        """Write one line; how many bytes that were.

        Args:
            text: The line, with its line break.
            unless: An id: nothing is written where the file has it. What others added since `ids` is looked at.

        Raises:
            InvalidInputError: The file is that of a whole session, which says how many lines it has.
            BackendError: It cannot be written.
        """
        line = b"".join(joined(text))
        aside: Path | None = None
        with explained(self._named):
            make_folder(self._path.parent)
            with locked(self._path), self._opened() as stream:
                self._refuse_header(stream)
                aside = self._end_last_line(stream)
                if unless is not None and unless in self._look(stream):
                    line = b""
                _write(stream, line)
                self._note(unless, len(line))
        if aside is not None:
            # Afterwards: where warnings are errors, the line is there all the same.
            warnings.warn(
                f"{self._named} ended in the middle of a line, which is in {aside} now",
                HoldfastWarning,
                stacklevel=callers_level(),
            )
        return len(line)

    def cut(self, ids: Collection[str]) -> None:
        """Take the lines of checkpoints out; a file with no line left goes."""
        # What has no id is not ours.
        gone = frozenset(ids) - {""}
        if not gone or not self._path.exists():
            return
        with explained(self._named), locked(self._path):
            try:
                lines = list(lines_in(self._path))
            except FileNotFoundError:
                return
            left = [each for each in lines if each.id not in gone]
            if len(left) == len(lines):
                return
            if left:
                Replaced(self._path, zipped=False).write_bytes(_pieces(self._path, left))
            else:
                self._path.unlink(missing_ok=True)
                sync_folder(self._path.parent)

    def sync(self) -> None:
        """Have everything on disk that was added."""
        # Opened anew, and after the lock: what was written is in the system's hands, whoever writes it out. Where lines
        # were cut out since, that was synced as well.
        with explained(self._named), suppress(FileNotFoundError), self._path.open("rb+") as stream:
            os.fsync(stream.fileno())

    @contextmanager
    def _opened(self) -> Iterator[FileIO]:
        new = not self._path.exists()
        with FileIO(self._path, "ab+") as stream:
            if new:
                sync_folder(self._path.parent)
            yield stream

    def _refuse_header(self, stream: FileIO) -> None:
        stream.seek(0)
        if stream.read(len(_OURS)) == _OURS:
            return
        with self._path.open("rb") as buffered:
            first = buffered.readline(_LONGEST_HEADER)
        if _text_of(first, "format") == SESSION:
            raise InvalidInputError(
                f"{self._named} is the archive of a whole session, and says how many checkpoints it has",
                code=ErrorCode.PATH_EXISTS,
                hint="name another file; or export the whole session again, with force=True (--whole --force)",
                path=str(self._named),
            )

    def _end_last_line(self, stream: FileIO) -> Path | None:
        """See that the file ends with a line break; where half a line of ours was put, if there was one."""
        end = stream.seek(0, os.SEEK_END)
        if not end or _at(stream, end - 1, end) == b"\n":
            return None
        start = _start_of_line(stream, end)
        begin = _at(stream, start, min(end, start + len(_OURS)))
        if not _OURS.startswith(begin) or is_whole(_at(stream, start, end)):
            _write(stream, b"\n")
            return None
        aside = self._path.with_name(f"{self._path.name}.cut")
        with FileIO(aside, "ab") as other:
            _write(other, _at(stream, start, end) + b"\n")
            # First there, then gone here.
            os.fsync(other.fileno())
        sync_folder(aside.parent)
        stream.truncate(start)
        return aside

    def _look(self, stream: FileIO) -> set[str]:
        """The ids of all lines; those that were seen before are read again only if the file is another one."""
        found = os.fstat(stream.fileno())
        start = self.seen_to[2]
        if self.seen_to[:2] != (found.st_dev, found.st_ino) or found.st_size < start:
            self._seen, start = set(), 0
        stream.seek(start)
        with open(stream.fileno(), "rb", closefd=False) as buffered:
            for each in _lines(buffered, start):
                self._seen |= {each.id} - {""}
                # Half a line will be a whole one, or gone.
                start = each.end if each.ended else start
        self.seen_to = (found.st_dev, found.st_ino, start)
        return self._seen

    def _note(self, added: str | None, size: int) -> None:
        """What was added just now need not be read again."""
        if added is not None and size:
            self._seen.add(added)
            self.seen_to = (*self.seen_to[:2], self.seen_to[2] + size)


def lines_in(path: Path) -> Iterator[Line]:
    """The lines of a file."""
    with path.open("rb") as stream:
        yield from _lines(stream, 0)


def is_whole(line: bytes) -> bool:
    """Whether every bracket and every text in a line is closed."""
    depth = 0
    for found in _TOKEN.finditer(_unescaped(line)):
        if found[0] == b'"':
            return False
        depth += _STEPS.get(found[0], 0)
    return depth <= 0


def id_in_line(line: bytes) -> str:
    """The id of the checkpoint in a whole line; nothing where there is none."""
    found = _text_of(line, "id")
    return found if _ID.fullmatch(found) else ""


def _lines(stream: BinaryIO, start: int) -> Iterator[Line]:
    for line in stream:
        end = start + len(line)
        ended = line.endswith(b"\n")
        yield Line(id_in_line(line) if ended or is_whole(line) else "", start, end, ended)
        start = end


def _text_of(line: bytes, name: str) -> str:
    """A field of an object, where it is a text without escapes; what lies deeper does not count."""
    wanted = f'"{name}"'.encode()
    for size in (_FIRST_LOOK, len(line)):
        depth = 0
        for found in _TOKEN.finditer(_unescaped(line[:size])):
            token = found[0]
            value = _NAMED.match(line, found.end()) if depth == 1 and token == wanted else None
            if value is not None:
                return value[1].decode("utf-8", "replace")
            depth += _STEPS.get(token, 0)
        if size >= len(line):
            break
    return ""


def _unescaped(line: bytes) -> bytes:
    """A line in which every quotation mark begins or ends a text, and everything is where it was."""
    # From left to right, so that a mark after two backslashes ends its text.
    return line.replace(b"\\\\", b"  ").replace(b'\\"', b"  ") if b"\\" in line else line


def _pieces(path: Path, lines: Iterable[Line]) -> Iterator[bytes]:
    with path.open("rb") as stream:
        for each in lines:
            stream.seek(each.start)
            yield stream.read(each.end - each.start)


def _start_of_line(stream: FileIO, end: int) -> int:
    at = end
    while at:
        start = max(0, at - _BLOCK)
        found = _at(stream, start, at).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        at = start
    return 0


def _at(stream: FileIO, start: int, end: int) -> bytes:
    stream.seek(start)
    data = bytearray()
    # A read may give less than was asked for.
    while len(data) < end - start and (piece := stream.read(end - start - len(data))):
        data += piece
    return bytes(data)


def _write(stream: FileIO, data: bytes) -> None:
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
