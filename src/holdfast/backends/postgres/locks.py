"""Locks that keep everybody else out, and how to wait for them without holding everybody else up.

Whoever waits for such a lock stands in a queue, and all who come later wait behind it, even those that the present
holder would let pass. One slow commit, or one long read of an application, would then stop the whole store. So each
attempt waits for a moment only, and those who came meanwhile go first.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

import psycopg
from psycopg import sql

from holdfast.backends.postgres.connection import Connection
from holdfast.storage.tables import CATALOGUE

TABLES: Final = (
    "header",
    "sessions",
    "branches",
    "checkpoints",
    "tags",
    "operations",
    "leases",
    "counters",
    "chunks",
    CATALOGUE,
)
"""All of them, the one that readers lock first at the beginning."""

MOMENT: Final = "100ms"
"""How long one attempt waits."""
_CLASS: Final = 0x686C6466
"""The advisory locks of holdfast: "hldf" as a number, then the hash of the schema's name."""
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 0.25

_T = TypeVar("_T")


@contextmanager
def alone(connection: Connection, schema: str, *, tables: Sequence[str] = ()) -> Iterator[None]:
    """A transaction that begins when no commit is under way, and keeps others from beginning.

    Args:
        connection: In no transaction.
        schema: Of the store.
        tables: These are locked too, so that nobody reads them meanwhile.
    """

    def begin() -> None:
        connection.execute("BEGIN")
        try:
            connection.execute(f"SET LOCAL lock_timeout = '{MOMENT}'")
            connection.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [_CLASS, schema])
            if tables:
                names = sql.SQL(", ").join(sql.Identifier(schema, table) for table in tables)
                connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(names))
        except BaseException:
            _roll_back(connection)
            raise

    ((limit,),) = connection.execute(
        "SELECT setting::bigint FROM pg_settings WHERE name = 'lock_timeout'"
    ).fetchall()
    patiently(begin, time.monotonic() + (limit / 1000 if limit else math.inf))
    try:
        yield
    except BaseException:
        _roll_back(connection)
        raise
    connection.execute("COMMIT")


def patiently(attempt: Callable[[], _T], deadline: float) -> _T:
    """Try to get a lock, a moment at a time, until the deadline (by the monotonic clock) has passed.

    Raises:
        psycopg.errors.LockNotAvailable: It could not be had in all that time.
    """
    pause = _FIRST_PAUSE
    while True:
        try:
            return attempt()
        except psycopg.errors.LockNotAvailable:
            if time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _roll_back(connection: Connection) -> None:
    if not connection.closed:
        connection.execute("ROLLBACK")
