"""Questions in a line on one connection: each is sent behind those that are under way, and answered in its turn.

Between question and answer its asker can do something else. And of an answer with many rows it can look at the first
ones while the server is still at the rest: libpq gives them a few at a time, from its version 17 on. With an older one
the answer comes whole.

An answer that was begun has to be taken to its end before anything else is. Whoever is interrupted in waiting for it
leaves a connection of which nobody knows what it says next, so that it is closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import psycopg
from psycopg import generators, pq

from holdfast.backends.postgres.asking import GIVEN, Statement, Value, check_result, leave_pipeline
from holdfast.backends.postgres.connecting import Connected

_HAS_PARTS: Final = psycopg.capabilities.has_stream_chunked()

_ROWS: Final = 8
"""Of a part. With fewer, taking them costs more than the waiting that it saves; with more, there is more waiting."""


class LinedUp:
    """A question that was asked behind others, and the answer to it; made with `line_up`."""

    __slots__ = ("_connection", "_has_begun", "_number")

    def __init__(self, connection: Connected) -> None:
        self._connection = connection
        self._number = connection.asked
        self._has_begun = False

    def next_part(self) -> pq.abc.PGresult | None:
        """Some rows of the answer, of which it is the turn; None where there are no more.

        Raises:
            psycopg.Error: The server refuses, or is gone; what came before is no answer.
        """
        connection = self._connection
        if connection.answered >= self._number:
            return None
        try:
            self._begin()
            part = _fetched(connection)
            if part is None or part.status not in GIVEN:
                self._end(part)
        except BaseException:
            # The rest would be taken for the next answer.
            connection.close()
            raise
        if part is not None:
            check_result(part)
        return part

    def _begin(self) -> None:
        if self._has_begun:
            return
        connection = self._connection
        if self._number != connection.answered + 1:
            # Ctrl-C in the wait for the one before.
            raise psycopg.OperationalError("an answer was not waited for")
        self._has_begun = True
        if _HAS_PARTS:
            # libpq refuses where it has looked at the answer already; that comes whole then.
            with suppress(psycopg.OperationalError):
                connection.pgconn.set_chunked_rows_mode(_ROWS)
        connection.wait(generators.send(connection.pgconn))

    def _end(self, refusal: pq.abc.PGresult | None) -> None:
        """Take the signs that this was all of it."""
        connection, pgconn = self._connection, self._connection.pgconn
        try:
            if refusal is not None:
                _fetched(connection)
            connection.wait(generators.fetch_many(pgconn))
        except psycopg.OperationalError:
            # A server that ends a connection says why, and then no more.
            if refusal is None:
                raise
        connection.answered = self._number
        if not connection.is_behind:
            leave_pipeline(pgconn)


def line_up(connection: Connected, statement: Statement, values: Sequence[Value]) -> LinedUp:
    """Ask behind what is under way, as far as that goes without waiting.

    Until all that was asked so is answered, nothing can be asked on the connection in another way.

    Raises:
        psycopg.Error: The connection is lost.
    """
    pgconn = connection.pgconn
    try:
        if not connection.is_behind:
            pgconn.enter_pipeline_mode()
        connection.asked += 1
        statement.put(connection, values)
        # After each: where one is refused, the others are still answered, and be it that the transaction is over.
        pgconn.pipeline_sync()
        pgconn.flush()
    except BaseException:
        # Nobody knows what was sent.
        connection.close()
        raise
    return LinedUp(connection)


def _fetched(connection: Connected) -> pq.abc.PGresult | None:
    part: pq.abc.PGresult | None = connection.wait(generators.fetch(connection.pgconn))
    return part
