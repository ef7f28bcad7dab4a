"""How a schema of a database becomes a store, and is recognized.

The tables come in one transaction, under a lock that only one process can have: a schema is empty or a whole store,
however many processes make it at once. What is there and is not ours is left alone. The version of tables and functions
stands in the header, and every commit names the one that it was written for.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import resources
from typing import Final

import psycopg
from psycopg import sql

from holdfast.backends.header import check_header, new_header, not_a_store, sealed
from holdfast.backends.postgres.connection import Connection
from holdfast.backends.postgres.errors import permission_denied
from holdfast.backends.postgres.locks import TABLES, alone
from holdfast.backends.rows import Row
from holdfast.backends.rules import store_damaged
from holdfast.errors import ErrorCode, HoldfastError, NotFoundError, UnsupportedError

VERSION: Final = 1
"""Of the tables and functions that this code is written for."""
VERSION_KEY: Final = "schema"
"""Of the header. Stores from before the first release have another one, and its numbers mean nothing here."""

# In one statement, which sees one moment: another process may be making the store just now.
_CONTENTS: Final = """
SELECT ARRAY(SELECT relname::text FROM pg_catalog.pg_class WHERE relnamespace = n.oid
        AND relkind IN ('r', 'p', 'v', 'm', 'f')),
    EXISTS (SELECT 1 FROM pg_catalog.pg_class WHERE relnamespace = n.oid)
        OR EXISTS (SELECT 1 FROM pg_catalog.pg_proc WHERE pronamespace = n.oid)
        OR EXISTS (SELECT 1 FROM pg_catalog.pg_type WHERE typnamespace = n.oid)
FROM (SELECT (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = %s)) AS n (oid)
"""


def recognize(connection: Connection, schema: str, where: str, *, create: bool) -> None:
    """Make sure that the schema is a store of this version; make it where there is none and `create` is true.

    Raises:
        NotFoundError: There is none (`store-missing`).
        InvalidInputError: Something else is in the schema (`not-a-store`).
        UnsupportedError: It has another version (`format-too-new`, `format-too-old`).
    """
    if _is_store(connection, schema, where):
        return
    if not create:
        raise _store_missing(where)
    with alone(connection, schema):
        there = connection.execute(
            "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s", [schema]
        ).fetchall()
        if not there:
            # Where it is there, IF NOT EXISTS would still ask for the right to make one.
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        # The server passes over a schema that the role may not use, and would make all tables temporary ones.
        _check_usage(connection, schema, where)
        # Another process may have made it meanwhile.
        if not _is_store(connection, schema, where):
            build(connection)


def build(connection: Connection) -> None:
    """The tables and the header of a new store, in the schema that comes first in the search path."""
    text = resources.files("holdfast.backends.postgres").joinpath("schema.sql").read_text(encoding="utf-8")
    # As bytes, because the text is our own package's, never a user's: what the type of `execute` is there to ask for.
    connection.execute(text.encode())
    connection.cursor().executemany(
        "INSERT INTO header VALUES (%s, %s, %s)", [*new_header(), sealed(VERSION_KEY, str(VERSION))]
    )


def check_there(connection: Connection, schema: str, where: str) -> None:
    """Make sure that there is something to look for damage in: tables of any state, which we may see.

    Raises:
        NotFoundError: The schema is empty or not there (`store-missing`).
        BackendError: The role may not use it (`permission-denied`); its tables would seem to be gone.
    """
    if not _contents(connection, schema)[0]:
        raise _store_missing(where)
    _check_usage(connection, schema, where)
    # What is damaged can be told only by the version that wrote it.
    with suppress(psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
        check_version(connection, where)


def check_version(connection: Connection, where: str) -> None:
    """Refuse a store whose tables are those of another version; a header that is damaged says nothing.

    Raises:
        UnsupportedError: `format-too-new` or `format-too-old`.
    """
    for row in connection.execute("SELECT key, value, seal FROM header WHERE key = %s", [VERSION_KEY]):
        check_entry(row, where)


def check_entry(entry: Row, where: str) -> None:
    """The same for an entry of the header that was read already."""
    key, value, _ = entry
    if value != str(VERSION) and entry == sealed(key, value):
        raise UnsupportedError(
            f"the store {where} has tables of version {value}; this version of holdfast needs version {VERSION}",
            code=ErrorCode.FORMAT_TOO_NEW,
            hint="upgrade holdfast: pip install --upgrade holdfast",
            path=where,
        )


def _is_store(connection: Connection, schema: str, where: str) -> bool:
    """Whether a store of this version is in the schema, its header checked; False where the schema is empty."""
    found, has_others = _contents(connection, schema)
    if not found and not has_others:
        return False
    rows = _header_rows(connection, schema, where) if {"header", "sessions", "chunks"} <= found else []
    keys = {key for key, _, _ in rows}
    # A header that lost what every store has is damaged, but only where the rest of a store is around it.
    if not keys & {"format", "store"} and not set(TABLES) <= found:
        raise not_a_store(
            f"schema {schema!r} of {where}",
            hint="name another schema at the end of the URL (?schema=NAME); this one was left as it is",
        )
    for row in rows:
        if row[0] == VERSION_KEY:
            check_entry(row, where)
    if "version" in keys:
        raise UnsupportedError(
            f"the store {where} was made by a holdfast from before its first release",
            code=ErrorCode.FORMAT_TOO_OLD,
            hint="name a new schema (?schema=NAME); the holdfast that made the old one can export what matters",
            path=where,
        )
    check_header(rows, where)
    if VERSION_KEY not in keys:
        raise store_damaged(where, "its header is not complete")
    return True


def _header_rows(connection: Connection, schema: str, where: str) -> list[tuple[str, str, int]]:
    """The rows of the header; none where the table of that name is another's."""
    table = sql.Identifier(schema, "header")
    try:
        rows = connection.execute(sql.SQL("SELECT key, value, seal FROM {}").format(table)).fetchall()
    except psycopg.errors.UndefinedColumn:
        return []
    ((is_filtered,),) = connection.execute("SELECT row_security_active(%s)", [f"{schema}.header"]).fetchall()
    if not rows and is_filtered:
        raise permission_denied(where, f"row-level security hides the rows of schema {schema}")
    return [(key, value, checksum) for key, value, checksum in rows]


def _check_usage(connection: Connection, schema: str, where: str) -> None:
    ((allowed,),) = connection.execute("SELECT has_schema_privilege(%s, 'USAGE')", [schema]).fetchall()
    if not allowed:
        raise permission_denied(where, f"permission denied for schema {schema}")


def _contents(connection: Connection, schema: str) -> tuple[set[str], bool]:
    """The tables and views of a schema, and whether it holds anything else: sequences, functions or types."""
    ((tables, has_others),) = connection.execute(_CONTENTS, [schema]).fetchall()
    return set(tables), bool(has_others)


def _store_missing(where: str) -> HoldfastError:
    return NotFoundError(
        f"there is no store at {where}",
        code=ErrorCode.STORE_MISSING,
        hint="make one with `holdfast init`, or name another with --store or HOLDFAST_STORE",
        path=where,
    )
