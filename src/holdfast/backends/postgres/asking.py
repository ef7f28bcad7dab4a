"""Statements that are sent the short way: straight through libpq, without a cursor.

A cursor of psycopg looks at each value for the type it should have, at the statement for what it may have prepared
before, and makes objects for rows, all of which is known here. Without it a save takes a tenth less of the client's
time. And what is sent need not be waited for at once: see `lining_up.py`.

`Connection.wait` of psycopg still does the waiting in the main thread, so that Ctrl-C ends a statement. Other threads,
which no signal reaches, wait for a save inside of libpq.
"""

from __future__ import annotations

import re
import struct
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import psycopg
from psycopg import generators, pq
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result

from holdfast.backends.postgres.connecting import Connected
from holdfast.backends.rows import Row

Value = str | bytes | int | float | None

_BYTEA: Final = 17
_BYTEA_ARRAY: Final = 1001
_GIVEN_BY_PLACE: Final = 0
"""The type of a text: what the place that it is for says."""
_TYPES: Final = {"%s": _GIVEN_BY_PLACE, "%b": _BYTEA, "%a": _BYTEA_ARRAY}
# What an array begins with: dimensions, whether there are nulls, the type, how many items, the number of the first.
_ARRAY: Final = struct.Struct(">iiIii")
TRUE: Final = b"\x01"
"""In an answer."""
_NULL: Final = b"\xff\xff\xff\xff"

GIVEN: Final = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_CHUNK)
"""What the server says where it does what it was asked for."""

_WORTH_PREPARING: Final = 5
"""Uses on one connection, before a statement is kept there; who saves once need not pay for it."""
_NOT_PREPARED: Final = "26000"
"""What the server says of a statement that it does not keep: psycopg drops all of them after a rollback."""
NOT_KEPT: Final = (_NOT_PREPARED, "0A000")
"""And of one that it keeps and that would answer something else than it did."""


_OF_VIEWS: Final[list[Statement]] = []
"""All statements that views use."""


class Statement:
    """A statement with places `%s` for text and numbers, which are sent as text, `%b` for bytes and `%a` for many.

    Args:
        name: Under which the server keeps it, with something added that only this connection has.
        sql: Its text.
        of_views: Whether views use it: those are kept together, see `ask_first`.
    """

    __slots__ = ("_formats", "_name", "_of_views", "_text", "_types")

    def __init__(self, name: str, sql: str, *, of_views: bool = False) -> None:
        places = re.findall("%[sba]", sql)
        for number, place in enumerate(places, 1):
            sql = sql.replace(place, f"${number}", 1)
        self._text = sql.encode()
        self._name = f"holdfast_{name}_".encode()
        self._types = [_TYPES[place] for place in places]
        self._formats = [pq.Format.TEXT if place == "%s" else pq.Format.BINARY for place in places]
        self._of_views = of_views
        if of_views:
            _OF_VIEWS.append(self)

    def prepare(self, connection: Connected) -> None:
        """Have the server keep it; sent with what is sent next."""
        connection.pgconn.send_prepare(self._name + connection.mark, self._text, self._types)

    def put(self, connection: Connected, values: Sequence[Value]) -> None:
        """Ask it with what is sent next."""
        pgconn, given = connection.pgconn, sent(values)
        if self._of_views and connection.keeps_views:
            name = self._name + connection.mark
            pgconn.send_query_prepared(name, given, self._formats, pq.Format.BINARY)
        else:
            pgconn.send_query_params(self._text, given, self._types, self._formats, pq.Format.BINARY)

    def send(self, connection: Connected, values: Sequence[Value]) -> None:
        """Send it as far as that goes without waiting; the connection can be asked nothing else before `received`."""
        self.put(connection, values)
        connection.pgconn.flush()

    def ask(self, connection: Connected, values: Sequence[Value]) -> pq.abc.PGresult:
        """The answer, of a statement that is seldom used, or in a transaction."""
        self.send(connection, values)
        return received(connection)

    def execute(self, connection: Connected, values: Sequence[Value]) -> pq.abc.PGresult:
        """The answer, of a statement that is used again and again, outside of a transaction."""
        return self.execute_sent(connection, sent(values))

    def execute_sent(self, connection: Connected, given: list[bytes | None]) -> pq.abc.PGresult:
        """The same with values as they are sent."""
        uses = connection.uses[self._name] = connection.uses.get(self._name, 0) + 1
        name = self._name + connection.mark
        pgconn = connection.pgconn
        if uses > _WORTH_PREPARING:
            try:
                return self._answered(connection, name, given)
            except psycopg.Error as error:
                if error.sqlstate != _NOT_PREPARED:
                    raise
            # Nothing was done: it is not known there. It is kept again from the next time on.
            connection.uses[self._name] = uses = _WORTH_PREPARING
        if uses == _WORTH_PREPARING:
            pgconn.send_prepare(name, self._text, self._types)
            received(connection)
            pgconn.send_query_prepared(name, given, self._formats, pq.Format.BINARY)
        else:
            pgconn.send_query_params(self._text, given, self._types, self._formats, pq.Format.BINARY)
        return received(connection)

    def execute_each(
        self, connection: Connected, first: Statement, several: Sequence[list[bytes | None]]
    ) -> list[pq.abc.PGresult]:
        """The answers, with several lists of values as they are sent, in one trip and one transaction after `first`.

        Raises:
            psycopg.Error: The server refuses one of them, and has done nothing; or it is gone.
        """
        first._keep(connection)
        self._keep(connection)
        pgconn = connection.pgconn
        pgconn.enter_pipeline_mode()
        try:
            first._put_kept(connection, [])
            for given in several:
                self._put_kept(connection, given)
            pgconn.pipeline_sync()
            answers = connection.wait(_until_committed(pgconn, 1 + len(several)))
            pgconn.exit_pipeline_mode()
        except BaseException:
            # Lost, or left in the middle: the rest would be taken for answers to the next questions.
            connection.close()
            raise
        try:
            for each in answers:
                check_result(each)
        except psycopg.Error as error:
            if error.sqlstate in NOT_KEPT:
                # Some may be there: what is kept from here on has other names.
                connection.forget_kept()
            raise
        return answers[1:]

    def _keep(self, connection: Connected) -> None:
        """Have the server keep it now, if it does not."""
        if connection.uses.get(self._name, 0) < _WORTH_PREPARING:
            # Before it is asked: who is interrupted here leaves a name that nobody takes for free. Where the server
            # does not know it after all, it says so.
            connection.uses[self._name] = _WORTH_PREPARING
            self.prepare(connection)
            received(connection)

    def _put_kept(self, connection: Connected, given: list[bytes | None]) -> None:
        name = self._name + connection.mark
        connection.pgconn.send_query_prepared(name, given, self._formats, pq.Format.BINARY)

    def _answered(self, connection: Connected, name: bytes, given: list[bytes | None]) -> pq.abc.PGresult:
        """The answer to a statement that the server keeps."""
        pgconn = connection.pgconn
        if threading.current_thread() is threading.main_thread():
            pgconn.send_query_prepared(name, given, self._formats, pq.Format.BINARY)
            return received(connection)
        # One call, which lets go of Python's lock once. Sending, waiting and taking do so six times, and each is an
        # occasion for other threads to take it: where two or four save, that is a tenth of their time.
        # None is NULL for it, too, whatever its type says.
        result = pgconn.exec_prepared(name, given, self._formats, pq.Format.BINARY)  # type: ignore[arg-type]
        check_result(result)
        return result


def ask_plainly(connection: psycopg.Connection[Any], statements: bytes) -> list[pq.abc.PGresult]:
    """The answers to some statements without places, in one trip; as text.

    Raises:
        psycopg.Error: The server refuses one of them, or is gone.
    """
    connection.pgconn.send_query(statements)
    results: list[pq.abc.PGresult] = connection.wait(generators.execute(connection.pgconn))
    for each in results:
        check_result(each)
    return results


def ask_first(
    connection: Connected, questions: Sequence[tuple[Statement, Sequence[Value]]]
) -> list[pq.abc.PGresult]:
    """The answers to the first statements of a view, in one trip; the first of them opens its transaction.

    What views ask is kept by the server from their fifth on a connection on, all of it together. It is let go together,
    too, and never while a view lasts: where the first one is known there, so are those that come later.

    Raises:
        psycopg.Error: The server refuses one of them, or is gone.
    """
    puts = [partial(each.put, connection, values) for each, values in questions]
    connection.views += 1
    if connection.views == _WORTH_PREPARING:
        return _and_keep(connection, puts)
    try:
        return _at_once(connection, puts)
    except psycopg.Error as error:
        if error.sqlstate not in NOT_KEPT or not connection.keeps_views:
            raise
    # Nothing was done. They are gone, or tables were changed under them.
    connection.forget_kept()
    connection.rollback()
    return _at_once(connection, puts)


def ask_together(
    connection: Connected, questions: Sequence[tuple[Statement, Sequence[Value]]]
) -> list[list[Row]]:
    """The rows that some statements of a view give, in one trip.

    Raises:
        psycopg.Error: The server refuses one of them, or is gone.
    """
    answers = _at_once(connection, [partial(each.put, connection, values) for each, values in questions])
    return [rows_in(connection, each) for each in answers]


def _and_keep(connection: Connected, puts: Sequence[Callable[[], None]]) -> list[pq.abc.PGresult]:
    """The answers; in the same trip the server is told to keep all that views ask."""
    prepares = [partial(each.prepare, connection) for each in _OF_VIEWS]
    try:
        # After the questions: a transaction cannot be opened as it has to be once the server was asked anything.
        answers = _at_once(connection, [*puts, *prepares])[: len(puts)]
    except psycopg.Error:
        # Some of them may be kept.
        connection.forget_kept()
        raise
    connection.keeps_views = True
    return answers


def _at_once(connection: Connected, puts: Sequence[Callable[[], None]]) -> list[pq.abc.PGresult]:
    """The answers to several statements, in one trip. After one that is refused none is carried out."""
    pgconn = connection.pgconn
    pgconn.enter_pipeline_mode()
    try:
        for put in puts:
            put()
        pgconn.pipeline_sync()
        results = connection.wait(_answers(pgconn, len(puts)))
        leave_pipeline(pgconn)
    except BaseException:
        # Lost, or interrupted between two answers: the rest would be taken for those of the next questions.
        connection.close()
        raise
    for each in results:
        check_result(each)
    return results


def _answers(pgconn: pq.abc.PGconn, count: int) -> PQGen[list[pq.abc.PGresult]]:
    """One answer to each of so many statements, and the sign that they are all."""
    yield from generators.send(pgconn)
    answers: list[pq.abc.PGresult] = []
    try:
        for _ in range(count):
            answers += yield from generators.fetch_many(pgconn)
        yield from generators.fetch_many(pgconn)
    except psycopg.OperationalError:
        # A server that ends a connection says why, and then no more.
        if not answers or answers[-1].status != pq.ExecStatus.FATAL_ERROR:
            raise
    return answers


def leave_pipeline(pgconn: pq.abc.PGconn) -> None:
    """Ask nothing more in a row; all answers have been taken."""
    if pgconn.status == pq.ConnStatus.OK:
        pgconn.exit_pipeline_mode()


def _until_committed(pgconn: pq.abc.PGconn, count: int) -> PQGen[list[pq.abc.PGresult]]:
    """The answers to so many statements of one transaction, when that has ended; one more if its commit failed.

    Raises:
        psycopg.OperationalError: The connection broke before; nobody knows whether it was committed.
    """
    yield from generators.send(pgconn)
    answers: list[pq.abc.PGresult] = []
    for _ in range(count + 2):
        for answer in (yield from generators.fetch_many(pgconn)):
            if answer.status == pq.ExecStatus.PIPELINE_SYNC:
                return answers
            answers.append(answer)
    raise psycopg.OperationalError("the server did not say that the transaction has ended")


def leave_commit(connection: Connected) -> None:
    """End a transaction that only read, without waiting for the answer: that is for whoever takes the connection next.

    Raises:
        psycopg.Error: The connection is lost, or the server is still at something else.
    """
    connection.pgconn.send_query(b"COMMIT")
    connection.owes = True
    if connection.pgconn.flush():
        # Something that stops what we send may stop it for long, and the transaction is open until it gets there.
        take_owed(connection)


def take_owed(connection: Connected) -> None:
    """Take the answer that `leave_commit` left.

    Raises:
        psycopg.Error: The connection is lost.
    """
    # Before waiting: one that is interrupted in it owes nothing that could be told from other answers.
    connection.owes = False
    received(connection)


def received(connection: psycopg.Connection[Any]) -> pq.abc.PGresult:
    """The answer to what was sent, in binary.

    Raises:
        psycopg.Error: The server refuses, or is gone.
    """
    results: list[pq.abc.PGresult] = connection.wait(generators.execute(connection.pgconn))
    if not results:
        raise psycopg.OperationalError("the server was asked nothing")
    check_result(results[-1])
    return results[-1]


def check_result(result: pq.abc.PGresult) -> None:
    """Raise what the server says in place of an answer.

    Raises:
        psycopg.Error: That.
    """
    if result.status not in GIVEN:
        error = error_from_result(result)
        # The server always gives a code: without one these are libpq's words for a connection that broke.
        raise error if error.sqlstate is not None else psycopg.OperationalError(str(error))


def rows_in(connection: Connected, result: pq.abc.PGresult) -> list[Row]:
    """The rows of an answer in binary."""
    loader = Transformer(connection)
    loader.set_pgresult(result, format=pq.Format.BINARY)
    rows: list[Row] = loader.load_rows(0, result.ntuples, tuple)
    return rows


def array_of(items: Sequence[bytes | None]) -> bytes:
    """What goes to a place `%a`."""
    parts = [_NULL if item is None else len(item).to_bytes(4, "big") + item for item in items]
    return b"".join([_ARRAY.pack(1, None in items, _BYTEA, len(items), 1), *parts])


def numbers_of(items: Sequence[int]) -> str:
    """What goes to a place `%s` for an array of numbers."""
    return f"{{{','.join(map(str, items))}}}"


def number_in(field: bytes | None) -> int:
    """A number in an answer."""
    return int.from_bytes(field or b"", "big", signed=True)


def sent(values: Sequence[Value]) -> list[bytes | None]:
    """Values as they are sent; numbers in a form that PostgreSQL reads back exactly."""
    return [
        value
        if value is None or isinstance(value, bytes)
        else _text(value)
        if isinstance(value, str)
        else repr(value).encode()
        for value in values
    ]


def _text(value: str) -> bytes:
    data = value.encode()
    if b"\0" in data:
        # It would end there, for libpq.
        raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    return data
