"""Extension tables as plain data, for backends that have no SQL: a change that is refused leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any

from holdfast.backends.table_sql import parent_missing, stored_query, unexpected
from holdfast.errors import ConflictError
from holdfast.storage.tables import Row, RowChange, RowQuery, Table, Value, stored_tables

_Key = tuple[Value, ...]


class Tables:
    """The declared tables and their rows, by key. Once made it is never changed."""

    def __init__(self) -> None:
        self._declared: dict[str, Table] = {}
        self._rows: dict[str, dict[_Key, Row]] = {}

    def _copy(self) -> Tables:
        made = Tables()
        made._declared = dict(self._declared)
        made._rows = {name: dict(rows) for name, rows in self._rows.items()}
        return made

    def to_data(self) -> dict[str, Any]:
        """Everything as plain data, for a backend that writes it somewhere."""
        definitions = {name: table.definition for name, table in self._declared.items()}
        return {
            "definitions": definitions,
            "rows": {name: list(self._rows[name].values()) for name in definitions},
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Tables:
        """What `to_data` gave."""
        made = cls()
        made._declared = stored_tables(data["definitions"])
        for name, table in made._declared.items():
            made._rows[name] = {tuple(row[each] for each in table.key): row for row in data["rows"][name]}
        return made

    def declared(self) -> list[Table]:
        """All tables, each after those that it refers to."""
        definitions = {name: table.definition for name, table in self._declared.items()}
        return list(stored_tables(definitions).values())

    def changed(self, changes: Iterable[RowChange]) -> Tables:
        """What changes make of the tables.

        Raises:
            ConflictError: A row is not as a change needs it.
        """
        changes = list(changes)
        if not changes:
            return self
        made = self._copy()
        for change in changes:
            # Its own kind, and not yet anybody else's.
            made._declare(change.table)  # noqa: SLF001
            made._carry_out(change)  # noqa: SLF001
        return made

    def find(self, table: Table, query: RowQuery) -> list[Row]:
        """The rows of a query, with the columns that are declared."""
        stored = self._declared.get(table.name)
        wanted = None if stored is None else stored_query(table, stored, query)
        if stored is None or wanted is None:
            return []
        found = [
            row
            for row in self._rows[table.name].values()
            if all(row[name] == value for name, value in wanted.where)
            and wanted.session in (None, self._session_of(stored, row))
        ]
        found.sort(key=itemgetter(*table.key))
        for name, falls in reversed(query.order_by):
            found.sort(key=lambda row, name=name: (row[name] is not None, row[name] or 0), reverse=falls)  # type: ignore[misc]
        blank = dict.fromkeys(table.columns)
        return [{name: row.get(name) for name in blank} for row in found[: query.limit]]

    def without(self, session: str) -> Tables:
        """The tables without the rows of a session."""
        made = self._copy()
        for name, table in self._declared.items():
            if not table.session_path:
                for key in [key for key, row in self._rows[name].items() if row["session"] == session]:
                    made._remove(table, key)  # noqa: SLF001
        return made

    def _declare(self, table: Table) -> None:
        stored = self._declared.get(table.name)
        if stored == table:
            return
        for parent in table.foreign_keys.values():
            self._declare(parent)
        kept = table if stored is None else table.merged(stored)
        self._declared[table.name] = kept
        blank = dict.fromkeys(kept.columns)
        self._rows[table.name] = {
            key: {**blank, **row} for key, row in self._rows.get(table.name, {}).items()
        }

    def _carry_out(self, change: RowChange) -> None:
        table, rows = self._declared[change.table.name], self._rows[change.table.name]
        current = rows.get(change.key)
        if change.kind == "delete":
            self._remove(table, change.key)
            return
        if change.kind == "insert" and current is not None:
            raise ConflictError.row_conflict(table.name, change.key, "is there already")
        if change.kind == "update":
            actual = None if current is None else tuple(current[name] for name in change.expected_columns)
            if actual != change.expected:
                raise unexpected(change, actual)
        base = dict.fromkeys(table.columns) if current is None else current
        row = {**base, **dict(zip(change.columns, change.values, strict=True))}
        for own, other in table.foreign_keys.items():
            wanted = tuple(row[name] for name in own)
            if None not in wanted and wanted not in self._rows[other.name]:
                raise parent_missing(change)
        rows[change.key] = row

    def _remove(self, table: Table, key: _Key) -> None:
        if self._rows[table.name].pop(key, None) is None:
            return
        for child, own in self._children(table):
            refers = [
                at for at, row in self._rows[child.name].items() if tuple(row[name] for name in own) == key
            ]
            for each in refers:
                self._remove(child, each)

    def _children(self, table: Table) -> Iterator[tuple[Table, tuple[str, ...]]]:
        for child in self._declared.values():
            for own, other in child.foreign_keys.items():
                if other.name == table.name:
                    yield child, own

    def _session_of(self, table: Table, row: Row) -> str | None:
        for own, other in table.session_path or ():
            row = self._rows[other.name][tuple(row[name] for name in own)]
        session: str = row["session"]
        return session
