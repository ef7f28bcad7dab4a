"""Where the pages of a store are read from when SQLite is not to judge them: the file itself, or a copy of one moment.

The file is what lies on the disk, so that is where checksums are checked. The copy has what the write-ahead log has
too, and is what rows are read from; pages that come from the log have no checksum in it.
"""

from __future__ import annotations

import os
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import apsw

from holdfast.backends.sqlite.connection import PAGE_SIZE, fetch
from holdfast.storage.inspection import Flaw

_LOOKS: Final = 5
"""A page that is being written looks damaged for a moment; one that is damaged looks so each time."""
_PAUSE: Final = 0.02
_FRAME_HEADER: Final = 24
_WAL_HEADER: Final = 32
_PROOF: Final = 2
"""Commits behind a damaged place of the log: all but the newest were whole once."""


def check_pages(path: str) -> tuple[list[Flaw], frozenset[int]]:
    """The pages of the file that do not match their checksum, but for those that the log has newer."""
    flaws: list[Flaw] = []
    judge = apsw.Connection(":memory:")

    def is_bad(number: int) -> bool:
        return fetch(judge, "SELECT verify_checksum(?)", (pages.read(number),)) != [(1,)]

    pages = FilePages(path)
    try:
        if pages.rest:
            flaws.append(Flaw("page", f"the end of {path}", f"{pages.rest} bytes are no whole page"))
        bad = [each for each in range(1, pages.count + 1) if is_bad(each)]
        for _ in range(_LOOKS):
            newer = _in_log(path) if bad else set()
            bad = [each for each in bad if each not in newer and is_bad(each)]
            if not bad or not log_size(path):
                break
            # Somebody may be moving pages from the log into the file.
            time.sleep(_PAUSE)
    finally:
        pages.close()
        judge.close()
    flaws += [Flaw("page", f"page {each} of {path}", "it does not match its checksum") for each in bad]
    return flaws, frozenset(bad)


def check_log(path: str) -> list[Flaw]:
    """What is wrong with the write-ahead log, as far as anybody can tell."""
    lost = lost_commits(path)
    why = f"it is damaged, and {lost} commits behind that are out of reach"
    return [Flaw("page", f"the write-ahead log {path}-wal", why)] if lost else []


def lost_commits(path: str) -> int:
    """How many commits of the log are behind a place where it is damaged, which is where SQLite ends it.

    0 also where it is one alone: a commit that was cut off while it was written, and that nobody was told of, looks the
    same. SQLite leaves what is behind alone until it writes over it, or begins the log anew.
    """
    found = 0
    for _ in range(_LOOKS):
        found = _behind_damage(_read_log(path))
        if found < _PROOF:
            return 0
        # Somebody may be writing it at this moment.
        time.sleep(_PAUSE)
    return found


def _behind_damage(log: bytes) -> int:
    frames = range(_WAL_HEADER, len(log) - PAGE_SIZE - _FRAME_HEADER + 1, _FRAME_HEADER + PAGE_SIZE)
    salts = Counter(log[at + 8 : at + 16] for at in frames)
    # Older ones belong to a log before this one. Where the header is damaged, most frames are of the one it headed.
    whole, checksum = _header_checksum(log)
    salt = log[16:24] if whole else salts.most_common(1)[0][0] if salts else b""
    commits = [at for at in frames if log[at + 8 : at + 16] == salt and log[at + 4 : at + 8] != bytes(4)]
    if len(commits) < _PROOF:
        return 0
    order: Literal["<", ">"] = "<" if log[3] & 1 == 0 else ">"
    for at in frames if whole else ():
        end = at + _FRAME_HEADER
        checksum = _log_checksum(log[at : at + 8], order, checksum)
        checksum = _log_checksum(log[end : end + PAGE_SIZE], order, checksum)
        if log[at + 8 : at + 16] != salt or struct.unpack(">2I", log[end - 8 : end]) != checksum:
            return sum(each >= at for each in commits)
    return 0 if whole else len(commits)


def _header_checksum(log: bytes) -> tuple[bool, tuple[int, int]]:
    """Whether the header of a log is whole, and its checksum, which those of the frames go on from."""
    if len(log) < _WAL_HEADER:
        return False, (0, 0)
    order: Literal["<", ">"] = "<" if log[3] & 1 == 0 else ">"
    checksum = _log_checksum(log[: _WAL_HEADER - 8], order, (0, 0))
    return struct.unpack(">2I", log[_WAL_HEADER - 8 : _WAL_HEADER]) == checksum, checksum


def _log_checksum(data: bytes, order: Literal["<", ">"], before: tuple[int, int]) -> tuple[int, int]:
    """The checksum of https://sqlite.org/fileformat2.html, section 4.2."""
    first, second = before
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for one, two in zip(words, words, strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second


def log_size(path: str) -> int:
    """How much is in the write-ahead log."""
    try:
        return os.stat(path + "-wal").st_size  # noqa: PTH116 - SQLite's own names, as text
    except OSError:
        return 0


def _in_log(path: str) -> set[int]:
    """The pages that the write-ahead log has: what the file says of them is not read by anybody."""
    log = _read_log(path)
    salts = log[16:24]
    frames = range(_WAL_HEADER, len(log) - PAGE_SIZE, _FRAME_HEADER + PAGE_SIZE)
    return {int.from_bytes(log[at : at + 4], "big") for at in frames if log[at + 8 : at + 16] == salts}


def _read_log(path: str) -> bytes:
    try:
        return Path(path + "-wal").read_bytes()
    except OSError:
        return b""


class FilePages:
    """The pages of the file as they are on disk, the log left aside.

    They are read through SQLite's own descriptors: closing another one would drop the locks of this process.
    """

    def __init__(self, path: str) -> None:
        self._file = apsw.VFSFile("", path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
        self.count, self.rest = divmod(self._file.xFileSize(), PAGE_SIZE)

    def read(self, number: int) -> bytes:
        """The page of that number, from 1 on."""
        return self._file.xRead(PAGE_SIZE, (number - 1) * PAGE_SIZE)

    def everything(self) -> Iterator[bytes]:
        """The whole file, piece by piece."""
        for number in range(1, self.count + 1):
            yield self.read(number)
        if self.rest:
            yield self._file.xRead(self.rest, self.count * PAGE_SIZE)

    def close(self) -> None:
        """Let go of the file."""
        self._file.xClose()


class CopiedPages:
    """The pages of the store at one moment, the log included, in a temporary file without a name."""

    def __init__(self, connection: apsw.Connection) -> None:
        handle, name = tempfile.mkstemp(prefix="holdfast-")
        try:
            copy = apsw.Connection(name)
            try:
                # It has no name a moment later, and is gone with this process.
                fetch(copy, "PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF")
                with copy.backup("main", connection, "main") as backup:
                    # In one step: it is one moment.
                    backup.step(-1)
            finally:
                copy.close()
            self.count = os.fstat(handle).st_size // PAGE_SIZE
        except BaseException:
            os.close(handle)
            raise
        finally:
            Path(name).unlink(missing_ok=True)
        self._handle = handle

    def read(self, number: int) -> bytes:
        """The page of that number, from 1 on."""
        return os.pread(self._handle, PAGE_SIZE, (number - 1) * PAGE_SIZE)

    def close(self) -> None:
        """Let go of the copy, which is gone then."""
        os.close(self._handle)
