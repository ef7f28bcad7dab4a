"""Rows of another store become rows of this one: the transaction behind `SqliteBackend.adopt`.

Nothing is worked out here. What the rows are to be was read and compared before; the transaction asks whether the
session is still as it was then, and writes. What was adopted is remembered in a counter of the session's own, so that
the next copy can tell whether anybody has written since.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from holdfast.backends import rows, rules
from holdfast.backends.chunk_codec import PackedChunk
from holdfast.backends.sqlite.chunks import stamp_found, write_chunks
from holdfast.backends.sqlite.connection import fetch
from holdfast.backends.sqlite.read import NEWEST_POSITION, SELECT_SESSION, mark_name
from holdfast.backends.sqlite.write import INSERT_CHECKPOINT
from holdfast.errors import ConflictError
from holdfast.storage.copy_rows import Adoption, adoption_mark
from holdfast.storage.records import BranchRow

_START = (
    f"SELECT ({NEWEST_POSITION}), (SELECT value FROM counters WHERE name = 'epoch'), "  # noqa: S608 - constants
    "(SELECT coalesce(max(number), 0) + 1 FROM sessions)"
)
_PUT_SESSION = (
    f"INSERT INTO sessions ({rows.SESSION_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "  # noqa: S608 - constants
    "ON CONFLICT (number) DO UPDATE SET agent = excluded.agent, project = excluded.project, "
    "created_at = excluded.created_at, last_seq = excluded.last_seq, log_count = excluded.log_count, "
    "log_tip = excluded.log_tip, current = excluded.current, seal = excluded.seal"
)
_RAISE_POSITION = "UPDATE counters SET value = max(value, ?) WHERE name = 'position'"
_DELETE_TAGS = (
    "DELETE FROM tags WHERE position = (SELECT position FROM checkpoints WHERE id = ? AND session = ?)"
)
_DELETE_CHECKPOINT = "DELETE FROM checkpoints WHERE id = ? AND session = ?"
_INSERT_TAG = "INSERT INTO tags (tag, position) VALUES (?, ?)"
_DELETE_BRANCHES = "DELETE FROM branches WHERE session = ?"
_INSERT_BRANCH = "INSERT INTO branches (session, name, head, moved_at, seal) VALUES (?, ?, ?, ?, ?)"
_DELETE_OPERATIONS = "DELETE FROM operations WHERE session = ? AND number >= ?"
_INSERT_OPERATION = (
    "INSERT INTO operations (session, number, kind, at, data, previous, hash, seal) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_PUT_MARK = (
    "INSERT INTO counters (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
_DELETE_MARK = "DELETE FROM counters WHERE name = ?"


def adopt(connection: apsw.Connection, batch: Adoption, chunks: Sequence[PackedChunk]) -> None:
    """Carry out an adoption inside a transaction that has the write lock.

    Args:
        connection: In the transaction.
        batch: What to write.
        chunks: Its chunks, packed.
    """
    session = batch.session
    found = fetch(connection, SELECT_SESSION, (session.id,))
    if (rows.session_from(found[0]) if found else None) != batch.expected:
        raise ConflictError.session_changed(session.id)
    ((position, epoch, next_number),) = fetch(connection, _START)
    number: int = found[0][0] if found else next_number
    connection.execute(_PUT_SESSION, rows.session_row(number, session))
    write_chunks(connection, chunks, epoch)
    missing = stamp_found(connection, batch.found, epoch)
    if missing is not None:
        raise rules.chunk_gone(missing)
    _replace_checkpoints(connection, batch, number, position)
    if batch.branches is not None:
        connection.execute(_DELETE_BRANCHES, (number,))
        connection.executemany(_INSERT_BRANCH, [_branch_row(number, each) for each in batch.branches])
    if batch.cuts_log_from:
        connection.execute(_DELETE_OPERATIONS, (number, batch.cuts_log_from))
    connection.executemany(_INSERT_OPERATION, [rows.operation_row(number, each) for each in batch.operations])
    if batch.whole is None:
        forget_adoption(connection, session.id)
    else:
        mark = adoption_mark(session, "whole" if batch.whole else "partial")
        connection.execute(_PUT_MARK, (mark_name(session.id), mark))


def forget_adoption(connection: apsw.Connection, session: str) -> None:
    """Remove what is remembered, its name included: the session is erased, or is no copy any more."""
    connection.execute(_DELETE_MARK, (mark_name(session),))


def _replace_checkpoints(connection: apsw.Connection, batch: Adoption, number: int, position: int) -> None:
    # All go before any comes: a key may pass from one to another.
    gone = [(each, number) for each in (*batch.removals, *(row.id for row in batch.checkpoints))]
    connection.executemany(_DELETE_TAGS, gone)
    connection.executemany(_DELETE_CHECKPOINT, gone)
    for row in batch.checkpoints:
        placed = row
        if not row.position:
            position += 1
            placed = row._replace(position=position)
        connection.execute(INSERT_CHECKPOINT, (number, *rows.checkpoint_row(placed)[1:]))
        if placed.tags:
            connection.executemany(_INSERT_TAG, [(tag, placed.position) for tag in placed.tags])
    connection.execute(_RAISE_POSITION, (position,))


def _branch_row(number: int, row: BranchRow) -> rows.Row:
    return (
        number,
        row.name,
        row.head,
        row.moved_at,
        rows.branch_seal(row.session, row.name, row.head, row.moved_at),
    )
