"""Extension tables in a SQLite file. Foreign keys are enforced on every connection (`connection.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import apsw

from holdfast.backends import table_sql
from holdfast.backends.sqlite.connection import fetch
from holdfast.backends.sqlite.errors import extended_code
from holdfast.backends.table_sql import Dialect
from holdfast.storage.tables import CATALOGUE, Row, RowChange, RowQuery, Table, stored_tables

DIALECT: Final = Dialect(
    mark="?",
    same="IS",
    types=((str, "TEXT"), (int, "INTEGER"), (float, "REAL"), (bytes, "BLOB")),
    ends=" STRICT",
)
_DEFINITION: Final = f"SELECT definition FROM {CATALOGUE} WHERE name = ?"  # noqa: S608 - constants
_HAS_CATALOGUE: Final = "SELECT 1 FROM sqlite_schema WHERE name = ?"


def write_rows(connection: apsw.Connection, changes: Iterable[RowChange]) -> None:
    """Carry out changes inside a transaction that has the write lock.

    Raises:
        ConflictError: A row is not as a change needs it (`row-conflict`).
        UnsupportedError: A table is there with other columns (`table-mismatch`).
    """
    ready: set[Table] = set()
    for change in changes:
        if change.table not in ready:
            _make_ready(connection, change.table)
            ready.add(change.table)
        sql, parameters = table_sql.change_statement(change, DIALECT)
        try:
            connection.execute(sql, parameters)
        except apsw.ConstraintError as error:
            if extended_code(error) == apsw.SQLITE_CONSTRAINT_FOREIGNKEY:
                raise table_sql.parent_missing(change) from error
            raise
        if change.kind in ("insert", "update") and connection.changes() == 0:
            raise table_sql.why_refused(change, partial(fetch, connection), DIALECT.mark)


def read_tables(connection: apsw.Connection) -> dict[str, Table]:
    """The extension tables of a store, each after those that it refers to."""
    if not fetch(connection, _HAS_CATALOGUE, (CATALOGUE,)):
        return {}
    return stored_tables(dict(fetch(connection, table_sql.SELECT_DEFINITIONS)))


def read_rows(connection: apsw.Connection, table: Table, query: RowQuery) -> list[Row]:
    """The rows of a query, with the columns that are declared."""
    stored = _stored(connection, table)
    wanted = None if stored is None else table_sql.stored_query(table, stored, query)
    if stored is None or wanted is None:
        return []
    columns = [name for name in table.columns if name in stored.columns]
    sql, parameters = table_sql.select_statement(stored, columns, wanted, DIALECT)
    blank = dict.fromkeys(table.columns)
    return [{**blank, **dict(zip(columns, row, strict=True))} for row in fetch(connection, sql, parameters)]


def count_rows(connection: apsw.Connection, table: Table, query: RowQuery) -> int:
    """How many rows match a query."""
    stored = _stored(connection, table)
    wanted = None if stored is None else table_sql.stored_query(table, stored, query)
    if stored is None or wanted is None:
        return 0
    ((count,),) = fetch(connection, *table_sql.count_statement(stored, wanted, DIALECT))
    return int(count)


def erase_rows(connection: apsw.Connection, session: str) -> None:
    """Remove the rows of a session."""
    for statement in table_sql.erase_statements(list(read_tables(connection).values()), DIALECT):
        connection.execute(statement, (session,))


def copy_readable(source: apsw.Connection, made: apsw.Connection) -> None:
    """Bring what can be read of extension tables from a damaged store into a new one."""
    try:
        tables = read_tables(source)
    except apsw.Error:
        return
    for table in tables.values():
        _make_ready(made, table)
        columns = ", ".join(f'"{each}"' for each in table.columns)
        marks = ", ".join("?" * len(table.columns))
        # From both ends, up to where a page cannot be read.
        for order in ("ASC", "DESC"):
            select = f'SELECT {columns} FROM "{table.name}" NOT INDEXED ORDER BY rowid {order}'  # noqa: S608 - checked names
            try:
                for row in source.execute(select):
                    # A row whose parent is lost, or that came from the other end already, stays out.
                    _insert_readable(made, f'INSERT INTO "{table.name}" ({columns}) VALUES ({marks})', row)  # noqa: S608
            except apsw.Error:
                continue
            break


def _insert_readable(made: apsw.Connection, sql: str, row: Sequence[object]) -> None:
    try:
        made.execute(sql, row)
    except apsw.ConstraintError:
        return


def _make_ready(connection: apsw.Connection, table: Table) -> None:
    """Make a table, or add what it lacks, unless it is there as declared."""
    try:
        found = fetch(connection, _DEFINITION, (table.name,))
    except apsw.SQLError:
        connection.execute(f"{table_sql.MAKE_CATALOGUE} STRICT")
        found = []
    if found and found[0][0] == table.definition:
        return
    for parent in table.foreign_keys.values():
        _make_ready(connection, parent)
    if not found:
        statements, kept = table_sql.create_statements(table, DIALECT), table
    else:
        stored = read_tables(connection)[table.name]
        kept = table.merged(stored)
        if kept is stored:
            return
        statements = table_sql.alter_statements(stored, kept, DIALECT)
    for statement in statements:
        connection.execute(statement)
    connection.execute(table_sql.put_definition(DIALECT), (table.name, kept.definition))


def _stored(connection: apsw.Connection, table: Table) -> Table | None:
    """The table as it is in the store, or None."""
    try:
        found = fetch(connection, _DEFINITION, (table.name,))
    except apsw.SQLError:
        # No catalogue: nothing was ever written.
        return None
    if not found or found[0][0] == table.definition:
        return table if found else None
    return read_tables(connection)[table.name]
