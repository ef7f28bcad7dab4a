"""Extension tables in the schema of a store."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

import psycopg

from holdfast.backends import table_sql
from holdfast.backends.table_sql import Dialect
from holdfast.storage.tables import Row, RowChange, RowQuery, Table, Value, stored_tables

Connection = psycopg.Connection[tuple[Any, ...]]

DIALECT: Final = Dialect(
    mark="%s",
    same="IS NOT DISTINCT FROM",
    types=((str, 'text COLLATE "C"'), (int, "bigint"), (float, "double precision"), (bytes, "bytea")),
    ends="",
)
# Making tables is rare, and waits for others that do; their hash of the schema keeps it to one store.
_ALONE: Final = "SELECT pg_advisory_xact_lock(hashtext('holdfast tables'), hashtext(current_schema()))"


def write_rows(
    connection: Connection, changes: Iterable[RowChange], ready: Collection[Table] = frozenset()
) -> None:
    """Carry out changes inside a transaction, in one round trip where their tables are known to be `ready`.

    Raises:
        ConflictError: A row is not as a change needs it (`row-conflict`).
        UnsupportedError: A table is there with other columns (`table-mismatch`).
    """
    changes = list(changes)
    unsure = [table for table in dict.fromkeys(change.table for change in changes) if table not in ready]
    there = read_tables(connection) if unsure else {}
    for table in unsure:
        if there.get(table.name) != table:
            connection.execute(_ALONE)
            _make_ready(connection, table)
    try:
        with connection.pipeline():
            done = [_run(connection, *table_sql.change_statement(change, DIALECT)) for change in changes]
    except psycopg.errors.ForeignKeyViolation as error:
        refused = (
            each for each in changes if each.table.name == error.diag.table_name and each.kind != "delete"
        )
        raise table_sql.parent_missing(next(refused, changes[0])) from error
    for change, cursor in zip(changes, done, strict=True):
        if cursor.rowcount == 0 and change.kind in ("insert", "update"):
            raise table_sql.why_refused(change, lambda sql, key: _fetch(connection, sql, key), DIALECT.mark)


def read_tables(connection: Connection) -> dict[str, Table]:
    """The extension tables of a store, each after those that it refers to."""
    return stored_tables(dict(_fetch(connection, table_sql.SELECT_DEFINITIONS, ())))


def read_rows(connection: Connection, table: Table, query: RowQuery) -> list[Row]:
    """The rows of a query, with the columns that are declared."""
    stored = read_tables(connection).get(table.name)
    wanted = None if stored is None else table_sql.stored_query(table, stored, query)
    if stored is None or wanted is None:
        return []
    columns = [name for name in table.columns if name in stored.columns]
    sql, parameters = table_sql.select_statement(stored, columns, wanted, DIALECT)
    blank = dict.fromkeys(table.columns)
    return [{**blank, **dict(zip(columns, row, strict=True))} for row in _fetch(connection, sql, parameters)]


def count_rows(connection: Connection, table: Table, query: RowQuery) -> int:
    """How many rows match a query."""
    stored = read_tables(connection).get(table.name)
    wanted = None if stored is None else table_sql.stored_query(table, stored, query)
    if stored is None or wanted is None:
        return 0
    sql, parameters = table_sql.count_statement(stored, wanted, DIALECT)
    return int(_fetch(connection, sql, parameters)[0][0])


def erase_rows(connection: Connection, session: str) -> None:
    """Remove the rows of a session."""
    for statement in table_sql.erase_statements(list(read_tables(connection).values()), DIALECT):
        _run(connection, statement, (session,))


def _make_ready(connection: Connection, table: Table) -> None:
    """Make a table, or add what it lacks; nobody else makes tables meanwhile."""
    for parent in table.foreign_keys.values():
        _make_ready(connection, parent)
    stored = read_tables(connection).get(table.name)
    if stored is None:
        statements, kept = table_sql.create_statements(table, DIALECT), table
    else:
        kept = table.merged(stored)
        if kept is stored:
            return
        statements = table_sql.alter_statements(stored, kept, DIALECT)
    # The server's statistics hold values of columns: what was forgotten must not stay there.
    columns = ", ".join(f'ALTER COLUMN "{name}" SET STATISTICS 0' for name in kept.columns)
    for statement in (*statements, f'ALTER TABLE "{table.name}" {columns}'):
        _run(connection, statement, ())
    _run(connection, table_sql.put_definition(DIALECT), (table.name, kept.definition))


def _run(connection: Connection, sql: str, parameters: Iterable[Value]) -> psycopg.Cursor[tuple[Any, ...]]:
    # As bytes: the text is made of checked names, never of a user's words, which is what the type asks for.
    return connection.execute(sql.encode(), tuple(parameters))


def _fetch(connection: Connection, sql: str, parameters: Iterable[Value]) -> list[tuple[Any, ...]]:
    return connection.execute(sql.encode(), tuple(parameters), binary=True).fetchall()
