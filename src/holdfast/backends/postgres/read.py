"""The reader: questions about one moment of the store, answered in one read transaction.

A REPEATABLE READ transaction sees the store as it was at its first statement, whoever writes meanwhile. It is opened
and ended by `view.py`; here are only the questions. Each is one trip to the server, but for chunks (`under_way.py`).

A connection that is lost before the first answer is replaced: nobody has seen anything of that moment yet. Afterwards
another transaction would be another moment, so that a loss is an error. A transaction that the server takes back, as a
standby does with one that is in the way of what it has to replay, counts as lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import psycopg

from holdfast.backends import rows
from holdfast.backends.chunk_rows import ReadChunks
from holdfast.backends.header import check_header
from holdfast.backends.matching import metadata_matches, normalized
from holdfast.backends.postgres.ahead import FEW_BRANCHES, about_branch
from holdfast.backends.postgres.asking import NOT_KEPT, ask_together
from holdfast.backends.postgres.chunks import AT_ONCE, chains_in, present_among, read_chunks
from holdfast.backends.postgres.connecting import Connected
from holdfast.backends.postgres.errors import is_lost, is_retryable, translated, view_ended
from holdfast.backends.postgres.query import to_sql
from holdfast.backends.postgres.under_way import ChunksUnderWay
from holdfast.backends.postgres.write import check_checkpoint
from holdfast.backends.rows import Row
from holdfast.errors import ErrorCode, StateError
from holdfast.record import Record
from holdfast.storage.copying import Adopted
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

T = TypeVar("T")

NEWEST_POSITION: Final = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM positions"
"""The highest position that was ever given, also to a commit that failed; no transaction holds it still."""

_SELECT_CHECKPOINT = (
    f"SELECT {rows.CHECKPOINT_FIELDS} FROM checkpoints AS c "  # noqa: S608 - constants
    "JOIN sessions AS s ON s.number = c.session WHERE c.id = %s"
)
_SELECT_SESSION = f"SELECT {rows.SESSION_FIELDS} FROM sessions WHERE id = %s"  # noqa: S608 - constants
_SELECT_SESSIONS = {
    (by_agent, by_project): f"SELECT {rows.SESSION_FIELDS} FROM sessions"  # noqa: S608 - constants
    + (" WHERE " if by_agent or by_project else "")
    + " AND ".join(["agent = %s"] * by_agent + ["project = %s"] * by_project)
    + " ORDER BY number"
    for by_agent in (False, True)
    for by_project in (False, True)
}
_BRANCH_FIELDS = (
    "b.name, b.head, b.moved_at, b.seal FROM branches AS b JOIN sessions AS s ON s.number = b.session"
)
_SELECT_BRANCH = f"SELECT {_BRANCH_FIELDS} WHERE s.id = %s AND b.name = %s"
_SELECT_BRANCHES = f"SELECT {_BRANCH_FIELDS} WHERE s.id = %s ORDER BY b.name"
_SESSION, _ID = 2, 4
"""Where the number of its session and its id stand among the fields of a checkpoint."""
_SELECT_OPERATIONS = (
    "SELECT o.number, o.kind, o.at, o.data, o.previous, o.hash, o.seal FROM operations AS o "
    "JOIN sessions AS s ON s.number = o.session WHERE s.id = %s AND o.number > %s ORDER BY o.number"
)
_SELECT_STATS = (
    "SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM branches), (SELECT count(*) FROM checkpoints), "
    "(SELECT count(*) FROM checkpoints WHERE hidden <> 0), count(*), coalesce(sum(size_bytes), 0)::bigint, "
    "coalesce(sum(octet_length(data)), 0)::bigint, (SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class "
    "WHERE relkind = 'r' AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())) "
    "FROM chunks"
)

_FIRST_PAGE: Final = 64
_LARGEST_PAGE: Final = 4096
"""Rows that are looked through at once for metadata. What is found soon reads few, what is rare asks seldom."""


class PostgresReader:
    """A `Reader` over a connection that is inside a read transaction.

    Args:
        connection: Used by nobody else.
        url: The name of the store, for errors.
        reopen: Gives another connection in a transaction of its own, where this one is lost.
        ahead: What was asked together with the beginning of the transaction.
    """

    def __init__(
        self,
        connection: Connected,
        url: str,
        reopen: Callable[[], Connected] | None = None,
        ahead: ReadAhead | None = None,
    ) -> None:
        self._connected: Connected | None = connection
        self._url = url
        self._reopen = reopen
        self._branches: dict[str, dict[str, Row] | None] = {}
        self._ahead: dict[bytes, Row] = {}
        self._under_way = ChunksUnderWay(self._ask_now)
        self._root: dict[ChunkHash, Sequence[Row]] = {}
        if ahead is not None:
            self._branches[ahead.session] = self._known(ahead.branches, ahead.checkpoint)
            self._root = chains_in(ahead.root)

    def leave(self) -> None:
        """End the use of the connection, which goes to somebody else."""
        self._under_way.settle()
        self._connected = self._reopen = None
        self._root.clear()
        self._branches.clear()
        self._ahead.clear()

    def check_header(self) -> None:
        """Raise where the header of the store is damaged, or names something that this version does not know."""
        check_header(
            ((key, value, seal) for key, value, seal in self._all("SELECT * FROM header")), self._url
        )

    def session(self, session: str) -> SessionRow | None:
        """See `Reader.session`."""
        found = self._all(_SELECT_SESSION, session)
        return rows.session_from(found[0]) if found else None

    def sessions(self, *, agent: str | None = None, project: str | None = None) -> Sequence[SessionRow]:
        """See `Reader.sessions`."""
        wanted = (each for each in (agent, project) if each is not None)
        sql = _SELECT_SESSIONS[agent is not None, project is not None]
        return [rows.session_from(row) for row in self._all(sql, *wanted)]

    def branch(self, session: str, name: str) -> BranchRow | None:
        """See `Reader.branch`."""
        if session not in self._branches:
            self._branches[session] = self._few_branches(session, name)
        known = self._branches[session]
        if known is None:
            known = {row[0]: row for row in self._all(_SELECT_BRANCH, session, name)}
        return rows.branch_from(session, known[name]) if name in known else None

    def _few_branches(self, session: str, name: str) -> dict[str, Row] | None:
        if not can_be_kept(session):
            return {}
        # A name that no branch can have says nothing of the others.
        questions = about_branch(session, name if can_be_kept(name) else "")
        branches, checkpoint = self._ask(lambda connection: ask_together(connection, questions))
        return self._known(branches, checkpoint)

    def _known(self, some: list[Row], checkpoint: list[Row]) -> dict[str, Row] | None:
        """The branches of a session by name; None where there are too many. What is asked for next is kept."""
        numbers = {number for *_, number in some}
        self._ahead.update((row[_ID], row) for row in checkpoint if row[_SESSION] in numbers)
        return {row[0]: row[:-1] for row in some} if len(some) <= FEW_BRANCHES else None

    def branches(self, session: str) -> Sequence[BranchRow]:
        """See `Reader.branches`."""
        return [rows.branch_from(session, row) for row in self._all(_SELECT_BRANCHES, session)]

    def checkpoint(self, checkpoint: CheckpointId) -> CheckpointRow | None:
        """See `Reader.checkpoint`."""
        row = self._ahead.get(checkpoint)
        for found in self._all(_SELECT_CHECKPOINT, checkpoint) if row is None else (row,):
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
        if not wanted:
            return {}
        if all(name in self._root for name in wanted):
            return ReadChunks({name: self._root[name] for name in wanted})
        if self._reopen is not None or len(wanted) > AT_ONCE:
            # Before the first answer there may have to be another connection, and many are asked for in turn.
            return self._ask(lambda connection: read_chunks(connection, wanted))
        return self._under_way.ask(wanted)

    def present(self, hashes: Iterable[ChunkHash]) -> set[ChunkHash]:
        """Those of the chunks that are there."""
        wanted = list(hashes)
        return self._ask(lambda connection: present_among(connection, wanted)) if wanted else set()

    def adopted(self, session: SessionRow) -> Adopted | None:
        """See `Reader.adopted`."""
        # Only who copies between stores needs it.
        from holdfast.backends.postgres.adopting import adopted

        return self._ask(lambda connection: adopted(connection, session))

    def newest_position(self) -> int:
        """The highest position that was ever given to a checkpoint."""
        ((position,),) = self._all(NEWEST_POSITION)
        return int(position)

    def stats(self) -> StoreStats:
        """See `Reader.stats`. Counting chunks reads all of their table, without the parts of large ones."""
        ((sessions, branches, checkpoints, hidden, chunks, chunk_bytes, stored_bytes, file_bytes),) = (
            self._all(_SELECT_STATS)
        )
        return StoreStats(
            sessions=sessions,
            branches=branches,
            checkpoints=checkpoints - hidden,
            hidden=hidden,
            chunks=chunks,
            chunk_bytes=chunk_bytes,
            stored_bytes=stored_bytes,
            file_bytes=file_bytes,
        )

    def _matching(self, query: Query) -> list[Row]:
        sql, parameters = to_sql(query)
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
        # Statements of this package, never a user's text: what the type of `execute` is there to say.
        return self._ask(lambda connection: connection.execute(sql, parameters, binary=True).fetchall())

    def _ask(self, question: Callable[[Connected], T]) -> T:
        # Answers come in the order of the questions.
        self._under_way.receive()
        if self._connected is not None and self._connected.is_behind:
            # Somebody was interrupted in the wait for an answer: what comes next is that one.
            self._connected.close()
            raise view_ended(self._url, "an answer was not waited for")
        return self._ask_now(question)

    def _ask_now(self, question: Callable[[Connected], T]) -> T:
        if self._connected is None:
            raise StateError(
                f"this view of the store {self._url} has ended",
                code=ErrorCode.STORE_CLOSED,
                hint="ask inside of the `with backend.reader()` block",
                path=self._url,
            )
        with translated(self._url):
            while True:
                try:
                    answer = question(self._connected)
                except psycopg.Error as error:
                    if error.sqlstate in NOT_KEPT:
                        # Tables were changed under what is kept. This view ends with it, and the next one asks anew.
                        self._connected.forget_kept()
                    taken_back = is_retryable(error)
                    if taken_back and self._reopen is None:
                        raise view_ended(self._url, " ".join(str(error).split())) from error
                    if self._reopen is None or not (taken_back or is_lost(error)):
                        raise
                    reopen, self._reopen = self._reopen, None
                    self._connected = reopen()
                else:
                    self._reopen = None
                    return answer


class FirstQuestions(Record):
    """What a load asks first: about a branch, or a checkpoint by its whole id, and the root of its state."""

    session: str
    name: str
    known: ChunkHash | None
    """A root that need not come."""


class ReadAhead(Record):
    """What a load asks first, as it came with the beginning of the transaction."""

    session: str
    branches: list[Row]
    checkpoint: list[Row]
    root: list[Row]


def can_be_kept(text: str) -> bool:
    """Whether PostgreSQL has such texts at all; it has neither zeros nor halves of characters."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= each <= "\udfff" for each in text))
