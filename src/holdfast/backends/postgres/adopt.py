"""Rows of another store become rows of this one: the transaction behind `PostgresBackend.adopt`.

Nothing is worked out here. What the rows are to be was read and compared before; the transaction asks whether the
session is still as it was then, and writes. What was adopted is remembered in a counter of the session's own, so that
the next copy can tell whether anybody has written since.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from holdfast.backends import rules
from holdfast.backends.chunk_codec import PackedChunk
from holdfast.backends.postgres import commit
from holdfast.backends.postgres.chunks import present_among, put_in_turn
from holdfast.backends.postgres.connection import Connection
from holdfast.backends.postgres.reader import mark_name
from holdfast.errors import ConflictError
from holdfast.storage.copy_rows import Adoption, adoption_mark
from holdfast.storage.records import CheckpointRow

_PUT_SESSION = (
    "INSERT INTO sessions SELECT * FROM json_populate_record(NULL::sessions, %s::json) "
    "ON CONFLICT (number) DO UPDATE SET agent = excluded.agent, project = excluded.project, "
    "created_at = excluded.created_at, last_seq = excluded.last_seq, log_count = excluded.log_count, "
    "log_tip = excluded.log_tip, current = excluded.current, seal = excluded.seal"
)
_DELETE_TAGS = (
    "DELETE FROM tags AS t USING checkpoints AS c WHERE c.id = ANY (%b) AND c.session = %s "
    "AND t.position = c.position"
)
_DELETE_CHECKPOINTS = "DELETE FROM checkpoints WHERE id = ANY (%b) AND session = %s"
_PLACES = "SELECT nextval('positions') FROM generate_series(1, %s)"
_INSERT_CHECKPOINTS = (
    "INSERT INTO checkpoints SELECT * FROM json_populate_recordset(NULL::checkpoints, %s::json)"
)
_INSERT_TAGS = "INSERT INTO tags SELECT * FROM json_populate_recordset(NULL::tags, %s::json)"
_INSERT_BRANCHES = "INSERT INTO branches SELECT * FROM json_populate_recordset(NULL::branches, %s::json)"
_INSERT_OPERATIONS = (
    "INSERT INTO operations SELECT * FROM json_populate_recordset(NULL::operations, %s::json)"
)
_PUT_MARK = "INSERT INTO counters (name, value) VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"


def adopt(connection: Connection, batch: Adoption, chunks: Sequence[PackedChunk]) -> None:
    """Carry out an adoption in a transaction of its own.

    Args:
        connection: In no transaction.
        batch: What to commit.
        chunks: Its chunks, packed.
    """
    session = batch.session
    with connection.transaction():
        epoch = commit.enter(connection)
        number, current = commit.lock_session(connection, session.id)
        if current != batch.expected:
            raise ConflictError.session_changed(session.id)
        columns = commit.session_columns(number, session)
        try:
            connection.execute(_PUT_SESSION, [json.dumps(columns, ensure_ascii=False)])
        except psycopg.errors.UniqueViolation as made:
            # A session that is not there cannot be locked: somebody made it in between.
            raise ConflictError.session_changed(session.id) from made
        put_in_turn(connection, chunks, epoch)
        _stamp_found(connection, batch, epoch)
        _replace_checkpoints(connection, batch, number)
        if batch.branches is not None:
            connection.execute("DELETE FROM branches WHERE session = %s", [number])
            _insert(
                connection, _INSERT_BRANCHES, [commit.branch_columns(number, each) for each in batch.branches]
            )
        if batch.cuts_log_from:
            connection.execute(
                "DELETE FROM operations WHERE session = %s AND number >= %s", [number, batch.cuts_log_from]
            )
        entries = [commit.operation_columns(number, each) for each in batch.operations]
        _insert(connection, _INSERT_OPERATIONS, entries)
        if batch.whole is None:
            forget_adoption(connection, session.id)
        else:
            mark = adoption_mark(session, "whole" if batch.whole else "partial")
            connection.execute(_PUT_MARK, [mark_name(session.id), mark])


def forget_adoption(connection: Connection, session: str) -> None:
    """Remove what is remembered, its name included: the session is erased, or is no copy any more."""
    connection.execute("DELETE FROM counters WHERE name = %s", [mark_name(session)])


def _stamp_found(connection: Connection, batch: Adoption, epoch: int) -> None:
    if not batch.found:
        return
    connection.execute("SELECT stamp(%b::bytea[], %s)", [list(batch.found), epoch])
    present = present_among(connection, batch.found)
    for name in batch.found:
        if name not in present:
            raise rules.chunk_gone(name)


def _replace_checkpoints(connection: Connection, batch: Adoption, number: int) -> None:
    # All go before any comes: a key may pass from one to another.
    gone = [*batch.removals, *(row.id for row in batch.checkpoints)]
    if gone:
        connection.execute(_DELETE_TAGS, [gone, number])
        connection.execute(_DELETE_CHECKPOINTS, [gone, number])
    wanted = sum(not row.position for row in batch.checkpoints)
    places = iter(connection.execute(_PLACES, [wanted]).fetchall() if wanted else ())
    placed = [row if row.position else row._replace(position=next(places)[0]) for row in batch.checkpoints]
    _insert(connection, _INSERT_CHECKPOINTS, [_columns(number, row) for row in placed])
    labels = [{"tag": tag, "position": row.position} for row in placed for tag in row.tags]
    _insert(connection, _INSERT_TAGS, labels)


def _columns(number: int, row: CheckpointRow) -> dict[str, Any]:
    """A row with the seal that it has here: over everything but position and stored_bytes."""
    return commit.checkpoint_columns(row) | {
        "session": number,
        "position": row.position,
        "stored_bytes": row.stored_bytes,
    }


def _insert(connection: Connection, statement: str, items: Sequence[Mapping[str, Any]]) -> None:
    if items:
        connection.execute(statement.encode(), [json.dumps(items, ensure_ascii=False)])
