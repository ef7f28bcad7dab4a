"""How a schema of a database becomes a store, and is recognized.

The tables come in one transaction, under a lock that only one process can have: a schema is empty or a whole store,
however many processes make it at once. What is there and is not ours is left alone. The version is that of the tables
and functions, and stands in the header; every commit names the one that it was written for.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import resources
from typing import Final

import psycopg
from psycopg import sql

from holdfast.backends.header import check_header, new_header, not_a_store, sealed
from holdfast.backends.postgres.errors import permission_denied
from holdfast.backends.postgres.locks import TABLES, alone
from holdfast.backends.rows import Row
from holdfast.errors import ErrorCode, HoldfastError, NotFoundError, UnsupportedError

Connection = psycopg.Connection[Row]

VERSION: Final = 4
"""Of the tables and functions that this code is written for."""

_PARTS = resources.files("holdfast.backends.postgres")


def recognize(connection: Connection, schema: str, where: str, *, create: bool) -> None:
    """Make sure that the schema is a store of this version; make it where there is none and `create` is true.

    Raises:
        NotFoundError: There is none (`store-missing`).
        InvalidInputError: Something else is in the schema (`not-a-store`).
        UnsupportedError: It has another version (`format-too-new`, `format-too-old`).
    """
    version = find_version(connection, schema, where)
    if version is None:
        if not create:
            raise store_missing(where)
        make(connection, schema, where)
    elif version != VERSION:
        raise wrong_version(where, version)


def find_version(connection: Connection, schema: str, where: str) -> int | None:
    """The version of the store in a schema, its header checked; None where the schema is empty or not there.

    Raises:
        InvalidInputError: Something else is in the schema (`not-a-store`).
        UnsupportedError: The format of the store is not known here (`format-too-new`).
    """
    found, has_others = _contents(connection, schema)
    if not found and not has_others:
        return None
    header = read_header(connection, schema, where) if {"header", "sessions", "chunks"} <= found else {}
    if not header.get("version", "").isdecimal():
        raise not_a_store(
            f"schema {schema!r} of {where}",
            hint="name another schema at the end of the URL (?schema=NAME); this one was left as it is",
        )
    return int(header["version"])


def check_there(connection: Connection, schema: str, where: str) -> None:
    """Make sure that there is something to look for damage in: tables of any state, which we may see.

    Raises:
        NotFoundError: The schema is empty or not there (`store-missing`).
        BackendError: The role may not use it (`permission-denied`); its tables would seem to be gone.
    """
    found, _ = _contents(connection, schema)
    if not found:
        raise store_missing(where)
    _check_usage(connection, schema, where)
    # What is damaged can be told only by the version that wrote it.
    with suppress(psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
        check_version(connection, where)


def _check_usage(connection: Connection, schema: str, where: str) -> None:
    ((allowed,),) = connection.execute("SELECT has_schema_privilege(%s, 'USAGE')", [schema]).fetchall()
    if not allowed:
        raise permission_denied(where, f"permission denied for schema {schema}")


def _contents(connection: Connection, schema: str) -> tuple[set[str], bool]:
    """The tables and views of a schema, and whether it holds anything else: sequences, functions or types.

    In one statement, which sees one moment: another process may be making the store just now.
    """
    ((tables, has_others),) = connection.execute(
        "SELECT ARRAY(SELECT relname::text FROM pg_catalog.pg_class WHERE relnamespace = n.oid "
        "AND relkind IN ('r', 'p', 'v', 'm', 'f')), "
        "EXISTS (SELECT 1 FROM pg_catalog.pg_class WHERE relnamespace = n.oid) "
        "OR EXISTS (SELECT 1 FROM pg_catalog.pg_proc WHERE pronamespace = n.oid) "
        "OR EXISTS (SELECT 1 FROM pg_catalog.pg_type WHERE typnamespace = n.oid) "
        "FROM (SELECT (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = %s)) AS n (oid)",
        [schema],
    ).fetchall()
    return set(tables), bool(has_others)


def read_header(connection: Connection, schema: str, where: str) -> dict[str, str]:
    """The header of a store, each entry checked; empty where the table of that name is another's."""
    table = sql.Identifier(schema, "header")
    try:
        rows = connection.execute(sql.SQL("SELECT key, value, seal FROM {}").format(table)).fetchall()
    except psycopg.errors.UndefinedColumn:
        return {}
    if (
        not rows
        and connection.execute("SELECT row_security_active(%s)", [f"{schema}.header"]).fetchall()[0][0]
    ):
        raise permission_denied(where, f"row-level security hides the rows of schema {schema}")
    # A header that lost what every store has is damaged, but only where the rest of a store is around it.
    is_ours = bool({"format", "store"} & {key for key, _, _ in rows})
    if not is_ours and not set(TABLES) <= _contents(connection, schema)[0]:
        return {}
    return check_header(((key, value, checksum) for key, value, checksum in rows), where)


def make(connection: Connection, schema: str, where: str) -> None:
    """Make a store of an empty schema, unless another process does so first."""
    with alone(connection, schema):
        there = connection.execute(
            "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s", [schema]
        ).fetchall()
        if not there:
            # Where it is there, IF NOT EXISTS would still ask for the right to make one.
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        # The server passes over a schema that the role may not use, and would make all tables temporary ones.
        _check_usage(connection, schema, where)
        if find_version(connection, schema, where) is None:
            build(connection)


def build(connection: Connection) -> None:
    """The tables and the header of a new store, in the schema that comes first in the search path."""
    _run(connection, _PARTS.joinpath("schema.sql").read_text(encoding="utf-8"))
    connection.cursor().executemany(
        "INSERT INTO header VALUES (%s, %s, %s)", [*new_header(), sealed("version", str(VERSION))]
    )


def check_version(connection: Connection, where: str) -> None:
    """Refuse a store whose tables are those of another version; a header that is damaged says nothing.

    Raises:
        UnsupportedError: `format-too-new` or `format-too-old`.
    """
    for row in connection.execute("SELECT key, value, seal FROM header WHERE key = 'version'").fetchall():
        check_entry(row, where)


def check_entry(entry: Row, where: str) -> None:
    """The same for an entry of the header that was read already; any other than that of the version says nothing."""
    key, value, _ = entry
    if key == "version" and value != str(VERSION) and entry == sealed(key, value):
        raise wrong_version(where, int(value))


def store_missing(where: str) -> HoldfastError:
    """There is no store in this place."""
    return NotFoundError(
        f"there is no store at {where}",
        code=ErrorCode.STORE_MISSING,
        hint="make one with `holdfast init`, or name another with --store or HOLDFAST_STORE",
        path=where,
    )


def wrong_version(where: str, version: int) -> UnsupportedError:
    """The store was made for another version of the code."""
    if version > VERSION:
        return UnsupportedError(
            f"the store {where} has tables of version {version}; this version of holdfast knows them up to {VERSION}",
            code=ErrorCode.FORMAT_TOO_NEW,
            hint="upgrade holdfast: pip install --upgrade holdfast",
            path=where,
        )
    return UnsupportedError(
        f"the store {where} was made by a holdfast from before its first release (tables of version {version})",
        code=ErrorCode.FORMAT_TOO_OLD,
        hint="name a new schema (?schema=NAME); the holdfast that made the old one can export what matters",
        path=where,
    )


def _run(connection: Connection, text: str) -> None:
    # As bytes, because the text is our own package's, never a user's: what the type of `execute` is there to ask for.
    connection.execute(text.encode())
