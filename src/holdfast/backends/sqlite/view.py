"""A view of the store: one read transaction on a connection of the pool, from the first look to the last."""

from __future__ import annotations

import time
from functools import partial
from types import TracebackType

import apsw

from holdfast.backends.sqlite.connection import fetch, waiting
from holdfast.backends.sqlite.errors import translated
from holdfast.backends.sqlite.pool import Pool
from holdfast.backends.sqlite.read import SqliteReader
from holdfast.errors import BackendError, IntegrityError


class View:
    """The context manager that `SqliteBackend.reader` returns. Whatever happens in it, the transaction ends with it."""

    __slots__ = ("_path", "_pool", "_reader", "_timeout")

    def __init__(self, pool: Pool, path: str, timeout: float) -> None:
        self._pool = pool
        self._path = path
        self._timeout = timeout
        self._reader: SqliteReader | None = None

    def __enter__(self) -> SqliteReader:
        connection = self._pool.take()
        try:
            with translated(self._path):
                deadline = time.monotonic() + self._timeout
                waiting(partial(_begin, connection), self._path, deadline=deadline, timeout=self._timeout)
        except BaseException:
            self._pool.give(connection, broken=True)
            raise
        self._reader = SqliteReader(connection, self._path)
        return self._reader

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._reader is not None, "left before it was entered"
        connection = self._reader.leave()
        failed = isinstance(error, (BackendError, IntegrityError))
        self._pool.give(connection, broken=not roll_back(connection) or failed)


def roll_back(connection: apsw.Connection) -> bool:
    """End whatever transaction is open; False where the connection cannot be used again."""
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except apsw.Error:
        # Closed by a fork, or failing: closing it rolls back too.
        return False
    return True


def _begin(connection: apsw.Connection) -> None:
    # After a busy answer to the first read the transaction is open already.
    if not connection.in_transaction:
        connection.execute("BEGIN")
    # A transaction sees the store as it is at its first read, so that read comes now.
    fetch(connection, "SELECT 1 FROM header LIMIT 1")
