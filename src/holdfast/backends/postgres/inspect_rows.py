"""The rows of a store as they lie in its tables, for looking at damage; `backends/inspection.py` judges them.

The server answers for its pages and its indexes, so that there is one source of rows. What can be wrong are the rows
themselves: a column that somebody changed, a chunk that came back other than it was written, a sequence that was set
back. Tables are read a page at a time by their keys, all in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from holdfast.backends.damage import CHECKPOINT_IDS, CHECKPOINT_PLACES, SESSION_IDS, RowInspection
from holdfast.backends.header import HEADER_KEYS
from holdfast.backends.postgres.chunks import read_chunks
from holdfast.backends.postgres.connection import Connection
from holdfast.backends.postgres.reader import NEWEST_POSITION, begin, check_checkpoint, end
from holdfast.backends.rows import Row
from holdfast.errors import IntegrityError
from holdfast.storage.inspection import Flaw
from holdfast.storage.records import ChunkHash

_PAGE: Final = 500

KEYS: Final = {
    "header": ("key",),
    "sessions": ("number",),
    "branches": ("session", "name"),
    "checkpoints": ("position",),
    "tags": ("tag", "position"),
    "operations": ("session", "number"),
    "leases": ("name",),
    "counters": ("name",),
    "chunks": ("number",),
}
"""The key of each table, which is also the first columns of its rows."""

# What is unique is known to the row itself. Who a session belongs to is not: with its row in doubt, nobody can say.
_ENTRIES: Final = {
    SESSION_IDS: ("sessions", "number, id"),
    CHECKPOINT_IDS: ("checkpoints", "position, id"),
    CHECKPOINT_PLACES: ("checkpoints", "position, seq, session"),
}
_CHUNK_ROW: Final = (
    "SELECT number, hash, codec, size_bytes, base, depth, epoch, refers, data FROM chunks WHERE hash = %s"
)
# Without naming it in the statement: a store from before there were leases has none. Null before the first claim.
_LEASE_EPOCH: Final = (
    "SELECT coalesce(last_value, 0) FROM pg_sequences "
    "WHERE schemaname = current_schema() AND sequencename = 'lease_epochs'"
)
# Each sequence, what it numbers, and what it is called where something is wrong with it.
_SEQUENCES: Final = (
    ("positions", "checkpoints", "position"),
    ("session_numbers", "sessions", "number"),
    ("chunk_numbers", "chunks", "number"),
)


@contextmanager
def inspected(connection: Connection, url: str) -> Iterator[RowInspection]:
    """Look at a store through a connection that nobody else uses."""
    begin(connection, url)
    try:
        yield inspection(connection)
    finally:
        end(connection)


def inspection(connection: Connection) -> RowInspection:
    """What is found through a connection that is inside a transaction."""
    return RowInspection(
        PostgresTables(connection),
        _sequence_flaws(connection),
        header_keys=HEADER_KEYS | {"version"},
        check=check_checkpoint,
    )


class PostgresTables:
    """The tables as the server has them, at one moment."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rows(self, table: str) -> Iterator[Row]:
        """See `Tables.rows`."""
        yield from self._each(table, "*")
        if table == "counters":
            # What SQLite has to keep for itself, sequences remember.
            ((position,),) = self._connection.execute(NEWEST_POSITION).fetchall()
            yield "position", position
            for (epoch,) in self._connection.execute(_LEASE_EPOCH).fetchall():
                yield "lease", epoch

    def entries(self, index: str) -> Iterator[Row]:
        """See `Tables.entries`."""
        if index in _ENTRIES:
            for row in self._each(*_ENTRIES[index]):
                yield row[::-1]

    def chunk_names(self) -> Iterator[ChunkHash]:
        """See `Tables.chunk_names`."""
        return (ChunkHash(name) for _, name in self._each("chunks", "number, hash"))

    def chunks(self, names: Iterable[ChunkHash]) -> dict[ChunkHash, bytes]:
        """See `Tables.chunks`."""
        wanted = list(names)
        if not wanted:
            return {}
        try:
            return self._chunks(wanted)
        except (IntegrityError, psycopg.InternalError, psycopg.DataError):
            if len(wanted) == 1:
                return {}
        # One of them is not readable; the others may be.
        return {name: data for each in wanted for name, data in self.chunks([each]).items()}

    def chunk_row(self, name: ChunkHash) -> Row | None:
        """See `Tables.chunk_row`."""
        return self._connection.execute(_CHUNK_ROW, [name], binary=True).fetchone()

    def _chunks(self, names: list[ChunkHash]) -> dict[ChunkHash, bytes]:
        # A savepoint: a part that the server itself cannot read ends the transaction otherwise, and with it the moment.
        with self._connection.transaction():
            return read_chunks(self._connection, names)

    def _each(self, table: str, columns: str) -> Iterator[Row]:
        keys = KEYS[table]
        names = ", ".join(keys)
        after: Row | None = None
        while True:
            where = "" if after is None else f" WHERE ({names}) > ({', '.join(['%s'] * len(keys))})"
            sql = f"SELECT {columns} FROM {table}{where} ORDER BY {names} LIMIT {_PAGE}"  # noqa: S608 - constants
            found: list[Row] = self._connection.execute(sql, after, binary=True).fetchall()
            yield from found
            if len(found) < _PAGE:
                return
            after = found[-1][: len(keys)]


def _sequence_flaws(connection: Connection) -> list[Flaw]:
    """The sequences that would give a number which is taken."""
    flaws = []
    for sequence, table, column in _SEQUENCES:
        ((is_behind,),) = connection.execute(
            f"SELECT (SELECT max({column}) FROM {table}) > CASE WHEN is_called THEN last_value ELSE 0 END "  # noqa: S608 - constants
            f"FROM {sequence}"
        ).fetchall()
        if is_behind:
            flaws.append(Flaw("counter", f"sequence {sequence!r}", f"it is behind the rows of {table}"))
    return flaws
