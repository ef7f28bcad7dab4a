"""SQL questions to a store: one SELECT over published views, with limits of time and rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.errors import ErrorCode, InvalidInputError, UnsupportedError
from holdfast.storage.ports import Backend


@dataclass(frozen=True)
class SqlResult:
    """The answer to a question in SQL; iterating gives a dict for each row."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    truncated: bool
    """Whether there are more rows than the limit."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain data."""
        return {
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
            "truncated": self.truncated,
        }


def ask(
    backend: Backend, query: str, parameters: Sequence[Any] | Mapping[str, Any], *, seconds: float, limit: int
) -> SqlResult:
    """Answer a question; see `Store.sql`."""
    if not query.strip() or seconds <= 0 or limit < 1:
        raise InvalidInputError(
            "sql() needs a SELECT, more than 0 seconds and a limit of at least 1",
            code=ErrorCode.SQL_REFUSED,
            hint='store.sql("select tool_id, count(*) from tool_calls group by tool_id")',
        )
    answer = getattr(backend, "ask_sql", None)
    if answer is None:
        raise UnsupportedError(
            f"{backend.url} answers no SQL",
            code=ErrorCode.NOT_SUPPORTED,
            hint="use the ready questions (holdfast ask), or copy the store to SQLite: holdfast copy ./copy",
        )
    columns, rows, truncated = answer(query, parameters, seconds=seconds, limit=limit)
    return SqlResult(columns, rows, truncated)
