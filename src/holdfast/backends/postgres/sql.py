"""SQL questions to a store on PostgreSQL: under a role that may read the published views and nothing else.

A question runs as a login of its own. A read-only transaction of the store's login would not do: a superuser reads
files in it, and `set_config('role', ...)` leaves any role that was only set. The views are in a schema of their own,
made by the store's login and granted to the role.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from holdfast.backends.postgres.connection import Connection
from holdfast.backends.postgres.extension import read_tables
from holdfast.errors import BackendError, ErrorCode, HoldfastError, InvalidInputError, UnsupportedError

Answer = tuple[tuple[str, ...], list[tuple[Any, ...]], bool]
"""Columns, rows, and whether more rows were left out."""

VARIABLE: Final = "HOLDFAST_SQL_URL"

_VIEWS: Final = {
    "sessions": "SELECT id, agent, project, created_at / 1000 AS created_at, last_seq, current AS current_branch "
    "FROM {schema}.sessions",
    "checkpoints": "SELECT coalesce(c.key, encode(c.id, 'hex')) AS id, encode(c.id, 'hex') AS checkpoint_id, "
    "s.id AS session, c.seq, c.branch, c.created_at / 1000 AS timestamp, "
    "c.metadata::jsonb ->> 'execution_id' AS execution_id, "
    "coalesce(c.metadata::jsonb ->> 'agent_id', s.agent) AS agent_id, c.step, c.status, c.trigger, "
    "coalesce(c.edited_message, c.message) AS message, c.tokens, c.cost_usd, c.duration_ms, "
    "CASE WHEN c.added_metadata IS NULL THEN c.metadata "
    "ELSE (c.metadata::jsonb || c.added_metadata::jsonb)::text END AS metadata_json, "
    "c.pinned, c.size_bytes, c.stored_bytes "
    "FROM {schema}.checkpoints AS c JOIN {schema}.sessions AS s ON s.number = c.session WHERE c.hidden = 0",
    "tags": "SELECT t.tag, coalesce(c.key, encode(c.id, 'hex')) AS checkpoint_id FROM {schema}.tags AS t "
    "JOIN {schema}.checkpoints AS c USING (position) WHERE c.hidden = 0",
}
_EMPTY: Final = {"executions": "id", "thoughts": "id", "tool_calls": "id, tool_id"}
_ROLE: Final = """
SELECT current_user,
    (SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls
     FROM pg_catalog.pg_roles WHERE rolname = current_user),
    EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname <> current_user AND pg_has_role(current_user, oid, 'member')),
    has_schema_privilege(current_user, %s, 'usage')
"""


def ask(
    owner: Connection,
    schema: str,
    reader: str | None,
    query: str,
    parameters: Sequence[Any] | Mapping[str, Any],
    *,
    seconds: float,
    limit: int,
) -> Answer:
    """Answer one SELECT over the published views, as the role of `reader`.

    Raises:
        UnsupportedError: There is no such role, or it may do more than read the views (`not-supported`).
        InvalidInputError: It is no SQL, or does more than read the views (`sql-refused`).
        BackendError: It took longer than `seconds` (`sql-stopped`).
    """
    if not reader:
        raise _unfit("there is no role for questions in SQL on this server")
    if not isinstance(parameters, Sequence):
        raise _refused("parameters have no names here", "pass a list, and write $1, $2 ...")
    with _login(owner, reader) as connection:
        role = _checked_role(connection, schema)
        views = _publish(owner, schema, role)
        connection.execute(
            sql.SQL(
                "SET statement_timeout = {}; SET search_path = {}, pg_catalog; SET TRANSACTION READ ONLY"
            ).format(max(1, round(seconds * 1000)), sql.Identifier(f"{schema}_sql"))
        )
        connection.commit()
        connection.read_only = True
        try:
            return _answer(connection, query, parameters, limit)
        except psycopg.errors.QueryCanceled:
            raise BackendError(
                f"the question was stopped after {seconds:g} s",
                code=ErrorCode.SQL_STOPPED,
                hint="ask for less, or allow more time",
                seconds=seconds,
            ) from None
        except psycopg.Error as error:
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise _refused(said, f"one SELECT over: {', '.join(views)}") from None


def _answer(connection: Connection, query: str, parameters: Sequence[Any], limit: int) -> Answer:
    rows: list[tuple[Any, ...]] = []
    # A raw cursor takes the server's own $1, and a stream is always one statement.
    cursor = psycopg.RawCursor(connection)
    for row in cursor.stream(query.encode(), list(parameters)):
        if len(rows) == limit:
            connection.close()
            return _columns(cursor), rows, True
        rows.append(tuple(row))
    return _columns(cursor), rows, False


def _columns(cursor: psycopg.RawCursor[Any]) -> tuple[str, ...]:
    return tuple(each.name for each in cursor.description or ())


def _login(owner: Connection, reader: str) -> Connection:
    """A connection of the reader, to the server and database of the store unless its URL names others."""
    try:
        wanted: dict[str, Any] = {**owner.info.get_parameters(), **conninfo_to_dict(reader)}
        wanted.pop("options", None)
        return Connection.connect(make_conninfo(**wanted), connect_timeout=5)
    except psycopg.Error as error:
        raise _unfit(f"the role for questions in SQL cannot log in: {str(error).splitlines()[0]}") from None


def _checked_role(connection: Connection, schema: str) -> str:
    [(role, mighty, member, sees)] = connection.execute(_ROLE, (schema,)).fetchall()
    for wrong, why in (
        (mighty, "is a superuser, or may make roles or databases"),
        (member, "is a member of other roles"),
        (sees, "may use the schema of the store itself"),
    ):
        if wrong:
            raise _unfit(f"the role {role!r} for questions in SQL {why}")
    return str(role)


def _publish(owner: Connection, schema: str, role: str) -> list[str]:
    """Make the views where they are not there as they should be, and let the role read them."""
    own = sql.Identifier(schema)
    views = {name: sql.SQL(body).format(schema=own) for name, body in _VIEWS.items()}
    tables = read_tables(owner)
    for name, columns in _EMPTY.items():
        if name not in tables:
            names = (sql.SQL("NULL::text AS {}").format(sql.Identifier(each)) for each in columns.split(", "))
            views[name] = sql.Composed(
                [sql.SQL("SELECT "), sql.SQL(", ").join(names), sql.SQL(" WHERE false")]
            )
    for name, table in tables.items():
        shown = [sql.Identifier(each) for each, column in table.columns.items() if column.type is not bytes]
        views[name] = sql.SQL("SELECT {} FROM {}.{}").format(
            sql.SQL(", ").join(shown), own, sql.Identifier(name)
        )
    published = sql.Identifier(f"{schema}_sql")
    text = role + "".join(f"{name} {body.as_string(owner)}" for name, body in views.items())
    mark = hashlib.sha256(text.encode()).hexdigest()
    there = owner.execute(
        "SELECT obj_description(oid, 'pg_namespace') FROM pg_catalog.pg_namespace WHERE nspname = %s",
        (f"{schema}_sql",),
    ).fetchall()
    if there != [(mark,)]:
        try:
            with owner.transaction():
                owner.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(published))
                owner.execute(sql.SQL("CREATE SCHEMA {}").format(published))
                for name, body in views.items():
                    made = sql.SQL("CREATE VIEW {}.{} AS {}").format(published, sql.Identifier(name), body)
                    owner.execute(made)
                given = sql.Identifier(role)
                owner.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(published, given))
                owner.execute(
                    sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA {} TO {}").format(published, given)
                )
                owner.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(published, mark))
        except psycopg.errors.InsufficientPrivilege as error:
            said = str(error).splitlines()[0]
            raise _unfit(f"the views for questions in SQL cannot be made: {said}") from None
    return sorted(views)


def _refused(said: str, hint: str) -> InvalidInputError:
    return InvalidInputError(f"the store does not answer this: {said}", code=ErrorCode.SQL_REFUSED, hint=hint)


def _unfit(said: str) -> HoldfastError:
    return UnsupportedError(
        said,
        code=ErrorCode.NOT_SUPPORTED,
        hint=f"CREATE ROLE asker LOGIN PASSWORD '...', with no other rights, and set {VARIABLE} to "
        "postgresql://asker:...@; the store lets it read its views",
    )
