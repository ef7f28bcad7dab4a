"""The rows of a store as they lie in its tables, from SQLite where it can read them, else from the pages themselves.

`SqlTables` asks SQLite. `ImageTables` takes the file apart: the trees as far as they can be followed, then the pages
that no tree leads to any more, which is where the rows are whose way there was damaged. Neither judges a row.

SQLite leaves the bytes of a row where they were when it writes a longer one elsewhere, and a damaged page may lead to
them: the seal of such a row is right, and what it says is old. So where a row is found more than once, those of sound
pages come first, and those of one page in the order in which that page has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Final

import apsw

from holdfast.backends.chunk_codec import MAX_DEPTH, plain_of
from holdfast.backends.damage import (
    CHECKPOINT_IDS,
    CHECKPOINT_PLACES,
    SESSION_AGENTS,
    SESSION_IDS,
    SESSION_PROJECTS,
)
from holdfast.backends.rows import Row
from holdfast.backends.sqlite.chunks import read_chunks
from holdfast.backends.sqlite.pages import INDEX_INTERIOR, INDEX_LEAF, TABLE_LEAF, Cell, Image
from holdfast.errors import IntegrityError
from holdfast.storage.records import ChunkHash

_COLUMNS: Final = {
    "header": 3,
    "sessions": 10,
    "branches": 5,
    "checkpoints": 30,
    "tags": 2,
    "operations": 8,
    "counters": 2,
}
"""How many each table has; they come in the order of the schema."""
_ORDER: Final = {"sessions": "number", "checkpoints": "position", "operations": "session, number"}
_INDEXES: Final = {
    SESSION_IDS: ("sqlite_autoindex_sessions_1", "sessions", "id, number"),
    SESSION_AGENTS: ("sessions_by_agent", "sessions", "agent, number"),
    SESSION_PROJECTS: ("sessions_by_project", "sessions", "project, number"),
    CHECKPOINT_IDS: ("sqlite_autoindex_checkpoints_1", "checkpoints", "id, position"),
    CHECKPOINT_PLACES: ("sqlite_autoindex_checkpoints_2", "checkpoints", "session, seq, position"),
}
"""What SQLite calls each index, which table it is of, and its columns."""
_CHUNK_NAMES: Final = "sqlite_autoindex_chunks_1"
# Leases are no part of history, and not looked at; without rowids, they lie on pages like those of an index.
_OTHER_INDEXES: Final = (
    "checkpoints_by_key",
    "checkpoints_by_step",
    "checkpoints_by_time",
    "checkpoints_by_prev",
    "checkpoints_hidden",
    "sqlite_autoindex_operations_1",
    "leases",
)
# A row on a page that no tree leads to is told by its columns; its seal then says whether it is one.
_BY_ROWID: Final = {10: "sessions", 30: "checkpoints", 8: "operations", 9: "chunks"}
_BY_KEY: Final[dict[tuple[type, ...], str]] = {
    (str, str, int): "header",
    (int, str, bytes, int, int): "branches",
}
_ROWID_IN_ROW: Final = ("sessions", "checkpoints", "chunks")


class SqlTables:
    """The tables as SQLite sees them, through a connection that does not verify pages."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def rows(self, table: str) -> Iterator[Row]:
        """See `Tables.rows`."""
        order = f" ORDER BY {_ORDER[table]}" if table in _ORDER else ""
        # NOT INDEXED: what the table has is to be compared with what its indexes say.
        return self._each(f"SELECT * FROM {table} NOT INDEXED{order}")  # noqa: S608 - constants

    def entries(self, index: str) -> Iterator[Row]:
        """See `Tables.entries`."""
        name, table, columns = _INDEXES[index]
        first = columns.partition(",")[0]
        return self._each(
            f"SELECT {columns} FROM {table} INDEXED BY {name} WHERE {first} IS NOT NULL"  # noqa: S608 - constants
        )

    def chunk_names(self) -> Iterator[ChunkHash]:
        """See `Tables.chunk_names`."""
        return (ChunkHash(name) for (name,) in self._each("SELECT hash FROM chunks"))

    def chunks(self, names: Iterable[ChunkHash]) -> dict[ChunkHash, bytes]:
        """See `Tables.chunks`."""
        return _readable(names, self._chunk)

    def _chunk(self, name: ChunkHash) -> bytes | None:
        try:
            return read_chunks(self._connection, [name]).get(name)
        except (IntegrityError, apsw.Error):
            # Whatever it is, this chunk is not readable; the others may be.
            return None

    def chunk_row(self, name: ChunkHash) -> Row | None:
        """See `Tables.chunk_row`."""
        sql = "SELECT number, hash, codec, size_bytes, base, depth, epoch, refers, data FROM chunks WHERE hash = ?"
        found = self._connection.execute(sql, (name,)).fetchall()
        return found[0] if found else None

    def _each(self, sql: str) -> Iterator[Row]:
        with closing(self._connection.execute(sql)) as cursor:
            yield from cursor


class ImageTables:
    """The tables as they can be put together from the pages of a file.

    Args:
        image: The pages.
        suspects: Those that do not match their checksum: what kind of page such a one is may be wrong as well.
    """

    def __init__(self, image: Image, suspects: frozenset[int]) -> None:
        self._image = image
        self._suspects = suspects
        self._rows: dict[str, list[Row]] = {name: [] for name in _COLUMNS}
        self._doubted: dict[str, list[Row]] = {name: [] for name in _COLUMNS}
        # Where each chunk is, and not what is in it: all of them together may not fit into memory.
        self._places: dict[int, list[tuple[int, int]]] = {}
        self._numbers: dict[ChunkHash, int] = {}
        self._doubted_numbers: dict[ChunkHash, int] = {}
        self._roots: dict[str, int] = {}
        for cell in image.tree(1):
            if len(cell.values) == 5 and isinstance(cell.values[3], int):
                self._roots[str(cell.values[1])] = cell.values[3]
        for table in (*_COLUMNS, "chunks"):
            for cell in image.tree(self._roots.get(table, 0)):
                self._add(table, cell)
        self._named = {
            ChunkHash(cell.values[0]): cell.values[1]
            for cell in image.tree(self._roots.get(_CHUNK_NAMES, 0))
            if len(cell.values) == 2 and isinstance(cell.values[0], bytes)
        }
        for index in (*(name for name, _, _ in _INDEXES.values()), *_OTHER_INDEXES):
            # Walked so that their pages are not taken for lost ones.
            for _ in image.tree(self._roots.get(index, 0)):
                pass
        self._gather()
        for table, doubted in self._doubted.items():
            self._rows[table] += doubted
        for name, number in self._doubted_numbers.items():
            self._numbers.setdefault(name, number)
        for table, order in (("sessions", 0), ("checkpoints", 0), ("operations", 1)):
            self._rows[table].sort(key=lambda row, order=order: _sortable(row[order]))  # type: ignore[misc]

    def rows(self, table: str) -> Iterator[Row]:
        """See `Tables.rows`."""
        return iter(dict.fromkeys(self._rows[table]))

    def entries(self, index: str) -> Iterator[Row]:
        """See `Tables.entries`."""
        name, _, _ = _INDEXES[index]
        return (cell.values for cell in self._image.tree(self._roots.get(name, 0)))

    def chunk_names(self) -> Iterator[ChunkHash]:
        """See `Tables.chunk_names`."""
        return iter(self._numbers)

    def chunks(self, names: Iterable[ChunkHash]) -> dict[ChunkHash, bytes]:
        """See `Tables.chunks`."""
        return _readable(names, self._chunk)

    def _chunk(self, name: ChunkHash) -> bytes | None:
        row = self.chunk_row(name)
        if row is None:
            return None
        chain = [row]
        while chain[-1][4] is not None and len(chain) <= MAX_DEPTH + 1:
            below = self._by_number(chain[-1][4])
            if below is None:
                return None
            chain.append(below)
        try:
            return plain_of(name, [(number, *rest[:4], data) for number, _, *rest, _, _, data in chain])
        except (IntegrityError, TypeError):
            # TypeError: a column that came out as another type than was written.
            return None

    def chunk_row(self, name: ChunkHash) -> Row | None:
        """See `Tables.chunk_row`."""
        number = self._numbers.get(name)
        if number is None:
            # The name in the row may be what is damaged; the index has it too, and the hash says which is right.
            found = self._named.get(name)
            row = None if found is None else self._by_number(found)
            return None if row is None else (row[0], name, *row[2:])
        return self._by_number(number)

    def _by_number(self, number: int) -> Row | None:
        places = self._places.get(number)
        if places is None:
            return None
        # The first of those on sound pages, else the first there is.
        cell = self._image.cell(*min(places, key=lambda place: place[0] in self._suspects))
        return (cell.rowid, *cell.values[1:])

    def _add(self, table: str, cell: Cell) -> None:
        values = cell.values
        wanted = 9 if table == "chunks" else _COLUMNS[table]
        if len(values) != wanted:
            return
        if table in _ROWID_IN_ROW:
            values = (cell.rowid, *values[1:])
        doubted = cell.page in self._suspects
        if table != "chunks":
            (self._doubted if doubted else self._rows)[table].append(values)
        elif cell.rowid is not None and isinstance(values[1], bytes):
            (self._doubted_numbers if doubted else self._numbers).setdefault(ChunkHash(values[1]), cell.rowid)
            self._places.setdefault(cell.rowid, []).append((cell.page, cell.at))

    def _gather(self) -> None:
        """Take in what is on pages that no tree leads to, or that may be of another kind than they say."""
        image = self._image
        alone = [each for each in range(1, image.count + 1) if each not in image.reached]
        for number in {*alone, *self._suspects} - image.free:
            if number > image.count:
                continue
            for cell in image.cells(number, TABLE_LEAF):
                table = _BY_ROWID.get(len(cell.values))
                if table is not None:
                    self._add(table, cell)
            for kind in (INDEX_LEAF, INDEX_INTERIOR):
                for cell in image.cells(number, kind):
                    table = _BY_KEY.get(tuple(type(each) for each in cell.values))
                    if table is not None:
                        self._add(table, cell)


def _readable(
    names: Iterable[ChunkHash], read: Callable[[ChunkHash], bytes | None]
) -> dict[ChunkHash, bytes]:
    found = ((name, read(name)) for name in names)
    return {name: data for name, data in found if data is not None}


def _sortable(value: object) -> int:
    return value if isinstance(value, int) else 0
