"""Extension tables: rows that other parts keep beside the checkpoints, in the same database and the same transaction.

A `Table` declares names and types; its methods make changes, which are plain data. A backend carries changes out in the
order in which they are given, all or nothing together with whatever else is in the batch. Every row belongs to a
session, through a column `session` or through the row it refers to, so that it goes when the session is erased.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from types import NoneType
from typing import Any, Final, Literal, get_args

from holdfast.errors import ErrorCode, InvalidInputError, UnsupportedError
from holdfast.record import Record

Value = str | int | float | bytes | None
"""What a column can hold."""
Row = dict[str, Any]
"""One row, by the names of its columns."""

CATALOGUE: Final = "extension_tables"
"""Where a store keeps the declarations of its extension tables."""

ENGINE_TABLES: Final = {
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
}

_NAME = re.compile("[a-z][a-z0-9_]{0,47}")
_NOT_COLUMNS = {"order_by", "limit"}
_TYPES: Final = {"str": str, "int": int, "float": float, "bytes": bytes}
_LONGEST_NAME = 63


class Column(Record):
    """The type of a column."""

    type: type
    nullable: bool = False

    def __str__(self) -> str:
        return f"{self.type.__name__} | None" if self.nullable else self.type.__name__


class RowChange(Record):
    """One change of one row; made by the methods of a `Table`."""

    table: Table
    kind: Literal["insert", "upsert", "update", "delete"]
    key: tuple[Value, ...]
    columns: tuple[str, ...] = ()
    """What is written: of an insert and an upsert the key too."""
    values: tuple[Value, ...] = ()
    expected_columns: tuple[str, ...] = ()
    expected: tuple[Value, ...] = ()
    """What those columns have to hold before the update."""


class RowQuery(Record):
    """Which rows of a table to read, in which order."""

    where: tuple[tuple[str, Value], ...] = ()
    """Each column has to be equal; None asks for rows without a value."""
    order_by: tuple[tuple[str, bool], ...] = ()
    """Columns with whether they fall; a missing value is lower than any other. The key decides between equals."""
    limit: int | None = None
    session: str | None = None
    """Only rows that belong to this session, also through rows that they refer to."""


class Table:
    """A declared table.

    Args:
        name: Its name in SQL: lower-case letters, digits and underscores.
        columns: The type of each column: str, int (64 bits), float or bytes; `int | None` may be empty.
        key: The columns that name a row.
        indexes: Groups of columns to find rows by.
        foreign_keys: Columns that hold the key of a row of another table, which has to be there. When that row goes,
            the rows that refer to it go too.

    Raises:
        InvalidInputError: A declaration that cannot be kept (`bad-argument`).
    """

    def __init__(
        self,
        name: str,
        *,
        columns: Mapping[str, Any],
        key: Sequence[str],
        indexes: Iterable[Sequence[str]] = (),
        foreign_keys: Mapping[tuple[str, ...], Table] | None = None,
    ) -> None:
        self.name: Final = _checked_name(name, "a table")
        if name in ENGINE_TABLES or name.startswith(("sqlite_", "pg_")):
            raise _bad(f"the name {name!r} is taken by the store itself", "choose another name")
        self.columns: Final = {
            _checked_name(each, "a column"): _column(kind) for each, kind in columns.items()
        }
        self.key: Final = self._known("the key", key)
        self.indexes: Final = tuple(self._known("an index", each) for each in indexes)
        self.foreign_keys: Final = {
            self._known("a foreign key", each): other for each, other in (foreign_keys or {}).items()
        }
        for each in self.key:
            if self.columns[each].nullable:
                raise _bad(f"{each!r} is in the key of {name!r} and may be empty", "leave out the None")
        for own, other in self.foreign_keys.items():
            if [self.columns[each].type for each in own] != [other.columns[each].type for each in other.key]:
                raise _bad(
                    f"the foreign key {own} of {name!r} does not fit the key of {other.name!r}",
                    "name as many columns as that has, with the same types",
                )
        if "session" in self.columns and self.columns["session"] != Column(str):
            raise _bad(f"the column 'session' of {name!r} must be a str", "it holds the id of a session")
        if self.session_path is None:
            raise _bad(
                f"the rows of {name!r} belong to no session",
                'add a column "session": str, or a foreign key to a table that has one',
            )
        self.definition: Final = _definition(self)

    @property
    def session_path(self) -> tuple[tuple[tuple[str, ...], Table], ...] | None:
        """The references that lead from a row to the row with its session: none of them where it is here."""
        if "session" in self.columns:
            return ()
        paths = (
            ((own, other), *other.session_path)
            for own, other in self.foreign_keys.items()
            if other.session_path is not None and not any(self.columns[each].nullable for each in own)
        )
        return next(paths, None)

    def insert(self, row: Mapping[str, Any]) -> RowChange:
        """A new row; a key that is there already is a conflict."""
        return self._whole("insert", row)

    def upsert(self, row: Mapping[str, Any]) -> RowChange:
        """A new row, or new values for the one that has this key; columns that are not given stay as they are."""
        return self._whole("upsert", row)

    def update(
        self, key: Sequence[Any], values: Mapping[str, Any], *, expect: Mapping[str, Any] | None = None
    ) -> RowChange:
        """New values for a row. One that is not there, or that is not as expected, is a conflict."""
        for each in values:
            if each in self.key:
                raise _bad(f"{each!r} is in the key of {self.name!r}", "delete the row and insert another")
        if not values:
            raise _bad(f"an update of {self.name!r} changes nothing", "name a column and its new value")
        columns, checked = self._values(values)
        expected_columns, expected = self._values(expect or {})
        return RowChange(self, "update", self.key_of(key), columns, checked, expected_columns, expected)

    def delete(self, key: Sequence[Any]) -> RowChange:
        """A row goes; one that is not there is no error."""
        return RowChange(self, "delete", self.key_of(key))

    def key_of(self, key: Any) -> tuple[Value, ...]:
        """The key of a row, checked."""
        if isinstance(key, str | bytes) or not isinstance(key, Sequence) or len(key) != len(self.key):
            raise _bad(
                f"the key of {self.name!r} is ({', '.join(self.key)}), not {key!r:.80}", "pass it as a tuple"
            )
        return tuple(self.checked(name, value) for name, value in zip(self.key, key, strict=True))

    def query(
        self,
        where: Mapping[str, Any],
        *,
        order_by: str | Sequence[str] = (),
        limit: int | None = None,
    ) -> RowQuery:
        """The question for rows that have these values; `order_by="-at"` puts the highest first."""
        names = [order_by] if isinstance(order_by, str) else list(order_by)
        falls = [(each.removeprefix("-"), each.startswith("-")) for each in names]
        for name, _ in falls:
            self.column(name)
        if limit is not None and (type(limit) is not int or limit < 0):
            raise _bad(f"limit cannot be {limit!r:.40}", "pass a whole number")
        wanted = tuple(
            (name, None if value is None else self.checked(name, value)) for name, value in where.items()
        )
        for name, _ in wanted:
            self.column(name)
        return RowQuery(wanted, tuple(falls), limit)

    def column(self, name: str) -> Column:
        """The column of that name."""
        if name not in self.columns:
            raise _bad(
                f"{self.name!r} has no column {name!r:.60}", f"its columns are {', '.join(self.columns)}"
            )
        return self.columns[name]

    def checked(self, name: str, value: Any) -> Value:
        """A value as its column keeps it.

        Raises:
            InvalidInputError: The column has another type, or the value cannot be kept (`bad-argument`).
        """
        column = self.columns.get(name) or self.column(name)
        kind = type(value)
        if kind is column.type:
            if kind is str:
                if is_storable(value):
                    return value  # type: ignore[no-any-return]
                why = "holds a NUL or half a surrogate pair"
            elif kind is int:
                if -(2**63) <= value < 2**63:
                    return value  # type: ignore[no-any-return]
                why = "has more than 64 bits"
            elif kind is float:
                if not isnan(value):
                    # Not every database keeps the sign of a zero.
                    return value + 0.0  # type: ignore[no-any-return]
                why = "is not a number"
            else:
                return value  # type: ignore[no-any-return]
            raise _bad(f"the value of {self.name}.{name} {why}", "such a value cannot be kept in a column")
        if value is None and column.nullable:
            return None
        if column.type is float and kind is int and abs(value) <= 2**53:
            return float(value)
        raise _bad(f"{self.name}.{name} is {column}, not {kind.__name__}", f"pass a value of type {column}")

    def merged(self, stored: Table) -> Table:
        """This table as a store that has another declaration of it can keep it: with the columns of both.

        Raises:
            UnsupportedError: The two do not fit together (`table-mismatch`).
        """
        if self.key != stored.key:
            raise _mismatch(self.name, f"has the key {stored.key}, not {self.key}")
        for name, column in self.columns.items():
            there = stored.columns.get(name)
            if there is None and not column.nullable:
                raise _mismatch(
                    self.name, f"has no column {name!r}, and rows without it", f"declare {name!r} as `| None`"
                )
            if there is not None and there != column:
                raise _mismatch(self.name, f"keeps {name!r} as {there}, not as {column}")
        for name, column in stored.columns.items():
            if name not in self.columns and not column.nullable:
                raise _mismatch(self.name, f"has a column {name!r}, which is not declared")
        mine = {own: other.name for own, other in self.foreign_keys.items()}
        if mine != {own: other.name for own, other in stored.foreign_keys.items()}:
            raise _mismatch(self.name, "has other foreign keys")
        if self.columns.keys() <= stored.columns.keys() and set(self.indexes) <= set(stored.indexes):
            return stored
        return Table(
            self.name,
            columns={name: _declared(each) for name, each in {**stored.columns, **self.columns}.items()},
            key=self.key,
            indexes=tuple(dict.fromkeys((*stored.indexes, *self.indexes))),
            foreign_keys=self.foreign_keys,
        )

    def index_groups(self) -> dict[str, tuple[str, ...]]:
        """The indexes by their names in SQL; one for each foreign key too, so that a row is removed quickly."""
        wanted = list(self.indexes)
        for own in self.foreign_keys:
            if not any(group[: len(own)] == own for group in (self.key, *wanted)):
                wanted.append(own)
        return {_index_name(self.name, group): group for group in dict.fromkeys(wanted)}

    def _whole(self, kind: Literal["insert", "upsert"], row: Mapping[str, Any]) -> RowChange:
        columns, values = self._values(row)
        for name, column in self.columns.items():
            if name not in row and not column.nullable:
                raise _bad(f"a row of {self.name!r} needs a value for {name!r}", f"pass a {column}")
        return RowChange(
            self,
            kind,
            tuple(map(dict(zip(columns, values, strict=True)).__getitem__, self.key)),
            columns,
            values,
        )

    def _values(self, row: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[Value, ...]]:
        return tuple(row), tuple([self.checked(name, value) for name, value in row.items()])

    def _known(self, what: str, names: Sequence[str]) -> tuple[str, ...]:
        group = (names,) if isinstance(names, str) else tuple(names)
        if not group or len(set(group)) != len(group):
            raise _bad(f"{what} of {self.name!r} cannot be {group!r}", "name each of its columns once")
        for each in group:
            self.column(each)
        return group

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and (self.name, self.definition) == (other.name, other.definition)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"<Table {self.name}>"


def stored_tables(definitions: Mapping[str, str]) -> dict[str, Table]:
    """The tables of a store from what its catalogue says, each after those that it refers to."""
    made: dict[str, Table] = {}

    def make(name: str) -> Table:
        if name not in made:
            told = json.loads(definitions[name])
            parents = {tuple(own): make(other) for own, other in told["foreign_keys"]}
            columns = {each: _from_text(kind) for each, kind in told["columns"].items()}
            made[name] = Table(
                name, columns=columns, key=told["key"], indexes=told["indexes"], foreign_keys=parents
            )
        return made[name]

    for each in sorted(definitions):
        make(each)
    return made


def _definition(table: Table) -> str:
    told = {
        "columns": {name: str(column) for name, column in table.columns.items()},
        "key": table.key,
        "indexes": table.indexes,
        "foreign_keys": [(own, other.name) for own, other in table.foreign_keys.items()],
    }
    return json.dumps(told, separators=(",", ":"))


def _column(kind: Any) -> Column:
    parts = get_args(kind) or (kind,)
    types = [each for each in parts if each is not NoneType]
    if len(types) != 1 or types[0] not in _TYPES.values():
        raise _bad(
            f"a column cannot be {kind!r:.60}", "use str, int, float or bytes, or one of them `| None`"
        )
    return Column(types[0], len(parts) > 1)


def _declared(column: Column) -> Any:
    return column.type | None if column.nullable else column.type


def _from_text(text: str) -> Any:
    name, _, empty = text.partition(" | ")
    return _TYPES[name] | None if empty else _TYPES[name]


def _checked_name(name: Any, what: str) -> str:
    if (
        not isinstance(name, str)
        or not _NAME.fullmatch(name)
        or (name in _NOT_COLUMNS and what == "a column")
    ):
        raise _bad(
            f"{what} cannot be called {name!r:.60}",
            "use lower-case letters, digits and underscores, a letter first, at most 48; not order_by or limit",
        )
    return str(name)


def _index_name(table: str, group: tuple[str, ...]) -> str:
    name = f"{table}_by_{'_'.join(group)}"
    if len(name) <= _LONGEST_NAME:
        return name
    from hashlib import blake2b

    return f"{name[: _LONGEST_NAME - 9]}_{blake2b(name.encode(), digest_size=4).hexdigest()}"


def is_storable(text: str) -> bool:
    """Whether every database keeps a text: no NUL, and no half of a surrogate pair."""
    if text.isascii():
        return "\x00" not in text
    try:
        return b"\x00" not in text.encode()
    except UnicodeEncodeError:
        return False


def _bad(why: str, hint: str) -> InvalidInputError:
    return InvalidInputError(why, code=ErrorCode.BAD_ARGUMENT, hint=hint)


def _mismatch(
    table: str, why: str, hint: str = "give the table another name, or declare it as it is"
) -> UnsupportedError:
    return UnsupportedError(
        f"the table {table!r} of this store {why}", code=ErrorCode.TABLE_MISMATCH, hint=hint, table=table
    )
