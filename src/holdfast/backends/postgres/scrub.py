"""Making sure that nothing which was removed can still be found in the tables.

A removed row stays where it was until something is written over it. `VACUUM FULL` writes a table anew without such
rows, except those that somebody might still read: a transaction of any program that began before. What it could not
leave behind, and what it may not do at all, it only mentions in notices, so those are read here.
"""

from __future__ import annotations

import re
import time
from functools import partial
from typing import Final

from psycopg.errors import Diagnostic

from holdfast.backends.postgres.connection import Connection
from holdfast.backends.postgres.errors import permission_denied, store_locked
from holdfast.backends.postgres.extension import read_tables
from holdfast.backends.postgres.locks import MOMENT, TABLES, patiently
from holdfast.errors import BackendError, ErrorCode

_PAUSE: Final = 0.1
_OTHERS: Final = (
    "SELECT 1 FROM pg_catalog.pg_class WHERE relnamespace = current_schema()::regnamespace "
    "AND relname = ANY (%s) AND relkind = 'r' AND NOT pg_has_role(relowner, 'USAGE')"
)


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
    """Refuse a role that may not write the tables anew (`permission-denied`)."""
    if connection.execute(_OTHERS, [list(TABLES)]).fetchall():
        raise BackendError(
            f"the tables of {url} cannot be written anew, so that nothing was forgotten: they are another role's",
            code=ErrorCode.PERMISSION_DENIED,
            hint="forget with the role that made the store, or make this role a member of it",
            url=url,
        )


def _rewrite(connection: Connection, table: str, url: str) -> int:
    """Write a table anew; how many removed rows are still in it."""
    notices: list[tuple[str | None, str]] = []

    def note(told: Diagnostic) -> None:
        # Taken out at once, because the driver's record of it does not last.
        text = told.message_detail if told.severity_nonlocalized != "WARNING" else told.message_primary
        notices.append((told.severity_nonlocalized, text or ""))

    connection.add_notice_handler(note)
    try:
        connection.execute(f"VACUUM (FULL, VERBOSE) {table}")
    finally:
        connection.remove_notice_handler(note)
    left = 0
    for severity, text in notices:
        if severity == "WARNING":
            raise permission_denied(url, text or f"{table} is another role's")
        # "0 dead row versions cannot be removed yet.", in whatever language: the number comes first.
        number = re.search(r"\d+", text)
        left += int(number[0]) if number else 0
    return left
