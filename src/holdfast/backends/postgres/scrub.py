"""Making sure that nothing which was removed can still be found in the tables.

A removed row stays where it was until something is written over it. `VACUUM FULL` writes a table anew without such
rows, except those that somebody might still read: a transaction of any program that began before. What it could not
leave behind, and what it may not do at all, it only mentions in notices, so those are read here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import psycopg
from psycopg.errors import Diagnostic

from holdfast.backends.postgres.errors import permission_denied, store_locked
from holdfast.backends.postgres.extension import read_tables
from holdfast.backends.postgres.locks import MOMENT, TABLES, patiently
from holdfast.backends.rows import Row
from holdfast.errors import BackendError, ErrorCode
from holdfast.record import Record

Connection = psycopg.Connection[Row]

_PAUSE: Final = 0.1
# "0 dead row versions cannot be removed yet.", in whatever language: the number comes first.
_LEFT = re.compile(r"\d+")


def scrub(connection: Connection, url: str, *, timeout: float) -> None:
    """Write all tables anew without what was removed; on a connection that is closed afterwards.

    Raises:
        BackendError: Somebody still reads an older moment (`store-locked`), or the role does not own the tables
            (`permission-denied`).
    """
    deadline = time.monotonic() + timeout
    connection.execute(f"SET client_min_messages = info; SET lock_timeout = '{MOMENT}'")
    for table in (*TABLES, *read_tables(connection)):
        while patiently(partial(_rewrite, connection, table, url), deadline):
            if time.monotonic() > deadline:
                raise store_locked(url, f"somebody still reads what was removed from {table}")
            time.sleep(_PAUSE)


def check_owner(connection: Connection, url: str) -> None:
    """Refuse a role that may not write the tables anew.

    Raises:
        BackendError: It does not own all of them (`permission-denied`).
    """
    others = connection.execute(
        "SELECT relname FROM pg_catalog.pg_class WHERE relnamespace = current_schema()::regnamespace "
        "AND relname = ANY (%s) AND relkind = 'r' AND NOT pg_has_role(relowner, 'USAGE') ORDER BY relname",
        [list(TABLES)],
    ).fetchall()
    if others:
        raise BackendError(
            f"the tables of {url} cannot be written anew, so that nothing was forgotten: they are another role's",
            code=ErrorCode.PERMISSION_DENIED,
            hint="forget with the role that made the store, or make this role a member of it",
            url=url,
        )


def _rewrite(connection: Connection, table: str, url: str) -> int:
    """Write a table anew; how many removed rows are still in it."""
    with _noticing(connection) as notices:
        connection.execute(f"VACUUM (FULL, VERBOSE) {table}")
    return _left(notices, table, url)


class _Notice(Record):
    """What the server mentioned; taken out at once, because the driver's record of it does not last."""

    severity: str | None
    text: str | None
    detail: str | None


@contextmanager
def _noticing(connection: Connection) -> Iterator[list[_Notice]]:
    notices: list[_Notice] = []

    def note(told: Diagnostic) -> None:
        notices.append(_Notice(told.severity_nonlocalized, told.message_primary, told.message_detail))

    connection.add_notice_handler(note)
    try:
        yield notices
    finally:
        connection.remove_notice_handler(note)


def _left(notices: list[_Notice], table: str, url: str) -> int:
    left = 0
    for notice in notices:
        if notice.severity == "WARNING":
            raise permission_denied(url, notice.text or f"{table} is another role's")
        number = _LEFT.search(notice.detail or "")
        left += int(number[0]) if number else 0
    return left
