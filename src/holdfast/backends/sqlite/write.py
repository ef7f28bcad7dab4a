"""A batch becomes rows: the one transaction through which everything is written.

This is the hot path, so the checks ride on the writes where they can. A branch moves with an UPDATE that names the
expected head; a key and an id are free if their unique index lets them in. Only when something does not fit are the
rows read to find out what to say. Compression, which takes longest, is done before the transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import apsw

from holdfast.backends import rules
from holdfast.backends.sqlite import rows
from holdfast.backends.sqlite.chunks import PackedChunk, present_among, write_chunks
from holdfast.backends.sqlite.connection import fetch
from holdfast.backends.sqlite.read import find_checkpoint
from holdfast.errors import ConflictError
from holdfast.storage.records import Batch, CheckpointId, CheckpointRow, Edit, Move, SessionRow

_NEWEST_POSITION = "SELECT coalesce(max(position), 0) FROM checkpoints"
_NEWEST_SESSION = "SELECT coalesce(max(number), 0) FROM sessions"
_SELECT_START = f"SELECT ({_NEWEST_POSITION}), {rows.SESSION_FIELDS} FROM sessions WHERE id = ?"  # noqa: S608
_INSERT_SESSION = f"INSERT INTO sessions ({rows.SESSION_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
# What a save changes; naming the other columns too would make SQLite rewrite the indexes on them.
_UPDATE_COUNTERS = "UPDATE sessions SET last_seq = ?, log_count = ?, log_tip = ?, seal = ? WHERE number = ?"
_UPDATE_OWNER = "UPDATE sessions SET agent = ?, project = ? WHERE number = ?"
_INSERT_BRANCH = (
    "INSERT INTO branches (session, name, head, moved_at, seal) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_UPDATE_BRANCH = (
    "UPDATE branches SET head = ?, moved_at = ?, seal = ? WHERE session = ? AND name = ? AND head = ?"
)
_DELETE_BRANCH = "DELETE FROM branches WHERE session = ? AND name = ? AND head = ?"
_SELECT_BRANCH = "SELECT name, head, moved_at, seal FROM branches WHERE session = ? AND name = ?"
_UPDATE_CHECKPOINT = (
    "UPDATE checkpoints SET prev = ?, skipped = ?, hidden = ?, tags = ?, pinned = ?, edited_message = ?, "
    "added_metadata = ?, seal = ? WHERE position = ?"
)
_INSERT_TAG = "INSERT INTO tags (tag, position) VALUES (?, ?)"
_DELETE_TAG = "DELETE FROM tags WHERE tag = ? AND position = ?"
_INSERT_OPERATION = (
    "INSERT INTO operations (session, number, kind, at, data, previous, hash, seal) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_SELECT_KEY = (
    "SELECT c.id FROM checkpoints AS c JOIN sessions AS s ON s.number = c.session "
    "WHERE s.id = ? AND c.key = ?"
)


def write(
    connection: apsw.Connection, batch: Batch, chunks: Sequence[PackedChunk], known: Collection[CheckpointId]
) -> dict[CheckpointId, CheckpointRow]:
    """Carry out a batch inside a transaction that is already open; the rows that it wrote.

    Args:
        connection: In a transaction that has the write lock.
        batch: What to write.
        chunks: Its chunks, packed.
        known: Checkpoints of the batch that are there already and are not written again.

    Raises:
        apsw.ConstraintError: An id or a key is taken; `diagnose` says which.
    """
    position, number, current = _start(connection, batch.claim.session)
    session = rules.claim_session(current, batch)
    rules.check_guard(session, batch.guard)
    if batch.relies_on is not None and not present_among(connection, [batch.relies_on]):
        raise ConflictError.chunks_gone(batch.relies_on)
    new = {row.id: row for row in batch.checkpoints if row.id not in known}
    first_seq = session.last_seq + 1
    session = rules.advance(session, new=len(new), operations=batch.operations)
    _write_session(connection, number, current, session)
    for move in batch.moves:
        _move(connection, session.id, number, move, batch.at)
    stored_bytes = write_chunks(connection, chunks)
    for offset, row in enumerate(new.values()):
        # The chunks of a batch are not divided among its checkpoints: they count for the first.
        made = rows.numbered(
            row,
            seq=first_seq + offset,
            position=position + 1 + offset,
            stored_at=batch.at,
            stored_bytes=0 if offset else stored_bytes,
        )
        new[row.id] = made
        connection.execute(rows.INSERT_CHECKPOINT, (number, *rows.checkpoint_row(made)[1:]))
        if made.tags:
            connection.executemany(_INSERT_TAG, [(tag, made.position) for tag in made.tags])
    for edit in batch.edits:
        changed = _write_edit(connection, edit)
        if edit.id in new:
            new[edit.id] = changed
    if batch.operations:
        connection.executemany(
            _INSERT_OPERATION, [rows.operation_row(number, each) for each in batch.operations]
        )
    return new


def stored(connection: apsw.Connection, batch: Batch) -> dict[CheckpointId, CheckpointRow]:
    """The checkpoints of a batch that are in the store already."""
    found = (find_checkpoint(connection, row.id) for row in batch.checkpoints)
    return {row.id: row for row in found if row is not None}


def diagnose(connection: apsw.Connection, batch: Batch, known: Collection[CheckpointId]) -> None:
    """Raise where a key of a batch is taken; after the transaction that a unique index refused was rolled back.

    Args:
        connection: Outside of a transaction.
        batch: What was refused.
        known: The checkpoints of the batch that are in the store.
    """
    session = batch.claim.session
    taken: dict[str, CheckpointId] = {}
    for row in batch.checkpoints:
        if row.key is None or row.id in known or taken.get(row.key) == row.id:
            continue
        holders = fetch(connection, _SELECT_KEY, (session, row.key))
        existing = CheckpointId(holders[0][0]) if holders else taken.get(row.key)
        if existing is not None:
            raise ConflictError.key_taken(session, row.key, existing=existing)
        taken[row.key] = row.id


def _start(connection: apsw.Connection, session: str) -> tuple[int, int, SessionRow | None]:
    """The newest position, the number of the session, and the session itself if it is there."""
    found = fetch(connection, _SELECT_START, (session,))
    if not found:
        ((position, number),) = fetch(connection, f"SELECT ({_NEWEST_POSITION}), ({_NEWEST_SESSION})")
        return position, number + 1, None
    row = found[0]
    return row[0], row[1], rows.session_from(row[1:])


def _write_session(
    connection: apsw.Connection, number: int, current: SessionRow | None, session: SessionRow
) -> None:
    if current is None:
        connection.execute(_INSERT_SESSION, rows.session_row(number, session))
    elif session is not current:
        connection.execute(_UPDATE_COUNTERS, (*rows.session_row(number, session)[-4:], number))
        if (session.agent, session.project) != (current.agent, current.project):
            connection.execute(_UPDATE_OWNER, (session.agent, session.project, number))


def _move(connection: apsw.Connection, session: str, number: int, move: Move, at: int) -> None:
    if move.head is None and move.expected is None:
        moved = not fetch(connection, _SELECT_BRANCH, (number, move.branch))
    elif move.head is None:
        connection.execute(_DELETE_BRANCH, (number, move.branch, move.expected))
        moved = connection.changes() == 1
    else:
        checksum = rows.branch_seal(session, move.branch, move.head, at)
        if move.expected is None:
            connection.execute(_INSERT_BRANCH, (number, move.branch, move.head, at, checksum))
        else:
            connection.execute(_UPDATE_BRANCH, (move.head, at, checksum, number, move.branch, move.expected))
        moved = connection.changes() == 1
    if not moved:
        found = fetch(connection, _SELECT_BRANCH, (number, move.branch))
        actual = rows.branch_from(session, found[0]).head if found else None
        raise ConflictError.branch_moved(session, move.branch, expected=move.expected, actual=actual)


def _write_edit(connection: apsw.Connection, edit: Edit) -> CheckpointRow:
    current = find_checkpoint(connection, edit.id)
    if current is None:
        raise rules.edit_missing(edit.id)
    changed = rules.edited(current, edit)
    # From prev to seal: the columns that an edit can change stand at the end.
    connection.execute(_UPDATE_CHECKPOINT, (*rows.checkpoint_row(changed)[-8:], changed.position))
    before, after = set(current.tags), set(changed.tags)
    connection.executemany(_DELETE_TAG, [(tag, changed.position) for tag in before - after])
    connection.executemany(_INSERT_TAG, [(tag, changed.position) for tag in after - before])
    return changed
