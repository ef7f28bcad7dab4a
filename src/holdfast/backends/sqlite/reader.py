"""The reader: questions about one moment of the store, answered in one read transaction.

In WAL mode a read transaction sees the file as it was at its first read, whoever writes meanwhile.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from types import TracebackType
from typing import Final

import apsw

from holdfast.backends import query as queries
from holdfast.backends import rows
from holdfast.backends.query import metadata_matches, normalized
from holdfast.backends.rows import Row
from holdfast.backends.sqlite.chunks import present_among, read_chunks
from holdfast.backends.sqlite.connection import Connections, fetch, roll_back, waiting
from holdfast.backends.sqlite.create import read_header
from holdfast.backends.sqlite.errors import DRIVER_ERRORS, translate, translated
from holdfast.backends.sqlite.extension import count_rows, read_rows, read_tables
from holdfast.backends.sqlite.lease import read_lease
from holdfast.errors import BackendError, ErrorCode, IntegrityError, StateError
from holdfast.storage.copy_rows import Adopted, adoption_mark
from holdfast.storage.leases import Lease
from holdfast.storage.records import (
    BranchRow,
    CheckpointId,
    CheckpointRow,
    ChunkHash,
    Operation,
    Query,
    SessionRow,
    StoreStats,
)
from holdfast.storage.tables import Row as TableRow
from holdfast.storage.tables import RowQuery, Table

# SQLite has no statistics to choose by. CROSS JOIN is how one tells it to take the tables in this order.
_DIALECT: Final = queries.Dialect(
    placeholder="?",
    by_tag=(
        "tags AS t CROSS JOIN checkpoints AS c ON c.position = t.position "
        "CROSS JOIN sessions AS s ON s.number = c.session"
    ),
    by_session="sessions AS s CROSS JOIN checkpoints AS c ON c.session = s.number",
    newest="checkpoints AS c CROSS JOIN sessions AS s ON s.number = c.session",
    few_of_each=(
        "sessions AS s CROSS JOIN checkpoints AS c ON c.position IN ("
        "SELECT c.position FROM checkpoints AS c WHERE c.session = s.number{conditions} "
        "ORDER BY {order} {direction} LIMIT ?)"
    ),
    # GLOB is exact about upper and lower case, unlike LIKE.
    auto="""(c."trigger" = ? OR c."trigger" GLOB 'auto:*')""",
    always_few=False,
)

# A position is never given twice: what was removed from the end is remembered in the counter.
NEWEST_POSITION = (
    "SELECT max((SELECT coalesce(max(position), 0) FROM checkpoints), "
    "(SELECT value FROM counters WHERE name = 'position'))"
)
# Questions inside of questions, where a join would say the same: SQLite prepares them in half the time, and a program
# that loads one state asks each of them once.
SELECT_CHECKPOINT = (
    "SELECT (SELECT id FROM sessions WHERE number = c.session), c.* FROM checkpoints AS c WHERE c.id = ?"
)
SELECT_SESSION = f"SELECT {rows.SESSION_FIELDS} FROM sessions WHERE id = ?"  # noqa: S608 - constants

_SELECT_SESSIONS = {
    (by_agent, by_project): f"SELECT {rows.SESSION_FIELDS} FROM sessions"  # noqa: S608 - constants
    + (" WHERE " if by_agent or by_project else "")
    + " AND ".join(["agent = ?"] * by_agent + ["project = ?"] * by_project)
    + " ORDER BY number"
    for by_agent in (False, True)
    for by_project in (False, True)
}
_SELECT_BRANCHES_OF = (
    "SELECT name, head, moved_at, seal FROM branches "
    "WHERE session = (SELECT number FROM sessions WHERE id = ?)"
)
_SELECT_BRANCH = f"{_SELECT_BRANCHES_OF} AND name = ?"
_SELECT_BRANCHES = f"{_SELECT_BRANCHES_OF} ORDER BY name"
_SELECT_OPERATIONS = (
    "SELECT o.number, o.kind, o.at, o.data, o.previous, o.hash, o.seal FROM operations AS o "
    "JOIN sessions AS s ON s.number = o.session WHERE s.id = ? AND o.number > ? ORDER BY o.number"
)
_SELECT_STATS = (
    "SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM branches), (SELECT count(*) FROM checkpoints), "
    "(SELECT count(*) FROM checkpoints WHERE hidden != 0), count(*), total(size_bytes), total(length(data)) FROM chunks"
)


def find_checkpoint(connection: apsw.Connection, checkpoint: CheckpointId) -> CheckpointRow | None:
    """One checkpoint by its id, checked; inside `translated`."""
    for row in fetch(connection, SELECT_CHECKPOINT, (checkpoint,)):
        rows.check_checkpoint(row)
        return rows.checkpoint_from(row)
    return None


class SqliteReader:
    """A `Reader` over a connection that is inside a read transaction."""

    def __init__(self, connection: apsw.Connection, path: str) -> None:
        self._connection: apsw.Connection | None = connection
        self._path = path

    def leave(self) -> apsw.Connection:
        """End the use of the connection, which goes to somebody else."""
        connection, self._connection = self._open(), None
        return connection

    def _open(self) -> apsw.Connection:
        if self._connection is None:
            raise StateError(
                f"this view of the store {self._path} has ended",
                code=ErrorCode.STORE_CLOSED,
                hint="ask inside of the `with backend.reader()` block",
                path=self._path,
            )
        return self._connection

    def _all(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        try:
            return self._open().execute(sql, parameters).fetchall()
        except DRIVER_ERRORS as error:
            raise translate(error, self._path) from error

    def lease(self, name: str) -> Lease | None:
        """See `Backend.lease`."""
        with translated(self._path):
            return read_lease(self._open(), name)

    def check_header(self) -> None:
        """Raise where the header of the store is damaged, or names something that this version does not know."""
        with translated(self._path):
            read_header(self._open(), self._path)

    def session(self, session: str) -> SessionRow | None:
        """See `Reader.session`."""
        found = self._all(SELECT_SESSION, (session,))
        return rows.session_from(found[0]) if found else None

    def sessions(self, *, agent: str | None = None, project: str | None = None) -> Sequence[SessionRow]:
        """See `Reader.sessions`."""
        wanted = tuple(each for each in (agent, project) if each is not None)
        sql = _SELECT_SESSIONS[agent is not None, project is not None]
        return [rows.session_from(row) for row in self._all(sql, wanted)]

    def branch(self, session: str, name: str) -> BranchRow | None:
        """See `Reader.branch`."""
        found = self._all(_SELECT_BRANCH, (session, name))
        return rows.branch_from(session, found[0]) if found else None

    def branches(self, session: str) -> Sequence[BranchRow]:
        """See `Reader.branches`."""
        return [rows.branch_from(session, row) for row in self._all(_SELECT_BRANCHES, (session,))]

    def checkpoint(self, checkpoint: CheckpointId) -> CheckpointRow | None:
        """See `Reader.checkpoint`."""
        for row in self._all(SELECT_CHECKPOINT, (checkpoint,)):
            rows.check_checkpoint(row)
            return rows.checkpoint_from(row)
        return None

    def checkpoints(self, query: Query) -> Sequence[CheckpointRow]:
        """See `Reader.checkpoints`."""
        sql, parameters = queries.to_sql(query, _DIALECT)
        conditions = normalized(query.metadata)
        limit = math.inf if query.limit is None else query.limit
        found: list[CheckpointRow] = []
        # A statement that is left in the middle would hold the view open beyond its transaction.
        with translated(self._path), closing(self._open().execute(sql, parameters)) as cursor:
            for row in cursor:
                if len(found) >= limit:
                    break
                rows.check_checkpoint(row)
                if metadata_matches(row[rows.METADATA_FIELD], row[rows.ADDED_FIELD], conditions):
                    found.append(rows.checkpoint_from(row))
        return found

    def operations(self, session: str, *, after: int = 0) -> Sequence[Operation]:
        """See `Reader.operations`."""
        return [rows.operation_from(session, row) for row in self._all(_SELECT_OPERATIONS, (session, after))]

    def chunks(self, hashes: Iterable[ChunkHash]) -> Mapping[ChunkHash, bytes]:
        """See `Reader.chunks`."""
        try:
            return read_chunks(self._open(), hashes)
        except DRIVER_ERRORS as error:
            raise translate(error, self._path) from error

    def present(self, hashes: Iterable[ChunkHash]) -> set[ChunkHash]:
        """Those of the chunks that are there."""
        with translated(self._path):
            return present_among(self._open(), hashes)

    def adopted(self, session: SessionRow) -> Adopted | None:
        """See `Reader.adopted`."""
        marks = self._all("SELECT adopted FROM sessions WHERE id = ?", (session.id,))
        kinds: tuple[Adopted, ...] = ("whole", "partial")
        return next((each for each in kinds if marks and marks[0][0] == adoption_mark(session, each)), None)

    def tables(self) -> Sequence[Table]:
        """See `Reader.tables`."""
        with translated(self._path):
            return list(read_tables(self._open()).values())

    def find_rows(self, table: Table, query: RowQuery) -> Sequence[TableRow]:
        """See `Reader.find_rows`."""
        with translated(self._path):
            return read_rows(self._open(), table, query)

    def count_rows(self, table: Table, query: RowQuery) -> int:
        """See `Reader.count_rows`."""
        with translated(self._path):
            return count_rows(self._open(), table, query)

    def newest_position(self) -> int:
        """The highest position that was ever given to a checkpoint."""
        ((position,),) = self._all(NEWEST_POSITION)
        return int(position)

    def stats(self) -> StoreStats:
        """See `Reader.stats`. Counting chunks reads all of their table, without the parts of large ones."""
        ((sessions, branches, checkpoints, hidden, chunks, chunk_bytes, stored_bytes),) = self._all(
            _SELECT_STATS
        )
        return StoreStats(
            sessions=sessions,
            branches=branches,
            checkpoints=checkpoints - hidden,
            hidden=hidden,
            chunks=chunks,
            chunk_bytes=int(chunk_bytes),
            stored_bytes=int(stored_bytes),
            file_bytes=sum(_size(self._path + suffix) for suffix in ("", "-wal")),
        )


class View:
    """One read transaction, from the first look to the last: the context manager that `SqliteBackend.reader` returns.

    A class, because a generator costs more.
    """

    __slots__ = ("_connections", "_path", "_reader", "_timeout")

    def __init__(self, connections: Connections, path: str, timeout: float) -> None:
        self._connections = connections
        self._path = path
        self._timeout = timeout
        self._reader: SqliteReader | None = None

    def __enter__(self) -> SqliteReader:
        connection = self._connections.take()

        def begin() -> None:
            # After a busy answer to the first read the transaction is open already.
            if not connection.in_transaction:
                connection.execute("BEGIN")
            # A transaction sees the store as it is at its first read, so that read comes now.
            connection.execute("SELECT 1 FROM header LIMIT 1").fetchall()

        try:
            waiting(begin, self._path, self._timeout)
        except BaseException as error:
            self._connections.give(connection, broken=True)
            if isinstance(error, DRIVER_ERRORS):
                raise translate(error, self._path) from error
            raise
        self._reader = SqliteReader(connection, self._path)
        return self._reader

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._reader is not None, "left before it was entered"
        connection = self._reader.leave()
        failed = isinstance(error, (BackendError, IntegrityError))
        self._connections.give(connection, broken=not roll_back(connection) or failed)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - SQLite's own names, as text
    except OSError:
        # The WAL comes and goes with the writers.
        return 0
