"""SQL for extension tables, in the words that SQLite and PostgreSQL share.

Names are checked when a table is declared, and quoted here; values are always parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from holdfast.errors import ConflictError
from holdfast.record import Record
from holdfast.storage.tables import CATALOGUE, RowChange, RowQuery, Table, Value

MAKE_CATALOGUE: Final = (
    f"CREATE TABLE IF NOT EXISTS {CATALOGUE} (name TEXT NOT NULL PRIMARY KEY, definition TEXT NOT NULL)"
)
SELECT_DEFINITIONS: Final = f"SELECT name, definition FROM {CATALOGUE}"  # noqa: S608 - constants
_ORDER: Final = {False: "ASC NULLS FIRST", True: "DESC NULLS LAST"}


class Dialect(Record):
    """How a database writes what the two write differently."""

    mark: str
    """Stands for a parameter."""
    same: str
    """Compares two values, of which both may be missing."""
    types: tuple[tuple[type, str], ...]
    ends: str
    """After the columns of a table."""


def create_statements(table: Table, dialect: Dialect) -> list[str]:
    """What makes a table and its indexes."""
    parts = [_column(table, name, dialect) for name in table.columns]
    parts.append(f"PRIMARY KEY ({_names(table.key)})")
    for own, other in table.foreign_keys.items():
        target = f'"{other.name}" ({_names(other.key)})'
        parts.append(f"FOREIGN KEY ({_names(own)}) REFERENCES {target} ON DELETE CASCADE")
    listed = ", ".join(parts)
    return [f'CREATE TABLE "{table.name}" ({listed}){dialect.ends}', *_indexes(table)]


def alter_statements(stored: Table, table: Table, dialect: Dialect) -> list[str]:
    """What adds the columns and indexes that `table` has beyond `stored`."""
    added = [name for name in table.columns if name not in stored.columns]
    columns = [f'ALTER TABLE "{table.name}" ADD COLUMN {_column(table, name, dialect)}' for name in added]
    return [*columns, *_indexes(table)]


def put_definition(dialect: Dialect) -> str:
    """Enters a table into the catalogue, or its new definition."""
    return (
        f"INSERT INTO {CATALOGUE} (name, definition) VALUES ({dialect.mark}, {dialect.mark}) "  # noqa: S608 - constants
        "ON CONFLICT (name) DO UPDATE SET definition = excluded.definition"
    )


def change_statement(change: RowChange, dialect: Dialect) -> tuple[str, tuple[Value, ...]]:
    """What carries a change out, with its parameters; it has to touch one row, but for a delete."""
    table = change.table
    sql = _change_sql(dialect, table.name, table.key, change.kind, change.columns, change.expected_columns)
    if change.kind in ("insert", "upsert"):
        return sql, change.values
    return sql, (*change.values, *change.key, *change.expected)


def select_statement(
    table: Table, columns: Sequence[str], query: RowQuery, dialect: Dialect
) -> tuple[str, list[Value]]:
    """What reads the rows of a query."""
    where, parameters = _where(table, query, dialect)
    order = [(name, falls) for name, falls in query.order_by if name in columns]
    order += [(name, False) for name in table.key if name not in dict(order)]
    by = ", ".join(f'"{name}" {_ORDER[falls]}' for name, falls in order)
    sql = f'SELECT {_names(columns)} FROM "{table.name}"{where} ORDER BY {by}'  # noqa: S608 - checked names
    if query.limit is not None:
        sql += f" LIMIT {dialect.mark}"
        parameters.append(query.limit)
    return sql, parameters


def count_statement(table: Table, query: RowQuery, dialect: Dialect) -> tuple[str, list[Value]]:
    """What counts the rows of a query."""
    where, parameters = _where(table, query, dialect)
    return f'SELECT count(*) FROM "{table.name}"{where}', parameters  # noqa: S608 - checked names


def erase_statements(tables: Sequence[Table], dialect: Dialect) -> list[str]:
    """What removes the rows of a session, given as the parameter; rows that refer to them go along."""
    own = [table for table in tables if not table.session_path]
    return [f'DELETE FROM "{table.name}" WHERE session = {dialect.mark}' for table in own]  # noqa: S608 - checked names


def stored_query(table: Table, stored: Table, query: RowQuery) -> RowQuery | None:
    """A query without columns that the store does not have: nothing is in them. None where no row can match."""
    table.merged(stored)
    if any(value is not None for name, value in query.where if name not in stored.columns):
        return None
    where = tuple((name, value) for name, value in query.where if name in stored.columns)
    return query._replace(where=where)


def why_refused(
    change: RowChange, read: Callable[[str, tuple[Value, ...]], list[tuple[Any, ...]]], mark: str
) -> ConflictError:
    """The error for an insert or an update that touched no row."""
    if change.kind == "insert":
        return ConflictError.row_conflict(change.table.name, change.key, "is there already")
    key = " AND ".join(f'"{name}" = {mark}' for name in change.table.key)
    columns = _names(change.expected_columns or change.table.key)
    found = read(f'SELECT {columns} FROM "{change.table.name}" WHERE {key}', change.key)  # noqa: S608 - checked names
    return unexpected(change, found[0] if found else None)


def unexpected(change: RowChange, actual: Sequence[Value] | None) -> ConflictError:
    """The error for an update of a row that is not there, or whose expected columns hold something else."""
    if actual is None:
        return ConflictError.row_conflict(change.table.name, change.key, "is not there")
    differences = [
        f"has {name} = {found!r:.60}, not {wanted!r:.60}"
        for name, wanted, found in zip(change.expected_columns, change.expected, actual, strict=True)
        if wanted != found
    ]
    return ConflictError.row_conflict(
        change.table.name, change.key, " and ".join(differences) or "changed meanwhile"
    )


def parent_missing(change: RowChange) -> ConflictError:
    """The error for a row that refers to one that is not there."""
    parents = " or ".join(repr(other.name) for other in change.table.foreign_keys.values())
    return ConflictError.row_conflict(
        change.table.name, change.key, f"refers to a row of {parents} that is not there"
    )


@lru_cache(maxsize=1024)
def _change_sql(
    dialect: Dialect,
    table: str,
    key: tuple[str, ...],
    kind: str,
    columns: tuple[str, ...],
    expected: tuple[str, ...],
) -> str:
    mark = dialect.mark
    matches = " AND ".join(
        [f'"{each}" = {mark}' for each in key] + [f'"{each}" {dialect.same} {mark}' for each in expected]
    )
    if kind == "delete":
        return f'DELETE FROM "{table}" WHERE {matches}'  # noqa: S608 - checked names
    if kind == "update":
        new = ", ".join(f'"{each}" = {mark}' for each in columns)
        return f'UPDATE "{table}" SET {new} WHERE {matches}'  # noqa: S608 - checked names
    marks = ", ".join([mark] * len(columns))
    sql = f'INSERT INTO "{table}" ({_names(columns)}) VALUES ({marks}) ON CONFLICT ({_names(key)}) DO '  # noqa: S608
    others = [each for each in columns if each not in key]
    if kind == "insert" or not others:
        return f"{sql}NOTHING"
    new = ", ".join(f'"{each}" = excluded."{each}"' for each in others)
    return f"{sql}UPDATE SET {new}"


def _where(table: Table, query: RowQuery, dialect: Dialect) -> tuple[str, list[Value]]:
    parts = [
        f'"{name}" IS NULL' if value is None else f'"{name}" = {dialect.mark}' for name, value in query.where
    ]
    parameters: list[Value] = [value for _, value in query.where if value is not None]
    if query.session is not None:
        path = table.session_path or ()
        belongs = f"session = {dialect.mark}"
        for own, other in reversed(path):
            belongs = f'({_names(own)}) IN (SELECT {_names(other.key)} FROM "{other.name}" WHERE {belongs})'  # noqa: S608
        parts.append(belongs)
        parameters.append(query.session)
    return (f" WHERE {' AND '.join(parts)}" if parts else ""), parameters


def _column(table: Table, name: str, dialect: Dialect) -> str:
    column = table.columns[name]
    kind = dict(dialect.types)[column.type]
    return f'"{name}" {kind}' if column.nullable else f'"{name}" {kind} NOT NULL'


def _indexes(table: Table) -> list[str]:
    return [
        f'CREATE INDEX IF NOT EXISTS "{name}" ON "{table.name}" ({_names(group)})'
        for name, group in table.index_groups().items()
    ]


def _names(columns: Sequence[str]) -> str:
    return ", ".join(f'"{each}"' for each in columns)
