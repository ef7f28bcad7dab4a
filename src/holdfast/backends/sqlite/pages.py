"""The pages of a SQLite file, read without SQLite: what is left of a file that SQLite cannot read any more.

SQLite stops at the first page that makes no sense. Here each page is taken for itself: cells that can be decoded come
out, the others are passed over, and nothing that comes out is trusted; rows have seals and chunks have hashes, and
whoever reads them checks those. The format of the file is that of https://sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from holdfast.backends.sqlite.connection import PAGE_SIZE, RESERVED_BYTES
from holdfast.record import Record

_USABLE: Final = PAGE_SIZE - RESERVED_BYTES
_TABLE_LOCAL: Final = _USABLE - 35
_INDEX_LOCAL: Final = (_USABLE - 12) * 64 // 255 - 23
_MIN_LOCAL: Final = (_USABLE - 12) * 32 // 255 - 23
_FILE_HEADER: Final = 100

INDEX_INTERIOR: Final = 2
TABLE_INTERIOR: Final = 5
INDEX_LEAF: Final = 10
TABLE_LEAF: Final = 13
_INTERIOR: Final = (INDEX_INTERIOR, TABLE_INTERIOR)
_KINDS: Final = (*_INTERIOR, INDEX_LEAF, TABLE_LEAF)

_MOST_HEADER: Final = 400
"""Bytes before the values of a row; the widest table of a store has 30 columns, which take one to nine bytes each."""

_MOST_CLAIMS: Final = 4
"""A page of a chain belongs to one row, and the rows of a page to different places of it. A damaged pointer or size may
lay another row over them, and the right one must still come out; but only so many times, because a file that was made
for it could otherwise give out each of its pages once for each of its rows."""

_INTEGER_BYTES: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_FLOAT: Final = 7
_FIRST_BLOB: Final = 12


class Cell(Record):
    """A row or an index entry, decoded."""

    rowid: int | None
    """None in an index."""
    values: tuple[Any, ...]
    page: int
    at: int


class Image:
    """All pages of a file at one moment.

    Args:
        read: Gives the page of a number, from 1 on.
        count: How many there are.
        suspects: Those that do not match their checksum.
    """

    def __init__(
        self, read: Callable[[int], bytes], count: int, suspects: frozenset[int] = frozenset()
    ) -> None:
        self._read = read
        self.count = count
        self.free = self._free_pages(frozenset())
        # A list that may be wrong could name pages that are in use: what a tree leads to is then believed instead.
        self._skipped = self._free_pages(suspects)
        self._claims: dict[int, set[tuple[int, int, int]]] = {}
        """What each page of a chain was read for: page and place of a row, and how often that came by before."""
        self.reached: set[int] = set()
        """The pages that belong to a tree that was walked."""

    def tree(self, root: int) -> Iterator[Cell]:
        """What can be read of a table or an index, from its root."""
        to_do = [root]
        seen: set[int] = set()
        while to_do:
            number = to_do.pop()
            # A damaged pointer may lead anywhere: in a circle, or to a page with what was removed.
            if number in seen or number in self._skipped or not 0 < number <= self.count:
                continue
            seen.add(number)
            self.reached.add(number)
            yield from self.cells(number)
            to_do += self._children(number)

    def cells(self, number: int, kind: int | None = None) -> Iterator[Cell]:
        """What can be read of one page, taken for one of that kind, or of the kind that it says."""
        page = self._read(number)
        start = _FILE_HEADER if number == 1 else 0
        kind = page[start] if kind is None else kind
        if kind not in _KINDS or kind == TABLE_INTERIOR:
            return
        room = _MOST_CLAIMS * PAGE_SIZE
        for at in dict.fromkeys(_pointers(page, start, kind)):
            try:
                cell = self.cell(number, at, kind)
            except (IndexError, ValueError, struct.error):
                # What this cell was is somebody else's to say: an index, or the rows that refer to it.
                continue
            yield cell
            room -= _size_on_page(page, at, kind)
            if room < 0:
                return

    def cell(self, number: int, at: int, kind: int = TABLE_LEAF) -> Cell:
        """The cell at one place of a page.

        Raises:
            ValueError: There is none.
        """
        page = self._read(number)
        size, rowid, place = _cell_header(page, at, kind)
        if size > self.count * PAGE_SIZE:
            raise ValueError("a row that is larger than the file")
        local = _local(size, kind)
        end = place + local + (4 if local < size else 0)
        if end > _USABLE:
            raise ValueError("a row that goes beyond its page")
        payload = page[place : place + local]
        if local < size:
            following = int.from_bytes(page[end - 4 : end], "big")
            payload += self._chain(following, size - local, (number, at))
        return Cell(rowid, _record(payload), number, at)

    def _chain(self, following: int, left: int, claimant: tuple[int, int]) -> bytes:
        """The rest of a row, on pages that lead from one to the next."""
        parts: list[bytes] = []
        # A damaged pointer may lead in a circle; what came before it is still right, and may say whose row it was.
        rounds: Counter[int] = Counter()
        while left > 0:
            if not 0 < following <= self.count:
                raise ValueError("a row that is cut off")
            claim = (*claimant, rounds[following])
            claims = self._claims.setdefault(following, set())
            if claim not in claims and len(claims) >= _MOST_CLAIMS:
                raise ValueError("a page of too many rows")
            claims.add(claim)
            rounds[following] += 1
            self.reached.add(following)
            more = self._read(following)
            parts.append(more[4 : 4 + min(left, _USABLE - 4)])
            left -= _USABLE - 4
            following = int.from_bytes(more[:4], "big")
        return b"".join(parts)

    def _children(self, number: int) -> list[int]:
        page = self._read(number)
        start = _FILE_HEADER if number == 1 else 0
        if page[start] not in _INTERIOR:
            return []
        places = [*_pointers(page, start, page[start]), start + 8]
        return [int.from_bytes(page[at : at + 4], "big") for at in places]

    def _free_pages(self, suspects: frozenset[int]) -> frozenset[int]:
        """The pages that hold nothing any more, but still the bytes of what was in them."""
        free: set[int] = set()
        if not self.count or 1 in suspects:
            return frozenset()
        trunk = int.from_bytes(self._read(1)[32:36], "big")
        while 1 < trunk <= self.count and trunk not in free and trunk not in suspects:
            page = self._read(trunk)
            free.add(trunk)
            count = min(int.from_bytes(page[4:8], "big"), _USABLE // 4 - 2)
            free.update(struct.unpack(f">{count}I", page[8 : 8 + 4 * count]))
            trunk = int.from_bytes(page[:4], "big")
        return frozenset(free)


def _pointers(page: bytes, start: int, kind: int) -> list[int]:
    """Where the cells of a page begin."""
    begin = start + (12 if kind in _INTERIOR else 8)
    count = min(int.from_bytes(page[start + 3 : start + 5], "big"), (_USABLE - begin) // 2)
    return [
        at for at in struct.unpack(f">{count}H", page[begin : begin + 2 * count]) if begin <= at < _USABLE
    ]


def _cell_header(page: bytes, at: int, kind: int) -> tuple[int, int | None, int]:
    """How many bytes the row of a cell takes, its rowid in a table, and where it begins."""
    size, place = _varint(page, at + 4 if kind == INDEX_INTERIOR else at)
    if kind != TABLE_LEAF:
        return size, None, place
    rowid, place = _varint(page, place)
    # As SQLite does, a rowid is signed.
    return size, rowid - (1 << 64) if rowid >> 63 else rowid, place


def _local(size: int, kind: int) -> int:
    """How much of a row is on its page; the rest is on others."""
    most = _TABLE_LOCAL if kind == TABLE_LEAF else _INDEX_LOCAL
    if size <= most:
        return size
    local = _MIN_LOCAL + (size - _MIN_LOCAL) % (_USABLE - 4)
    return local if local <= most else _MIN_LOCAL


def _size_on_page(page: bytes, at: int, kind: int) -> int:
    return _local(_cell_header(page, at, kind)[0], kind)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = data[at]
    at += 1
    # Nearly all are one byte long, and a rescue reads millions of them.
    if value < 0x80:
        return value, at
    value &= 0x7F
    for _ in range(7):
        byte = data[at]
        at += 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at
    return value << 8 | data[at], at + 1


def _record(payload: bytes) -> tuple[Any, ...]:
    header, at = _varint(payload, 0)
    if header > min(len(payload), _MOST_HEADER):
        raise ValueError("more columns than any table has")
    kinds: list[int] = []
    while at < header:
        kind = payload[at]
        if kind < 0x80:
            at += 1
        else:
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
