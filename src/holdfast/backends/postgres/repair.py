"""Damage: the rows of a store as they lie in its tables, and a new store from what is whole of them.

The server answers for its pages and its indexes. What can be wrong are the rows themselves: a column that somebody
changed, a chunk that came back other than it was written, a sequence that was set back. `backends/inspection.py` judges
them; here they are read, a page at a time by their keys, all in one transaction.

A repair copies what is whole into a schema of its own, as any copy does, and then the two schemas change names in one
transaction: whoever dies at any point leaves the old store or the new one. Writers are kept out by their lock, and
readers by the lock on the tables: a transaction that began before could otherwise find the new tables under the old
names, with nothing in them from its own moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from typing import Final

import psycopg
from psycopg import sql

from holdfast.backends.damage import CHECKPOINT_IDS, CHECKPOINT_PLACES, SESSION_IDS, RowInspection
from holdfast.backends.header import HEADER_KEYS, sealed
from holdfast.backends.postgres.chunks import read_chunks
from holdfast.backends.postgres.connection import Connection
from holdfast.backends.postgres.create import VERSION_KEY, check_version
from holdfast.backends.postgres.errors import permission_denied
from holdfast.backends.postgres.extension import read_tables
from holdfast.backends.postgres.locks import TABLES, alone
from holdfast.backends.postgres.reader import NEWEST_POSITION, begin, check_checkpoint, end
from holdfast.backends.rows import Row
from holdfast.errors import IntegrityError
from holdfast.objects.hashing import hash_chunk
from holdfast.storage.copy_rows import Adoption
from holdfast.storage.inspection import Flaw, Rebuilt
from holdfast.storage.ports import Backend, Inspection
from holdfast.storage.records import Chunk, ChunkHash
from holdfast.storage.tables import CATALOGUE

_PAGE: Final = 500
_MOST_BYTES: Final = 8 << 20
"""Of chunks, that are copied at once."""

_KEYS: Final = {
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
# A chunk comes after the one that it stood on, so that it may stand on it again.
_CHUNKS: Final = (
    "SELECT c.hash, b.hash FROM chunks AS c LEFT JOIN chunks AS b ON b.number = c.base ORDER BY c.number"
)
_LEASE_EPOCH: Final = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM lease_epochs"
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
        yield _inspection(connection)
    finally:
        end(connection)


def rebuild_store(
    connection: Connection,
    schema: str,
    url: str,
    plan: Callable[[Inspection], Rebuilt | None],
    make: Callable[[str], Backend],
) -> str | None:
    """Put what `plan` makes of a store in its place; see `Backend.rebuild`.

    Args:
        connection: Used by nobody else.
        schema: The schema of the store.
        url: The name of the store, for errors.
        plan: What to make of it.
        make: Makes a store in a schema of another name.

    Returns:
        The name of the schema in which the old tables are now.

    Raises:
        BackendError: The role may not make a schema (`permission-denied`), or somebody reads the store for longer than
            we may wait (`store-locked`). Nothing has changed then.
    """
    ((may_create,),) = connection.execute(
        "SELECT has_database_privilege(current_database(), 'CREATE')"
    ).fetchall()
    if not may_create:
        raise permission_denied(
            url, "a repair makes a second schema, and the role may not CREATE in the database"
        )
    stamp = datetime.now(UTC).strftime("%Y%m%dt%H%M%S_%f")
    aside, made = f"{schema}_damaged_{stamp}", f"{schema}_rebuilt_{stamp}"
    there = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'"
    ).fetchall()
    try:
        with alone(connection, schema, tables=[table for table in TABLES if (table,) in there]):
            check_version(connection, url)
            # What comes out of a repair has to last, whatever saves were asked to.
            connection.execute("SET LOCAL synchronous_commit = on")
            seen = _inspection(connection)
            wanted = plan(seen)
            if wanted is None:
                return None
            with closing(make(made)) as target:
                _copy(connection, target, seen, wanted)
            _go_on_counting(connection, made, seen)
            if (CATALOGUE,) in there:
                _move_extensions(connection, made)
            rename = sql.SQL("ALTER SCHEMA {} RENAME TO {}")
            for old, new in ((schema, aside), (made, schema)):
                connection.execute(rename.format(sql.Identifier(old), sql.Identifier(new)))
    except BaseException:
        with suppress(psycopg.Error):
            connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(made)))
        raise
    return aside


def _copy(connection: Connection, target: Backend, seen: RowInspection, wanted: Rebuilt) -> None:
    """Copy sessions and chunks. Rows keep what the store once gave them: seq, position and times."""
    if not wanted.sessions:
        return
    first, *_ = wanted.sessions
    known = None
    for chunks in _chunk_batches(connection, seen, wanted):
        # What came ahead of its row is there before the row is.
        target.adopt(Adoption(first, known, chunks=chunks, whole=None))
        known = first
    for session in wanted.sessions:
        rows = [row for row in wanted.checkpoints if row.session == session.id]
        for start in range(0, len(rows), _PAGE):
            page = tuple(rows[start : start + _PAGE])
            target.adopt(Adoption(session, known, checkpoints=page, whole=None))
            known = session
        target.adopt(
            Adoption(
                session,
                known,
                branches=tuple(each for each in wanted.branches if each.session == session.id),
                operations=tuple(each for each in wanted.operations if each.session == session.id),
                whole=None,
            )
        )
        known = None


def _chunk_batches(
    connection: Connection, seen: RowInspection, wanted: Rebuilt
) -> Iterator[tuple[Chunk, ...]]:
    batch: list[Chunk] = []
    size = 0
    for name, base in connection.execute(_CHUNKS, binary=True).fetchall():
        if name not in wanted.chunks:
            continue
        data = seen.chunks([name])[name]
        if hash_chunk(data) != name:
            raise IntegrityError.chunk_damaged(name, why="its bytes do not have this hash")
        batch.append(Chunk(name, data, base if base in wanted.chunks else None))
        size += len(data)
        if size >= _MOST_BYTES:
            yield tuple(batch)
            batch, size = [], 0
    yield tuple(batch)


def _go_on_counting(connection: Connection, made: str, seen: RowInspection) -> None:
    """It is the same store: its header, and numbers that were given are not given again."""
    kept = {key: value for key, value in seen.header().items() if key != VERSION_KEY}
    upsert = sql.SQL("UPDATE {} SET value = %s, seal = %s WHERE key = %s").format(
        sql.Identifier(made, "header")
    )
    connection.cursor().executemany(upsert, [(*sealed(*entry)[1:], entry[0]) for entry in kept.items()])
    ((lease,),) = connection.execute(_LEASE_EPOCH).fetchall()
    for sequence, newest in (("positions", seen.newest_position()), ("lease_epochs", lease)):
        if newest:
            # A new sequence begins at 1, and cannot be set to 0.
            connection.execute("SELECT setval(%s::regclass, %s)", [f"{made}.{sequence}", newest])


def _move_extensions(connection: Connection, made: str) -> None:
    """Bring the extension tables along as they are: the server answers for their pages, and nothing refers to ours."""
    copied = sql.SQL("INSERT INTO {} SELECT * FROM {}")
    connection.execute(copied.format(sql.Identifier(made, CATALOGUE), sql.Identifier(CATALOGUE)))
    for name in read_tables(connection):
        moved = sql.SQL("ALTER TABLE {} SET SCHEMA {}")
        connection.execute(moved.format(sql.Identifier(name), sql.Identifier(made)))


def _inspection(connection: Connection) -> RowInspection:
    """What is found through a connection that is inside a transaction."""
    return RowInspection(
        PostgresTables(connection),
        _sequence_flaws(connection),
        header_keys=HEADER_KEYS | {VERSION_KEY},
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
            for name, statement in (("position", NEWEST_POSITION), ("lease", _LEASE_EPOCH)):
                ((value,),) = self._connection.execute(statement.encode()).fetchall()
                yield name, value

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
            # A savepoint: a part that the server itself cannot read ends the transaction otherwise.
            with self._connection.transaction():
                return read_chunks(self._connection, wanted)
        except (IntegrityError, psycopg.InternalError, psycopg.DataError):
            if len(wanted) == 1:
                return {}
        # One of them is not readable; the others may be.
        return {name: data for each in wanted for name, data in self.chunks([each]).items()}

    def chunk_row(self, name: ChunkHash) -> Row | None:
        """See `Tables.chunk_row`."""
        return self._connection.execute(_CHUNK_ROW, [name], binary=True).fetchone()

    def _each(self, table: str, columns: str) -> Iterator[Row]:
        keys = _KEYS[table]
        names = ", ".join(keys)
        after: Row | None = None
        while True:
            where = "" if after is None else f" WHERE ({names}) > ({', '.join(['%s'] * len(keys))})"
            text = f"SELECT {columns} FROM {table}{where} ORDER BY {names} LIMIT {_PAGE}"  # noqa: S608 - constants
            found: list[Row] = self._connection.execute(text, after, binary=True).fetchall()
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
