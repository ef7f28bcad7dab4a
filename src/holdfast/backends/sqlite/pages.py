"""Rows found on the pages of a SQLite file, without SQLite: what is left of a file that it cannot read any more.

SQLite stops at the first page that makes no sense. Here every page that may hold rows of a table is taken for itself,
whatever leads to it: cells that can be decoded come out, the others are passed over. Nothing that comes out is trusted:
rows have seals and chunks have hashes, and whoever reads them checks those. The format of the file is that of
https://sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import apsw

from holdfast.backends.sqlite.connection import PAGE_SIZE, RESERVED_BYTES, fetch
from holdfast.record import Record

_USABLE: Final = PAGE_SIZE - RESERVED_BYTES
_MOST_LOCAL: Final = _USABLE - 35
_MIN_LOCAL: Final = (_USABLE - 12) * 32 // 255 - 23
_FILE_HEADER: Final = 100
_INTERIOR: Final = 5
_LEAF: Final = 13
_MOST_FREE: Final = _USABLE // 4 - 2
"""How many free pages one page of the free list names."""

_MOST_HEADER: Final = 400
"""Bytes before the values of a row; the widest table of a store has 30 columns, which take one to nine bytes each."""

_MOST_CLAIMS: Final = 4
"""An overflow page belongs to one row, and the rows of a page to different parts of it. A damaged pointer or size may
lay another row over them, and the right one must still come out; but only so many times, because a hostile file could
otherwise give out each of its pages once for each of its rows."""

_INTEGER_BYTES: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_FLOAT: Final = 7
_FIRST_BLOB: Final = 12


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


def copied_pages(connection: apsw.Connection) -> FilePages:
    """The pages of the store at one moment, the log included, in a temporary file without a name."""
    handle, name = tempfile.mkstemp(prefix="holdfast-")
    os.close(handle)
    try:
        with closing(apsw.Connection(name)) as copy:
            # It has no name a moment later, and is gone with this process.
            fetch(copy, "PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF")
            with copy.backup("main", connection, "main") as backup:
                # In one step: it is one moment.
                backup.step(-1)
        return FilePages(name)
    finally:
        Path(name).unlink(missing_ok=True)


class Cell(Record):
    """A row of a table, decoded."""

    rowid: int
    values: tuple[Any, ...]
    page: int
    at: int


class TablePages:
    """The rows of all tables on the pages of a file.

    Args:
        read: Gives the page of a number, from 1 on.
        count: How many there are.
        suspects: Those that do not match their checksum: what kind of page such a one is may be wrong as well.
    """

    def __init__(
        self, read: Callable[[int], bytes], count: int, suspects: frozenset[int] = frozenset()
    ) -> None:
        self._read = read
        self._count = count
        self._suspects = suspects
        self._claims: dict[int, set[tuple[int, int]]] = {}
        """The rows that each overflow page was read for, by their page and place."""
        self.free = self._free_pages()

    def rows(self) -> Iterator[Cell]:
        """What can be read: rows of sound pages first, because a damaged one may lead to old versions of a row."""
        numbers = [each for each in range(1, self._count + 1) if each not in self.free]
        for number in sorted(numbers, key=self._suspects.__contains__):
            if number in self._suspects or self._kind(number) == _LEAF:
                yield from self.cells(number)

    def cells(self, number: int) -> Iterator[Cell]:
        """What can be read of one page, taken for a leaf of a table."""
        page = self._read(number)
        # Rows that lie on each other come out no more often than a page holds them a few times over.
        room = _MOST_CLAIMS * PAGE_SIZE
        for at in dict.fromkeys(_pointers(page, _start(number), 8)):
            try:
                room -= _local(_varint(page, at)[0])
                if room < 0:
                    return
                cell = self.cell(number, at)
            except (IndexError, ValueError, struct.error):
                # Which row this was is for others to say: an index, or the rows that refer to it.
                continue
            yield cell

    def cell(self, number: int, at: int) -> Cell:
        """The row at one place of a page.

        Raises:
            ValueError: There is none.
        """
        page = self._read(number)
        size, place = _varint(page, at)
        rowid, place = _varint(page, place)
        if size > self._count * PAGE_SIZE:
            raise ValueError("a row that is larger than the file")
        local = _local(size)
        end = place + local + (4 if local < size else 0)
        if end > _USABLE:
            raise ValueError("a row that goes beyond its page")
        payload = page[place : place + local]
        if local < size:
            payload += self._overflow(int.from_bytes(page[end - 4 : end], "big"), size - local, (number, at))
        # As SQLite does, a rowid is signed.
        return Cell(rowid - (1 << 64) if rowid >> 63 else rowid, _record(payload), number, at)

    def _overflow(self, following: int, left: int, claimant: tuple[int, int]) -> bytes:
        """The rest of a row, on pages that lead from one to the next."""
        parts: list[bytes] = []
        seen: set[int] = set()
        while left > 0:
            if not 0 < following <= self._count or following in seen:
                raise ValueError("a row that is cut off, or goes round in a circle")
            seen.add(following)
            claims = self._claims.setdefault(following, set())
            if claimant not in claims and len(claims) >= _MOST_CLAIMS:
                raise ValueError("a page of too many rows")
            claims.add(claimant)
            more = self._read(following)
            parts.append(more[4 : 4 + min(left, _USABLE - 4)])
            left -= _USABLE - 4
            following = int.from_bytes(more[:4], "big")
        return b"".join(parts)

    def _free_pages(self) -> frozenset[int]:
        """The pages that hold nothing any more, but still the bytes of what was in them."""
        free: set[int] = set()
        doubted: set[int] = set()
        trunk = int.from_bytes(self._read(1)[32:36], "big") if self._count else 0
        while 1 < trunk <= self._count and trunk not in free:
            page = self._read(trunk)
            following, count = struct.unpack(">2I", page[:8])
            names = struct.unpack(f">{count}I", page[8 : 8 + 4 * count]) if count <= _MOST_FREE else (0,)
            if following > self._count or any(not 1 < each <= self._count for each in names):
                # It is no page of the list, whatever led here.
                break
            free.update((trunk, *names))
            if trunk in self._suspects:
                doubted.update(names)
            trunk = following
        # A damaged list may name pages that are in use: what leads to them is believed instead.
        return frozenset(free - self._used() if doubted or 1 in self._suspects else free)

    def _used(self) -> set[int]:
        """The pages that something leads to: the list of tables, or an inner page of one."""
        used = {cell.values[3] for cell in self.cells(1) if len(cell.values) == 5}
        for number in range(1, self._count + 1):
            if self._kind(number) == _INTERIOR and number not in self._suspects:
                page, start = self._read(number), _start(number)
                places = [*_pointers(page, start, 12), start + 8]
                used.update(int.from_bytes(page[at : at + 4], "big") for at in places)
        return used

    def _kind(self, number: int) -> int:
        return self._read(number)[_start(number)]


def _start(number: int) -> int:
    return _FILE_HEADER if number == 1 else 0


def _pointers(page: bytes, start: int, header: int) -> list[int]:
    """Where the cells of a page begin."""
    begin = start + header
    count = min(int.from_bytes(page[start + 3 : start + 5], "big"), (_USABLE - begin) // 2)
    places = struct.unpack(f">{count}H", page[begin : begin + 2 * count])
    return [at for at in places if begin <= at < _USABLE]


def _local(size: int) -> int:
    """How much of a row is on its page; the rest is on others."""
    if size <= _MOST_LOCAL:
        return size
    local = _MIN_LOCAL + (size - _MIN_LOCAL) % (_USABLE - 4)
    return local if local <= _MOST_LOCAL else _MIN_LOCAL


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(at, at + 8):
        byte = data[place]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + 1
    return value << 8 | data[at + 8], at + 9


def _record(payload: bytes) -> tuple[Any, ...]:
    header, at = _varint(payload, 0)
    if header > min(len(payload), _MOST_HEADER):
        raise ValueError("more columns than any table has")
    kinds: list[int] = []
    while at < header:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values: list[Any] = []
    for kind in kinds:
        value, at = _value(payload, at, kind)
        values.append(value)
    if at > len(payload):
        raise ValueError("a row that is cut off")
    return tuple(values)


def _value(payload: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind >= _FIRST_BLOB:
        end = at + (kind - _FIRST_BLOB) // 2
        if end > len(payload):
            raise ValueError("a value that is cut off")
        # UnicodeDecodeError is a ValueError.
        return (payload[at:end].decode() if kind % 2 else payload[at:end]), end
    if kind in _INTEGER_BYTES:
        end = at + _INTEGER_BYTES[kind]
        return int.from_bytes(payload[at:end], "big", signed=True), end
    if kind == _FLOAT:
        return struct.unpack(">d", payload[at : at + 8])[0], at + 8
    if kind in (8, 9):
        return kind - 8, at
    if kind:
        raise ValueError(f"a value of kind {kind}")
    return None, at
