"""The reader: questions about one moment of the store, answered in one read transaction.

A REPEATABLE READ transaction sees the store as it was at its first statement, whoever writes meanwhile. A view for a
load asks its first questions in the same round trip as the beginning of the transaction (`ReadsAhead`). Each of those
looks into as few tables as it can: the process of a new connection has planned nothing yet, and that takes the time.

A connection that is lost before the view has begun is replaced. Afterwards another transaction would be another
moment, so that a loss is an error, and so is a transaction that the server takes back, as a standby does.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg import pq

from holdfast.backends import query as queries
from holdfast.backends import rows
from holdfast.backends.chunk_codec import ReadChunks
from holdfast.backends.postgres.chunks import CHAIN, chains_in, find_chains, present_among
from holdfast.backends.postgres.connection import Connection, Pool
from holdfast.backends.postgres.create import VERSION_KEY, check_entry
from holdfast.backends.postgres.errors import is_lost, is_retryable, translated, view_ended
from holdfast.backends.postgres.extension import count_rows, read_rows, read_tables
from holdfast.backends.query import metadata_matches, normalized
from holdfast.backends.rows import Row
from holdfast.errors import ErrorCode, StateError
from holdfast.record import Record
from holdfast.storage.copy_rows import Adopted, adoption_mark
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

T = TypeVar("T")

NEWEST_POSITION: Final = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM positions"
"""The highest position that was ever given, also to a commit that failed; no transaction holds it still."""

_BEGIN: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# A transaction sees the store as it is at its first statement that reads, so that one comes with the beginning.
_HEADER: Final = f"SELECT key, value, seal FROM header WHERE key = '{VERSION_KEY}'"  # noqa: S608 - a constant

_SESSION: Final = "(SELECT number FROM sessions WHERE id = %s)"
_HEAD: Final = f"(SELECT head FROM branches WHERE session = {_SESSION} AND name = %s)"  # noqa: S608 - constants
_CHECKPOINT: Final = (
    f"SELECT {rows.CHECKPOINT_FIELDS} FROM checkpoints AS c "  # noqa: S608 - constants
    "JOIN sessions AS s ON s.number = c.session WHERE c.id = "
)
_ROOT: Final = "(SELECT root FROM checkpoints WHERE id = {} AND root IS DISTINCT FROM %b)"
_FEW_BRANCHES: Final = 16
"""So many of a session come with a view for a load, which asks for two or three."""
_SELECT_FEW = (
    f"SELECT name, head, moved_at, seal FROM branches WHERE session = {_SESSION} "  # noqa: S608 - constants
    f"LIMIT {_FEW_BRANCHES + 1}"
)
_SELECT_SESSIONS = f"SELECT {rows.SESSION_FIELDS} FROM sessions"  # noqa: S608 - constants
_SELECT_BRANCHES = (
    "SELECT b.name, b.head, b.moved_at, b.seal FROM branches AS b JOIN sessions AS s ON s.number = b.session "
    "WHERE s.id = %s"
)
_SELECT_OPERATIONS = (
    "SELECT o.number, o.kind, o.at, o.data, o.previous, o.hash, o.seal FROM operations AS o "
    "JOIN sessions AS s ON s.number = o.session WHERE s.id = %s AND o.number > %s ORDER BY o.number"
)
_SELECT_STATS = (
    "SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM branches), "
    "(SELECT count(*) FROM checkpoints WHERE hidden = 0), "
    "(SELECT count(*) FROM checkpoints WHERE hidden <> 0), count(*), coalesce(sum(size_bytes), 0)::bigint, "
    "coalesce(sum(octet_length(data)), 0)::bigint, (SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class "
    "WHERE relkind = 'r' AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())) "
    "FROM chunks"
)

# PostgreSQL chooses by statistics, which may be old or not there yet, and guesses how much a limit leaves out. So each
# table stands in a LATERAL query with a limit or an offset, which is never taken apart: it is looked up for each row of
# the one before. Of each session come at most so many rows, in the order of its index, and only those are sorted.
_SESSION_OF_EACH: Final = "CROSS JOIN LATERAL (SELECT * FROM sessions WHERE number = c.session OFFSET 0) AS s"

DIALECT: Final = queries.Dialect(
    placeholder="%s",
    by_tag=(
        "tags AS t CROSS JOIN LATERAL (SELECT * FROM checkpoints WHERE position = t.position OFFSET 0) AS c "  # noqa: S608 - constants
        + _SESSION_OF_EACH
    ),
    by_session="sessions AS s JOIN checkpoints AS c ON c.session = s.number",
    newest=f"checkpoints AS c {_SESSION_OF_EACH}",
    few_of_each=(
        "sessions AS s CROSS JOIN LATERAL (SELECT * FROM checkpoints AS c WHERE c.session = s.number{conditions} "
        "ORDER BY {order} {direction} LIMIT ?) AS c"
    ),
    auto="""(c."trigger" = ? OR starts_with(c."trigger", 'auto:'))""",
    always_few=True,
)

_FIRST_PAGE: Final = 64
_LARGEST_PAGE: Final = 4096
"""Rows that are looked through at once for metadata. What is found soon reads few, what is rare asks seldom."""
_FIRST_PAUSE: Final = 0.002
_LONGEST_PAUSE: Final = 0.1


class FirstQuestions(Record):
    """What a load asks first: about a branch, or a checkpoint by its whole id, and the root of its state."""

    session: str
    name: str
    known: ChunkHash | None
    """A root that need not come."""

    def statements(self) -> list[tuple[str, list[Any]]]:
        """A few branches of the session, the checkpoint, and its root with all that it stands on."""
        few = (_SELECT_FEW, [self.session])
        if re.fullmatch("[0-9a-f]{64}", self.name):
            meant = bytes.fromhex(self.name)
            root = CHAIN.format(name=_ROOT.format("%b"))
            return [few, (f"{_CHECKPOINT}%b", [meant]), (root, [meant, self.known])]
        root = CHAIN.format(name=_ROOT.format(_HEAD))
        head = [self.session, self.name]
        return [few, (f"{_CHECKPOINT}{_HEAD}", head), (root, [*head, self.known])]


class PostgresReader:
    """A `Reader` over a connection that is inside a read transaction."""

    def __init__(self, connection: Connection, url: str) -> None:
        self._connected: Connection | None = connection
        self._url = url
        self._branches: dict[str, dict[str, Row]] = {}
        self._checkpoints: dict[bytes, Row] = {}
        self._roots: dict[ChunkHash, Sequence[Row]] = {}

    def leave(self) -> None:
        """End the use of the connection, which goes to somebody else."""
        self._connected = None

    def take_first(self, session: str, answers: Sequence[list[Row]]) -> None:
        """Keep what came with the beginning of the transaction."""
        few, checkpoint, root = answers
        if len(few) <= _FEW_BRANCHES:
            self._branches[session] = {row[0]: row for row in few}
        self._checkpoints = {row[4]: row for row in checkpoint}
        self._roots = chains_in(root)

    def session(self, session: str) -> SessionRow | None:
        """See `Reader.session`."""
        found = self._all(f"{_SELECT_SESSIONS} WHERE id = %s", session)
        return rows.session_from(found[0]) if found else None

    def sessions(self, *, agent: str | None = None, project: str | None = None) -> Sequence[SessionRow]:
        """See `Reader.sessions`."""
        wanted = {
            name: value for name, value in (("agent", agent), ("project", project)) if value is not None
        }
        where = " WHERE " + " AND ".join(f"{name} = %s" for name in wanted) if wanted else ""
        return [
            rows.session_from(row)
            for row in self._all(f"{_SELECT_SESSIONS}{where} ORDER BY number", *wanted.values())
        ]

    def branch(self, session: str, name: str) -> BranchRow | None:
        """See `Reader.branch`."""
        known = self._branches.get(session)
        if known is None:
            known = {row[0]: row for row in self._all(f"{_SELECT_BRANCHES} AND b.name = %s", session, name)}
        return rows.branch_from(session, known[name]) if name in known else None

    def branches(self, session: str) -> Sequence[BranchRow]:
        """See `Reader.branches`."""
        found = self._all(f"{_SELECT_BRANCHES} ORDER BY b.name", session)
        return [rows.branch_from(session, row) for row in found]

    def checkpoint(self, checkpoint: CheckpointId) -> CheckpointRow | None:
        """See `Reader.checkpoint`."""
        row = self._checkpoints.get(checkpoint)
        for found in self._all(f"{_CHECKPOINT}%s", checkpoint) if row is None else (row,):
            check_checkpoint(found)
            return rows.checkpoint_from(found)
        return None

    def checkpoints(self, query: Query) -> Sequence[CheckpointRow]:
        """See `Reader.checkpoints`."""
        if query.limit is not None and query.limit <= 0:
            return []
        conditions = normalized(query.metadata)
        found: list[CheckpointRow] = []
        for row in self._pages(query) if conditions else self._matching(query):
            check_checkpoint(row)
            if metadata_matches(row[rows.METADATA_FIELD], row[rows.ADDED_FIELD], conditions):
                found.append(rows.checkpoint_from(row))
                if len(found) == query.limit:
                    break
        return found

    def operations(self, session: str, *, after: int = 0) -> Sequence[Operation]:
        """See `Reader.operations`."""
        return [rows.operation_from(session, row) for row in self._all(_SELECT_OPERATIONS, session, after)]

    def chunks(self, hashes: Iterable[ChunkHash]) -> Mapping[ChunkHash, bytes]:
        """See `Reader.chunks`."""
        wanted = list(hashes)
        if wanted and all(name in self._roots for name in wanted):
            return ReadChunks({name: self._roots[name] for name in wanted})
        return ReadChunks(self._ask(lambda connection: find_chains(connection, wanted)) if wanted else {})

    def present(self, hashes: Iterable[ChunkHash]) -> set[ChunkHash]:
        """Those of the chunks that are there."""
        wanted = list(hashes)
        return self._ask(lambda connection: present_among(connection, wanted)) if wanted else set()

    def adopted(self, session: SessionRow) -> Adopted | None:
        """See `Reader.adopted`."""
        marks = self._all("SELECT value FROM counters WHERE name = %s", mark_name(session.id))
        kinds: tuple[Adopted, ...] = ("whole", "partial")
        return next((each for each in kinds if marks and marks[0][0] == adoption_mark(session, each)), None)

    def tables(self) -> Sequence[Table]:
        """See `Reader.tables`."""
        return self._ask(lambda connection: list(read_tables(connection).values()))

    def find_rows(self, table: Table, query: RowQuery) -> Sequence[TableRow]:
        """See `Reader.find_rows`."""
        return self._ask(lambda connection: read_rows(connection, table, query))

    def count_rows(self, table: Table, query: RowQuery) -> int:
        """See `Reader.count_rows`."""
        return self._ask(lambda connection: count_rows(connection, table, query))

    def newest_position(self) -> int:
        """The highest position that was ever given to a checkpoint."""
        ((position,),) = self._all(NEWEST_POSITION)
        return int(position)

    def stats(self) -> StoreStats:
        """See `Reader.stats`. Counting chunks reads all of their table, without the parts of large ones."""
        return StoreStats(*self._all(_SELECT_STATS)[0])

    def _matching(self, query: Query) -> list[Row]:
        sql, parameters = queries.to_sql(query, DIALECT)
        return self._all(sql, *parameters)

    def _pages(self, query: Query) -> Iterator[Row]:
        """All that matches but for metadata, a page at a time: who finds enough early does not read the rest."""
        by_seq = query.session is not None and query.tag is None
        # The number to continue from: its name among the filters, and where it stands in a row.
        name, at = ("seq", 3) if by_seq else ("position", 1)
        border = f"{'after' if query.oldest_first else 'before'}_{name}"
        size = _FIRST_PAGE
        page = query._replace(metadata=(), limit=size)
        while True:
            found = self._matching(page)
            yield from found
            if len(found) < size:
                return
            size = min(2 * size, _LARGEST_PAGE)
            page = page._replace(limit=size, **{border: found[-1][at]})

    def _all(self, sql: str, *parameters: Any) -> list[Row]:
        # Nothing of the kind can be in the store, and PostgreSQL would refuse the question.
        if any(isinstance(each, str) and not can_be_kept(each) for each in parameters):
            return []
        # As bytes: statements of this package, never a user's text, which is what the type of `execute` asks for.
        return self._ask(lambda c: c.execute(sql.encode(), parameters, binary=True).fetchall())

    def _ask(self, question: Callable[[Connection], T]) -> T:
        if self._connected is None:
            raise StateError(
                f"this view of the store {self._url} has ended",
                code=ErrorCode.STORE_CLOSED,
                hint="ask inside of the `with backend.reader()` block",
                path=self._url,
            )
        with translated(self._url):
            try:
                return question(self._connected)
            except psycopg.Error as error:
                if is_retryable(error):
                    raise view_ended(self._url, " ".join(str(error).split())) from error
                raise


@contextmanager
def view(
    pool: Pool, url: str, timeout: float, first: FirstQuestions | None = None
) -> Iterator[PostgresReader]:
    """A view of the store: one read transaction on a connection of the pool.

    Args:
        pool: Where connections come from.
        url: The name of the store, for errors.
        timeout: How many seconds to go on where connections turn out to be lost, as after a restart of the server.
        first: What is going to be asked first, if that is known.
    """
    deadline, pause = time.monotonic() + timeout, _FIRST_PAUSE
    while True:
        with pool.connection() as connection:
            reader = PostgresReader(connection, url)
            try:
                with translated(url):
                    begin(connection, url, reader, first)
            except BaseException as error:
                if not (is_lost(error) or is_retryable(error.__cause__)) or time.monotonic() >= deadline:
                    raise
            else:
                try:
                    yield reader
                finally:
                    reader.leave()
                    end(connection)
                return
        # Others that are lost may be met next, and a standby that is catching up needs a moment.
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def begin(
    connection: Connection,
    url: str,
    reader: PostgresReader | None = None,
    first: FirstQuestions | None = None,
) -> None:
    """Open a read transaction in one round trip, with what is asked first.

    Raises:
        UnsupportedError: The tables are of another version.
    """
    questions: list[tuple[str, list[Any]]] = [(_BEGIN, []), (_HEADER, [])]
    try:
        _, header, *answers = _together(connection, questions + (first.statements() if first else []))
    except (psycopg.ProgrammingError, psycopg.NotSupportedError):
        if first is None:
            raise
        # Tables of another version may not understand the rest: then that is what has to be said.
        connection.rollback()
        begin(connection, url)
        raise
    for entry in header:
        check_entry(entry, url)
    if reader is not None and first is not None:
        reader.take_first(first.session, answers)


def end(connection: Connection) -> None:
    """End a read transaction; a connection whose answer nobody waited for is closed instead."""
    if connection.pgconn.transaction_status == pq.TransactionStatus.ACTIVE:
        connection.close()
    # Lost, or closed by a fork: the server ends the transaction with the connection.
    with suppress(psycopg.Error):
        # There is nothing to take back; and after a ROLLBACK psycopg drops all statements that it has prepared.
        connection.execute("COMMIT")


def check_checkpoint(row: Row) -> None:
    """Raise where a row of `CHECKPOINT_FIELDS` does not match its seal, which leaves out what the server gave it."""
    rows.check_checkpoint((row[0], 0, *row[2:22], 0, *row[23:]))


def mark_name(session: str) -> str:
    """The counter that remembers how `adopt` left a session."""
    return f"adopted {session}"


def can_be_kept(text: str) -> bool:
    """Whether PostgreSQL has such texts at all; it has neither zeros nor halves of characters."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= each <= "\udfff" for each in text))


def _together(connection: Connection, questions: Sequence[tuple[str, list[Any]]]) -> list[list[Row]]:
    """The answers to some statements, asked in one round trip."""
    with connection.pipeline():
        asked = [connection.execute(sql.encode(), values, binary=True) for sql, values in questions]
    return [cursor.fetchall() if cursor.description else [] for cursor in asked]
