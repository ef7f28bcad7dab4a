"""Rows of extension tables, for programs: written alone, read, and taken along by a copy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import ConflictError, ErrorCode, InvalidInputError
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.tables import RowChange, RowQuery, Table
from holdfast.store.draft import check_rows

if TYPE_CHECKING:
    from holdfast.store.lease import HeldLease

_AT_ONCE: Final = 1000
"""Rows that a copy writes in one transaction."""


class Rows:
    """The rows of one table; made by `store.rows(table)`. Each call reads the store as it is then."""

    def __init__(self, backend: Backend, table: Table) -> None:
        if not isinstance(table, Table):
            raise InvalidInputError(
                f"rows() takes a Table, not a {type(table).__name__}",
                code=ErrorCode.BAD_ARGUMENT,
                hint="declare one: holdfast.Table(name, columns={...}, key=(...))",
            )
        self._backend = backend
        self._table = table

    def get(self, *key: Any) -> dict[str, Any] | None:
        """Return the row with this key, or None."""
        where = tuple(zip(self._table.key, self._table.key_of(key), strict=True))
        with self._backend.reader() as reader:
            found = reader.find_rows(self._table, RowQuery(where))
        return found[0] if found else None

    def find(
        self, *, order_by: str | Sequence[str] = (), limit: int | None = None, **where: Any
    ) -> list[dict[str, Any]]:
        """Return the rows that have these values, by key unless `order_by` names columns: `"-at"` is falling.

        None asks for rows without a value in that column, and is lower than any value in an order.
        """
        query = self._table.query(where, order_by=order_by, limit=limit)
        with self._backend.reader() as reader:
            return list(reader.find_rows(self._table, query))

    def count(self, **where: Any) -> int:
        """Return how many rows have these values."""
        query = self._table.query(where)
        with self._backend.reader() as reader:
            return reader.count_rows(self._table, query)

    def __repr__(self) -> str:
        return f"<Rows of {self._table.name}>"


def write(backend: Backend, rows: Iterable[RowChange], lease: HeldLease | None) -> None:
    """Write rows without a checkpoint; see `Store.write`."""
    changes = check_rows(rows)
    if not changes:
        return
    if lease is None:
        backend.write_rows(changes)
        return
    try:
        backend.write_rows(changes, lease.fence)
    except ConflictError as conflict:
        told = lease._noted(conflict)  # noqa: SLF001 - the writer's own lease
        if told is not conflict:
            raise told from conflict
        raise


def copy_rows(source: Reader, target: Backend, session: str) -> None:
    """Make the extension rows of a session at the target what they are at the source."""
    tables = source.tables()
    query = RowQuery(session=session)
    with target.reader() as reader:
        there = {table.name: reader.find_rows(table, query) for table in tables}
    changes: list[RowChange] = []
    wanted = {table.name: source.find_rows(table, query) for table in tables}
    for table in reversed(tables):
        kept = {_key(table, row) for row in wanted[table.name]}
        changes += [table.delete(key) for row in there[table.name] if (key := _key(table, row)) not in kept]
    for table in tables:
        known = {_key(table, row): row for row in there[table.name]}
        changes += [table.upsert(row) for row in wanted[table.name] if known.get(_key(table, row)) != row]
    left = iter(changes)
    while some := list(islice(left, _AT_ONCE)):
        target.write_rows(some)


def _key(table: Table, row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in table.key)
