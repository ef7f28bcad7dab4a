"""Commits: a batch, or rows of another store, become rows of this one in a transaction.

This is the hot path, so the checks ride on the writes where they can. A branch moves with an UPDATE that names the
expected head; a key and an id are free if their unique index lets them in. Only when something does not fit are the
rows read to find out what to say. Compression, which takes longest, is done before the transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import apsw

from holdfast.backends import rows, rules
from holdfast.backends.chunk_codec import PackedChunk
from holdfast.backends.sqlite.chunks import stamp_found, write_chunks
from holdfast.backends.sqlite.connection import fetch
from holdfast.backends.sqlite.extension import erase_rows, write_rows
from holdfast.backends.sqlite.lease import check_fence, remove_named_after
from holdfast.backends.sqlite.reader import NEWEST_POSITION, SELECT_SESSION, find_checkpoint
from holdfast.errors import ConflictError
from holdfast.storage.copy_rows import Adoption, adoption_mark
from holdfast.storage.records import Batch, CheckpointId, CheckpointRow, Edit, Move, SessionRow

_INSERT_CHECKPOINT = (
    f"INSERT INTO checkpoints (session, position, {', '.join(rows.CHECKPOINT_COLUMNS)}) "  # noqa: S608 - constants
    f"VALUES (?, ?{', ?' * len(rows.CHECKPOINT_COLUMNS)})"
)
_EPOCH = "SELECT value FROM counters WHERE name = 'epoch'"
_NEWEST_SESSION = "SELECT coalesce(max(number), 0) FROM sessions"
_SELECT_NEWEST = f"SELECT ({NEWEST_POSITION}), ({_EPOCH}), ({_NEWEST_SESSION})"
_SELECT_START = f"SELECT ({NEWEST_POSITION}), ({_EPOCH}), {rows.SESSION_FIELDS} FROM sessions WHERE id = ?"  # noqa: S608
_INSERT_SESSION = f"INSERT INTO sessions ({rows.SESSION_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
# What a save changes; naming the other columns too would make SQLite rewrite the indexes on them.
_UPDATE_COUNTERS = (
    "UPDATE sessions SET last_seq = ?, log_count = ?, log_tip = ?, current = ?, seal = ? WHERE number = ?"
)
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
_SELECT_POSITION = "SELECT position FROM checkpoints WHERE id = ?"
_DELETE_OPERATIONS = "DELETE FROM operations WHERE session = ? AND number >= ?"
_PUT_SESSION = (
    f"INSERT INTO sessions ({rows.SESSION_FIELDS}, adopted) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "  # noqa: S608
    "ON CONFLICT (number) DO UPDATE SET agent = excluded.agent, project = excluded.project, "
    "created_at = excluded.created_at, last_seq = excluded.last_seq, log_count = excluded.log_count, "
    "log_tip = excluded.log_tip, current = excluded.current, seal = excluded.seal, adopted = excluded.adopted"
)
_DELETE_TAGS = (
    "DELETE FROM tags WHERE position = (SELECT position FROM checkpoints WHERE id = ? AND session = ?)"
)
_DELETE_CHECKPOINT = "DELETE FROM checkpoints WHERE position = ?"
_RAISE_POSITION = "UPDATE counters SET value = max(value, ?) WHERE name = 'position'"
_ERASE = (
    "DELETE FROM tags WHERE position IN (SELECT position FROM checkpoints WHERE session = ?)",
    "DELETE FROM checkpoints WHERE session = ?",
    "DELETE FROM branches WHERE session = ?",
    "DELETE FROM operations WHERE session = ?",
    "DELETE FROM sessions WHERE number = ?",
)
_SELECT_KEY = (
    "SELECT c.id FROM checkpoints AS c JOIN sessions AS s ON s.number = c.session "
    "WHERE s.id = ? AND c.key = ?"
)


def write_batch(
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
    if batch.fence is not None:
        check_fence(connection, batch.fence)
    position, epoch, number, current = _start(connection, batch.claim.session)
    session = rules.claim_session(current, batch)
    rules.check_guard(session, batch.guard)
    _check_relied_on(connection, batch)
    new = {row.id: row for row in batch.checkpoints if row.id not in known}
    first_seq = session.last_seq + 1
    session = rules.switched(rules.advance(session, new=len(new), operations=batch.operations), batch)
    _write_session(connection, number, current, session)
    for move in batch.moves:
        _move(connection, session.id, number, move, batch.at)
    stored_bytes = write_chunks(connection, chunks, epoch)
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
        _insert_checkpoint(connection, number, made)
    for edit in batch.edits:
        changed = _write_edit(connection, edit)
        if edit.id in new:
            new[edit.id] = changed
    if batch.operations or batch.cuts_log_from:
        _write_log(connection, number, batch)
    for each in batch.removals:
        _remove(connection, each, session.id)
    if batch.rows:
        write_rows(connection, batch.rows)
    return new


def _insert_checkpoint(connection: apsw.Connection, number: int, row: CheckpointRow) -> None:
    connection.execute(_INSERT_CHECKPOINT, (number, *rows.checkpoint_row(row)[1:]))
    if row.tags:
        connection.executemany(_INSERT_TAG, [(tag, row.position) for tag in row.tags])


def _write_log(connection: apsw.Connection, number: int, batch: Batch | Adoption) -> None:
    if batch.cuts_log_from:
        connection.execute(_DELETE_OPERATIONS, (number, batch.cuts_log_from))
    connection.executemany(_INSERT_OPERATION, [rows.operation_row(number, each) for each in batch.operations])


def _check_relied_on(connection: apsw.Connection, batch: Batch) -> None:
    # A head is always there: where this one is expected to be just that, the move is the check.
    is_head = any(move.expected == batch.relies_on for move in batch.moves)
    for each in batch.also_relies_on if is_head else rules.relied_on(batch):
        if not fetch(connection, _SELECT_POSITION, (each,)):
            raise ConflictError.chunks_gone(each)


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


def _start(connection: apsw.Connection, session: str) -> tuple[int, int, int, SessionRow | None]:
    """The newest position, the epoch, the number of the session, and the session itself if it is there."""
    found = fetch(connection, _SELECT_START, (session,))
    if not found:
        ((position, epoch, number),) = fetch(connection, _SELECT_NEWEST)
        return position, epoch, number + 1, None
    row = found[0]
    return row[0], row[1], row[2], rows.session_from(row[2:])


def _write_session(
    connection: apsw.Connection, number: int, current: SessionRow | None, session: SessionRow
) -> None:
    if current is None:
        connection.execute(_INSERT_SESSION, rows.session_row(number, session))
    elif session is not current:
        connection.execute(_UPDATE_COUNTERS, (*rows.session_row(number, session)[-5:], number))
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


def _remove(connection: apsw.Connection, checkpoint: CheckpointId, session: str) -> None:
    row = find_checkpoint(connection, checkpoint)
    if row is None:
        return
    rules.check_removal(row, session, hidden=row.hidden)
    connection.executemany(_DELETE_TAG, [(tag, row.position) for tag in row.tags])
    connection.execute(_DELETE_CHECKPOINT, (row.position,))
    connection.execute(_RAISE_POSITION, (row.position,))


def adopt(connection: apsw.Connection, batch: Adoption, chunks: Sequence[PackedChunk]) -> None:
    """Carry out an adoption inside a transaction that has the write lock.

    Nothing is worked out here: the transaction asks whether the session is still as it was read, and writes. What was
    adopted is marked in the session's row, so that the next copy can tell whether anybody has written since.
    """
    session = batch.session
    found = fetch(connection, SELECT_SESSION, (session.id,))
    if (rows.session_from(found[0]) if found else None) != batch.expected:
        raise ConflictError.session_changed(session.id)
    ((position, epoch, newest),) = fetch(connection, _SELECT_NEWEST)
    number: int = found[0][0] if found else newest + 1
    mark = None if batch.whole is None else adoption_mark(session, "whole" if batch.whole else "partial")
    connection.execute(_PUT_SESSION, (*rows.session_row(number, session), mark))
    write_chunks(connection, chunks, epoch)
    missing = stamp_found(connection, batch.found, epoch)
    if missing is not None:
        raise rules.chunk_gone(missing)
    # All go before any comes: a key may pass from one to another.
    gone = [(each, number) for each in (*batch.removals, *(row.id for row in batch.checkpoints))]
    connection.executemany(_DELETE_TAGS, gone)
    connection.executemany("DELETE FROM checkpoints WHERE id = ? AND session = ?", gone)
    for row in batch.checkpoints:
        if not row.position:
            position += 1
        _insert_checkpoint(connection, number, row if row.position else row._replace(position=position))
    connection.execute(_RAISE_POSITION, (position,))
    if batch.branches is not None:
        connection.execute("DELETE FROM branches WHERE session = ?", (number,))
        connection.executemany(_INSERT_BRANCH, [rows.branch_row(number, row) for row in batch.branches])
    _write_log(connection, number, batch)


def erase_session(connection: apsw.Connection, session: str) -> None:
    """Remove a session with all that belongs to it, inside a transaction that has the write lock."""
    erase_rows(connection, session)
    ((position,),) = fetch(connection, NEWEST_POSITION)
    connection.execute(_RAISE_POSITION, (position,))
    for (number,) in fetch(connection, "SELECT number FROM sessions WHERE id = ?", (session,)):
        for statement in _ERASE:
            connection.execute(statement, (number,))
    remove_named_after(connection, session)
