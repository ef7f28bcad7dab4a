"""A view of the store: one read transaction on a connection of the pool, from the first look to the last."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Final

import psycopg
from psycopg import pq

from holdfast.backends.postgres.ahead import about_branch, about_root
from holdfast.backends.postgres.asking import Statement, ask_first, ask_plainly, leave_commit, rows_in
from holdfast.backends.postgres.connecting import Connected
from holdfast.backends.postgres.creation import check_entry
from holdfast.backends.postgres.errors import is_lost, is_retryable, translated
from holdfast.backends.postgres.pooling import Pool
from holdfast.backends.postgres.read import FirstQuestions, PostgresReader, ReadAhead
from holdfast.backends.rules import store_damaged

_FIRST_PAUSE: Final = 0.002
_LONGEST_PAUSE: Final = 0.1
"""Of a second, before another look where nothing but time helps."""

# One trip to the server for both. A transaction sees the store as it is at its first statement that reads, so that one
# comes now. It reads one of our tables, because the lock on that keeps a rebuild from putting other tables under the
# same names while somebody looks at this moment. And it says whether this version of the code can read the rest.
_BEGIN: Final = Statement("begin", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", of_views=True)
_HEADER: Final = Statement(
    "header", "SELECT key, value, seal FROM header WHERE key = 'version'", of_views=True
)
_IS_FILLED: Final = Statement("is_filled", "SELECT FROM header LIMIT 1")


class View:
    """The context manager that `PostgresBackend.reader` returns. Whatever happens in it, the transaction ends with it.

    Args:
        pool: Where connections come from.
        url: The name of the store, for errors.
        timeout: How many seconds to go on where connections turn out to be lost, as after a restart of the server.
        first: What is going to be asked first, if that is known.
    """

    __slots__ = ("_ahead", "_connection", "_first", "_lease", "_pool", "_reader", "_timeout", "_url")

    def __init__(self, pool: Pool, url: str, timeout: float, first: FirstQuestions | None = None) -> None:
        self._pool = pool
        self._url = url
        self._timeout = timeout
        self._first = first
        self._ahead: ReadAhead | None = None
        self._lease: AbstractContextManager[Connected] | None = None
        self._connection: Connected | None = None
        self._reader: PostgresReader | None = None

    def __enter__(self) -> PostgresReader:
        try:
            connection = self._open()
            # What came with the beginning is of that moment: no other connection can go on from there.
            reopen = self._open_again if self._ahead is None else None
            self._reader = PostgresReader(connection, self._url, reopen, self._ahead)
            self._ahead = None
        except BaseException:
            # Ctrl-C just now: `__exit__` is never called.
            self._give_back()
            raise
        return self._reader

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._reader is not None, "left before it was entered"
        try:
            if error is not None and not isinstance(error, Exception):
                # Somebody wants out, and is not kept waiting for an answer that nobody will look at.
                self._drop_answer()
            self._reader.leave()
        finally:
            # Ctrl-C may have ended the wait for an answer: the connection goes back all the same, and the reader lets
            # go of it. There is nothing left to wait for then.
            try:
                self._reader.leave()
            finally:
                self._give_back()

    def _drop_answer(self) -> None:
        """Close the connection where the server is still at an answer."""
        connection = self._connection
        if connection is not None and connection.pgconn.transaction_status == pq.TransactionStatus.ACTIVE:
            connection.close()

    def _open(self) -> Connected:
        deadline = time.monotonic() + self._timeout
        pause = _FIRST_PAUSE
        while True:
            self._lease = self._pool.connection()
            self._connection = self._lease.__enter__()
            try:
                with translated(self._url):
                    has_begun = self._begin(self._connection)
            except BaseException as error:
                self._give_back(error)
                if not (is_lost(error) or is_retryable(error.__cause__)) or time.monotonic() >= deadline:
                    raise
                # After a restart of the server the pool may hold several that are lost; each is met once.
                if is_lost(error):
                    continue
            else:
                if has_begun:
                    return self._connection
                self._give_back()
                if time.monotonic() >= deadline:
                    raise store_damaged(self._url, "its header is empty")
            # Rows that are about to come, or a standby that is catching up, need no thousand questions a second.
            time.sleep(min(pause, max(deadline - time.monotonic(), 0)))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _begin(self, connection: Connected) -> bool:
        if self._first is None:
            return begin(connection, self._url)
        begun = begin_with(connection, self._url, self._first)
        self._ahead = begun
        return begun is not None

    def _open_again(self) -> Connected:
        self._give_back()
        return self._open()

    def _give_back(self, error: BaseException | None = None) -> None:
        lease, connection = self._lease, self._connection
        self._lease = self._connection = None
        if lease is None or connection is None:
            return
        try:
            if not let_end(connection):
                connection.close()
        finally:
            # The pool learns from a loss that other connections may be lost as well.
            lease.__exit__(type(error) if error else None, error, None)


def begin(connection: Connected, url: str) -> bool:
    """Open a read transaction; False where it shows a moment before the tables were filled.

    Raises:
        UnsupportedError: The tables are of another version.

    Somebody who waits for the lock of a rebuild has chosen the moment before, and then finds the tables of afterwards,
    in which nothing is from that moment.
    """
    _, header = ask_first(connection, [(_BEGIN, ()), (_HEADER, ())])
    return _is_filled(connection, url, header)


def begin_with(connection: Connected, url: str, first: FirstQuestions) -> ReadAhead | None:
    """The same together with what a load asks first; None where `begin` is false."""
    session, name, known = first
    questions = [
        (_BEGIN, ()),
        (_HEADER, ()),
        *about_branch(session, name),
        about_root(session, name, known),
    ]
    try:
        _, header, *answers = ask_first(connection, questions)
    except (psycopg.ProgrammingError, psycopg.NotSupportedError):
        # Tables of another version may not understand the rest: then that is what has to be said.
        connection.rollback()
        begin(connection, url)
        raise
    if not _is_filled(connection, url, header):
        return None
    return ReadAhead(session, *[rows_in(connection, each) for each in answers])


def _is_filled(connection: Connected, url: str, header: pq.abc.PGresult) -> bool:
    for key, value, seal in rows_in(connection, header):
        check_entry((key, value, seal), url)
        return True
    # Damage may have taken that one entry. What can be read is read then.
    return _IS_FILLED.ask(connection, ()).ntuples > 0


def end(connection: Connected) -> None:
    """End whatever transaction is open."""
    # Lost, or closed by a fork: the server ends the transaction with the connection.
    with suppress(psycopg.Error):
        ask_plainly(connection, b"COMMIT")


def let_end(connection: Connected) -> bool:
    """End whatever transaction is open, without waiting for that; False where the connection cannot be used again."""
    if connection.closed or connection.is_behind:
        return False
    try:
        # There is nothing to take back; and after a ROLLBACK psycopg drops all statements that it has prepared.
        leave_commit(connection)
    except psycopg.Error:
        # As above.
        return False
    return True
