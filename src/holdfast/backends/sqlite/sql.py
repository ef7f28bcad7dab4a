"""SQL questions to a SQLite store: a read-only connection that sees published views and nothing else.

The views are temporary, so the file never holds them. The authoriser allows SELECT over them and refuses everything
else: other tables, ATTACH, PRAGMA, writing, and functions that reach out of the database. A clock in the progress
handler stops what runs too long.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import apsw

from holdfast.backends.sqlite.connection import connect, fetch
from holdfast.backends.sqlite.extension import read_tables
from holdfast.errors import BackendError, ErrorCode, InvalidInputError

Answer = tuple[tuple[str, ...], list[tuple[Any, ...]], bool]
"""Columns, rows, and whether more rows were left out."""

_VIEWS: Final = {
    "sessions": "SELECT id, agent, project, created_at / 1000 AS created_at, last_seq, current AS current_branch "
    "FROM main.sessions",
    "checkpoints": "SELECT coalesce(c.key, lower(hex(c.id))) AS id, lower(hex(c.id)) AS checkpoint_id, "
    "s.id AS session, c.seq, c.branch, c.created_at / 1000 AS timestamp, "
    "json_extract(c.metadata, '$.execution_id') AS execution_id, "
    "coalesce(json_extract(c.metadata, '$.agent_id'), s.agent) AS agent_id, c.step, c.status, "
    'c."trigger" AS trigger, coalesce(c.edited_message, c.message) AS message, c.tokens, c.cost_usd, c.duration_ms, '
    "CASE WHEN c.added_metadata IS NULL THEN c.metadata ELSE json_patch(c.metadata, c.added_metadata) END "
    "AS metadata_json, c.pinned, c.size_bytes, c.stored_bytes "
    "FROM main.checkpoints AS c JOIN main.sessions AS s ON s.number = c.session WHERE c.hidden = 0",
    "tags": "SELECT t.tag, coalesce(c.key, lower(hex(c.id))) AS checkpoint_id FROM main.tags AS t "
    "JOIN main.checkpoints AS c USING (position) WHERE c.hidden = 0",
}
EMPTY: Final = {
    "executions": "id session agent_id task started_at completed_at status step_number tokens_used cost_usd "
    "duration_ms",
    "thoughts": "execution_id id checkpoint_id type content confidence parent_id created_at",
    "tool_calls": "execution_id id checkpoint_id tool_id args_json result_json success error status started_at "
    "completed_at thought_id",
}
"""Tables of runs, in a store that has none yet: their views are there, and empty."""

_ALLOWED: Final = {apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE}
_FUNCTIONS_REFUSED: Final = {
    "load_extension",
    "readfile",
    "writefile",
    "edit",
    "fts3_tokenizer",
    "lsdir",
    "randomblob",
}
_TABLE_FUNCTIONS: Final = {"json_each", "json_tree"}
_LONGEST: Final = 16 << 20
"""Bytes of a text or a statement: a question cannot fill the memory with one value."""
_STEPS: Final = 2000
"""Instructions of SQLite's machine between two looks at the clock."""


def ask(
    path: str, sql: str, parameters: Sequence[Any] | Mapping[str, Any], *, seconds: float, limit: int
) -> Answer:
    """Answer one SELECT over the published views.

    Raises:
        InvalidInputError: It is no SQL, or does more than read the views (`sql-refused`).
        BackendError: It took longer than `seconds` (`sql-stopped`).
    """
    connection = connect(path, durability="process", writable=False)
    try:
        published = _publish(connection)
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, _LONGEST)
        connection.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
        connection.authorizer = _authorizer(published)
        ends = time.monotonic() + seconds
        connection.set_progress_handler(lambda: time.monotonic() > ends, _STEPS)
        return _answer(connection, sql, parameters, limit)
    except apsw.InterruptError:
        raise BackendError(
            f"the question was stopped after {seconds:g} s",
            code=ErrorCode.SQL_STOPPED,
            hint="ask for less, or allow more time",
            seconds=seconds,
        ) from None
    except (apsw.SQLError, apsw.AuthError, apsw.BindingsError, apsw.TooBigError, TypeError) as error:
        raise InvalidInputError(
            f"the store does not answer this: {error}",
            code=ErrorCode.SQL_REFUSED,
            hint=f"one SELECT over: {', '.join(sorted(_names(connection)))}",
        ) from None
    finally:
        connection.close(force=True)


def _answer(
    connection: apsw.Connection, sql: str, parameters: Sequence[Any] | Mapping[str, Any], limit: int
) -> Answer:
    statements: list[str] = []

    def only_one(cursor: apsw.Cursor, statement: str, _bindings: Any) -> bool:
        statements.append(statement)
        if len(statements) > 1 or not cursor.is_readonly:
            raise apsw.AuthError("only one SELECT is allowed")
        return True

    cursor = connection.cursor()
    cursor.exec_trace = only_one
    cursor.execute(sql, parameters)
    rows: list[tuple[Any, ...]] = []
    columns: tuple[str, ...] = ()
    for row in cursor:
        if not columns:
            columns = tuple(name for name, *_ in cursor.description_full)
        if len(rows) == limit:
            return columns, rows, True
        rows.append(tuple(row))
    return columns, rows, False


class _Published(NamedTuple):
    views: frozenset[str]
    """What a question may name."""
    inner: str
    """What the names begin with of the views that read the tables: nobody can guess it."""
    hidden: frozenset[str]
    """Tables that no view shows."""


def _publish(connection: apsw.Connection) -> _Published:
    """Make the views, each over one with a secret name.

    SQLite tells the authoriser the innermost view that reads a table, and gives it the name of a common table
    expression in the same place. With a secret name no expression of a question can pass for one of our views.
    """
    views = dict(_VIEWS)
    shown = {"checkpoints", "sessions", "tags"}
    for name, columns in EMPTY.items():
        views[name] = "SELECT " + ", ".join(f"NULL AS {each}" for each in columns.split()) + " WHERE 0"
    for name, table in read_tables(connection).items():
        # Bytes are packed values, which SQL cannot read.
        columns_read = [each for each, column in table.columns.items() if column.type is not bytes]
        views[name] = f"SELECT {', '.join(columns_read)} FROM main.{name}"  # noqa: S608 - names were checked
        shown.add(name)
    secret = f"hf_{secrets.token_hex(16)}_"
    for name, body in views.items():
        fetch(connection, f"CREATE TEMP VIEW {secret}{name} AS {body}")
        fetch(connection, f"CREATE TEMP VIEW {name} AS SELECT * FROM temp.{secret}{name}")  # noqa: S608
    tables = {
        name for (name,) in fetch(connection, "SELECT name FROM main.sqlite_schema WHERE type = 'table'")
    }
    return _Published(frozenset(views), secret, frozenset(tables - shown))


def _names(connection: apsw.Connection) -> list[str]:
    connection.authorizer = None
    connection.set_progress_handler(None, 0)
    found = fetch(connection, "SELECT name FROM temp.sqlite_schema WHERE type = 'view'")
    return [name for (name,) in found if not name.startswith("hf_")]


def _authorizer(published: _Published) -> Any:
    def may_read(table: str, column: str, schema: str | None, inner: str) -> bool:
        if not column:  # a count of rows
            return table not in published.hidden
        if schema == "main":
            return inner.startswith(published.inner) or table in _TABLE_FUNCTIONS
        return table in published.views or inner in published.views

    def allows(
        action: int, first: str | None, second: str | None, schema: str | None, inner: str | None
    ) -> int:
        if action in _ALLOWED:
            allowed = True
        elif action == apsw.SQLITE_READ:
            allowed = may_read(first or "", second or "", schema, inner or "")
        else:
            allowed = action == apsw.SQLITE_FUNCTION and (second or "").lower() not in _FUNCTIONS_REFUSED
        return apsw.SQLITE_OK if allowed else apsw.SQLITE_DENY

    return allows
