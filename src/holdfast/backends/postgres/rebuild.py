"""A new store from what is left of a damaged one, put in its place in one transaction.

The new tables are made and filled in a schema of their own. Then the old schema gets a name that says what it is, and
the new one takes its name: whoever dies at any point leaves the old store or the new one. Writers are kept out by their
lock, and readers by the lock on the tables: a transaction that began before could otherwise find the new tables under
the old names, with nothing in them from its own moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Final

from psycopg import sql

from holdfast.backends import rows
from holdfast.backends.damage import EPOCH_COLUMN, RowInspection, new_chunk_rows, new_counters, new_rows
from holdfast.backends.postgres.connection import Connection
from holdfast.backends.postgres.create import build, check_version
from holdfast.backends.postgres.errors import permission_denied
from holdfast.backends.postgres.extension import read_tables
from holdfast.backends.postgres.inspect_rows import inspection
from holdfast.backends.postgres.locks import TABLES, alone
from holdfast.backends.rows import Row
from holdfast.record import Record
from holdfast.storage.inspection import Rebuilt
from holdfast.storage.ports import Inspection
from holdfast.storage.records import CheckpointRow
from holdfast.storage.tables import CATALOGUE

_AT_ONCE: Final = 200
"""Rows that are sent together."""
_MOST_BYTES: Final = 8 << 20
"""And of chunks no more than so much of data."""
_DATA_COLUMN: Final = 8

_RIGHTS = """
WITH place AS (
    SELECT oid, nspowner, nspacl FROM pg_namespace WHERE nspname = %s
), objects AS (
    SELECT 'SCHEMA' AS kind, '' AS name, nspowner AS owner, coalesce(nspacl, acldefault('n', nspowner)) AS rights
    FROM place
    UNION ALL
    SELECT 'TABLE', quote_ident(relname), relowner, coalesce(relacl, acldefault('r', relowner))
    FROM pg_class JOIN place ON relnamespace = place.oid WHERE relkind = 'r'
    UNION ALL
    SELECT 'SEQUENCE', quote_ident(relname), relowner, coalesce(relacl, acldefault('s', relowner))
    FROM pg_class JOIN place ON relnamespace = place.oid WHERE relkind = 'S'
    UNION ALL
    SELECT 'FUNCTION', format('%%I(%%s)', proname, pg_get_function_identity_arguments(p.oid)), proowner,
        coalesce(proacl, acldefault('f', proowner))
    FROM pg_proc AS p JOIN place ON pronamespace = place.oid
)
SELECT kind, name, owner::regrole::text, r.privilege_type,
    CASE r.grantee WHEN 0 THEN 'PUBLIC' ELSE r.grantee::regrole::text END, r.is_grantable
FROM objects LEFT JOIN LATERAL aclexplode(rights) AS r ON true
"""


class _Rights(Record):
    """Who owns something, and who may do what with it: privilege and role, and whether they may pass it on."""

    owner: str
    granted: dict[tuple[str, str], bool]


def rebuild_store(
    connection: Connection, schema: str, url: str, plan: Callable[[Inspection], Rebuilt | None]
) -> str | None:
    """Put what `plan` makes of a store in its place; see `Backend.rebuild`.

    Args:
        connection: Used by nobody else.
        schema: The schema of the store.
        url: The name of the store, for errors.
        plan: What to make of it.

    Returns:
        The name of the schema in which the old tables are now.

    Raises:
        BackendError: The role may not make a schema (`permission-denied`), or somebody reads the store for longer than
            we may wait (`store-locked`). Nothing has changed then.
    """
    _check_rights(connection, url)
    stamp = datetime.now(UTC).strftime("%Y%m%dt%H%M%S_%f")
    aside, made = f"{schema}_damaged_{stamp}", f"{schema}_rebuilt_{stamp}"
    # A table that is missing is no hindrance: this is how a store from before it comes to have it.
    there = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'"
    ).fetchall()
    with alone(connection, schema, tables=[table for table in TABLES if (table,) in there]):
        check_version(connection, url)
        # What comes out of a repair has to last, whatever saves were asked to.
        connection.execute("SET LOCAL synchronous_commit = on")
        seen = inspection(connection)
        wanted = plan(seen)
        if wanted is None:
            return None
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(made)))
        _search(connection, made)
        build(connection)
        _search(connection, schema)
        _fill(connection, made, seen, wanted)
        _move_extensions(connection, made, there)
        _carry_rights(connection, schema, made)
        _rename(connection, schema, aside)
        _rename(connection, made, schema)
    return aside


def _fill(connection: Connection, made: str, seen: RowInspection, wanted: Rebuilt) -> None:
    for table, found in groupby(new_rows(seen, wanted, _row_of), key=itemgetter(0)):
        _insert(connection, made, table, (row for _, row in found))
    newest_epoch = newest_chunk = 0
    batch: list[Row] = []
    size = 0
    for row in new_chunk_rows(seen, wanted):
        newest_epoch, newest_chunk = max(newest_epoch, row[EPOCH_COLUMN]), max(newest_chunk, row[0])
        # A column of whole numbers, where SQLite takes a truth value for one.
        batch.append((*row[:7], int(row[7]), row[_DATA_COLUMN]))
        size += len(row[_DATA_COLUMN])
        if size >= _MOST_BYTES or len(batch) >= _AT_ONCE:
            _insert(connection, made, "chunks", batch)
            batch, size = [], 0
    _insert(connection, made, "chunks", batch)
    counters = new_counters(seen, newest_epoch)
    connection.execute(
        sql.SQL("UPDATE {} SET value = %s WHERE name = 'epoch'").format(sql.Identifier(made, "counters")),
        [counters["epoch"]],
    )
    for sequence, newest in (
        ("positions", counters["position"]),
        ("session_numbers", len(wanted.sessions)),
        ("chunk_numbers", newest_chunk),
        ("lease_epochs", counters["lease"]),
    ):
        if newest:
            # A new sequence begins at 1, and cannot be set to 0.
            connection.execute("SELECT setval(%s::regclass, %s)", [f"{made}.{sequence}", newest])


def _move_extensions(connection: Connection, made: str, there: Sequence[Row]) -> None:
    """Bring the extension tables along as they are: the server answers for their pages, and nothing refers to ours."""
    if (CATALOGUE,) not in there:
        return
    copied = sql.SQL("INSERT INTO {} SELECT * FROM {}")
    connection.execute(copied.format(sql.Identifier(made, CATALOGUE), sql.Identifier(CATALOGUE)))
    for name in read_tables(connection):
        moved = sql.SQL("ALTER TABLE {} SET SCHEMA {}")
        connection.execute(moved.format(sql.Identifier(name), sql.Identifier(made)))


def _carry_rights(connection: Connection, schema: str, made: str) -> None:
    """Give the new schema and all in it the owners and the rights that the old one has."""
    wanted = _rights(connection, schema)
    # The schema comes first: an owner of what is in it must have the right to make things there.
    for (kind, name), new in sorted(
        _rights(connection, made).items(), key=lambda each: each[0][0] != "SCHEMA"
    ):
        if (kind, name) in wanted and new.owner != wanted[kind, name].owner:
            _alter(connection, f"ALTER {kind} {_place(made, name)} OWNER TO {wanted[kind, name].owner}")
    # A new owner has taken over the rights of the one before.
    for (kind, name), new in _rights(connection, made).items():
        old = wanted.get((kind, name), new)
        where = f"ON {kind} {_place(made, name)}"
        for (privilege, role), _ in new.granted.items() - old.granted.items():
            _alter(connection, f"REVOKE {privilege} {where} FROM {role}")
        for (privilege, role), passes_on in old.granted.items() - new.granted.items():
            option = " WITH GRANT OPTION" if passes_on else ""
            _alter(connection, f"GRANT {privilege} {where} TO {role}{option}")


def _rights(connection: Connection, schema: str) -> dict[tuple[str, str], _Rights]:
    """The rights to each thing in a schema, by its kind and its name; that of the schema itself is empty."""
    found: dict[tuple[str, str], _Rights] = {}
    for kind, name, owner, privilege, role, passes_on in connection.execute(_RIGHTS, [schema]).fetchall():
        rights = found.setdefault((kind, name), _Rights(owner, {}))
        if privilege is not None:
            # Several may have given it to the same role.
            rights.granted[privilege, role] = rights.granted.get((privilege, role), False) or passes_on
    return found


def _place(schema: str, name: str) -> str:
    return f"{schema}.{name}" if name else schema


def _alter(connection: Connection, statement: str) -> None:
    # As bytes: all parts are the server's own, with quotes where they need them.
    connection.execute(statement.encode())


def _insert(connection: Connection, made: str, table: str, found: Iterable[Row]) -> None:
    statement: sql.Composed | None = None
    for batch in _batches(found):
        if statement is None:
            text = "INSERT INTO {} VALUES ({})"
            if table == "header":
                # The new tables come with a header of their own.
                text += " ON CONFLICT (key) DO UPDATE SET value = excluded.value, seal = excluded.seal"
            places = sql.SQL(", ").join(sql.Placeholder() * len(batch[0]))
            statement = sql.SQL(text).format(sql.Identifier(made, table), places)
        connection.cursor().executemany(statement, batch)


def _batches(found: Iterable[Row]) -> Iterable[list[Row]]:
    batch: list[Row] = []
    for row in found:
        batch.append(row)
        if len(batch) >= _AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _row_of(row: CheckpointRow) -> Row:
    """A checkpoint as a row; its seal leaves out what the server once gave it."""
    given = rows.checkpoint_row(row._replace(position=0, stored_bytes=0))
    return (*rows.checkpoint_row(row)[:-1], given[-1])


def _search(connection: Connection, schema: str) -> None:
    connection.execute("SELECT set_config('search_path', %s, true)", [f"{schema}, pg_temp"])


def _rename(connection: Connection, schema: str, name: str) -> None:
    statement = sql.SQL("ALTER SCHEMA {} RENAME TO {}")
    connection.execute(statement.format(sql.Identifier(schema), sql.Identifier(name)))


def _check_rights(connection: Connection, url: str) -> None:
    ((may_create,),) = connection.execute(
        "SELECT has_database_privilege(current_database(), 'CREATE')"
    ).fetchall()
    if not may_create:
        raise permission_denied(
            url, "a repair makes a second schema, and the role may not CREATE in the database"
        )
