"""Where the pages of a store are read from when SQLite is not to judge them: the file itself, or a copy of one moment.

The file is what lies on the disk, so that is where checksums are checked. The copy has what the write-ahead log has
too, and is what rows are read from; pages that come from the log have no checksum in it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw

from holdfast.backends.sqlite.connection import PAGE_SIZE, fetch
from holdfast.storage.inspection import Flaw

_LOOKS: Final = 5
"""A page that is being written looks damaged for a moment; one that is damaged looks so each time."""
_PAUSE: Final = 0.02
_FRAME_HEADER: Final = 24
_WAL_HEADER: Final = 32


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


def log_size(path: str) -> int:
    """How much is in the write-ahead log."""
    try:
        return os.stat(path + "-wal").st_size  # noqa: PTH116 - SQLite's own names, as text
    except OSError:
        return 0


def _in_log(path: str) -> set[int]:
    """The pages that the write-ahead log has: what the file says of them is not read by anybody."""
    try:
        log = Path(path + "-wal").read_bytes()
    except OSError:
        return set()
    salts = log[16:24]
    frames = range(_WAL_HEADER, len(log) - PAGE_SIZE, _FRAME_HEADER + PAGE_SIZE)
    return {int.from_bytes(log[at : at + 4], "big") for at in frames if log[at + 8 : at + 16] == salts}


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
