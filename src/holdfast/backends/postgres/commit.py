"""A batch becomes rows: worked out here, applied by one function of the schema, all of it or nothing.

The rows of a commit depend on its session: the next seq, the tip of the log, a seal over each row. A writer that was
the last to write to a session knows all that, so that it works the rows out without reading and sends them in one
statement (`attempt`); the function checks that the session is still the same. Where it is not, or is not known, the
session is locked and read first (`locked`), and what cannot be done is refused with the words of `backends/rules.py`.

The seals of checkpoints leave out what only the server knows: the position and the size of the new chunks.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from holdfast.backends import rows, rules
from holdfast.backends.chunk_codec import PackedChunk
from holdfast.backends.postgres.chunks import ChunkColumns
from holdfast.backends.postgres.connection import Connection
from holdfast.backends.postgres.create import VERSION
from holdfast.backends.postgres.extension import write_rows
from holdfast.backends.postgres.reader import check_checkpoint
from holdfast.backends.rows import Row
from holdfast.errors import ConflictError
from holdfast.record import Record
from holdfast.storage.records import (
    Batch,
    BranchRow,
    CheckpointId,
    CheckpointRow,
    Move,
    Operation,
    SessionRow,
)
from holdfast.storage.tables import Table

STALE = "HF409"
"""What `apply` says where the session, a branch or a row is not as the writer knew it."""
UNFOUNDED = "HF412"
"""What it says where a chunk was packed to stand on one that is not there, or left out and is not there."""

_APPLY = (
    "SELECT positions, stored FROM apply(%s::integer, %s::bigint, %s::bigint, %s::json, %b::bytea, %s::json, "
    "%b::bytea[], %s::smallint[], %s::bigint[], %b::bytea[], %b::bytea[], %s::smallint[], %b::bytea[], "
    "%s::json, %s::json, %s::bigint, %s::json, %b::bytea[], %s::text, %s::bigint)"
)
_ENTER = "SELECT enter(%s)"
_SELECT_SESSION = f"SELECT {rows.SESSION_FIELDS} FROM sessions WHERE id = %s FOR NO KEY UPDATE"  # noqa: S608 - constants
_SELECT_CHECKPOINTS = (
    f"SELECT {rows.CHECKPOINT_FIELDS} FROM checkpoints AS c "  # noqa: S608 - constants
    "JOIN sessions AS s ON s.number = c.session WHERE c.id = ANY (%b)"
)
# Nobody removes a checkpoint without this lock on its session. Locks on the rows themselves could be taken in another
# order than by whoever removes them.
_HOLD_SESSIONS = (
    "SELECT number FROM sessions WHERE number IN (SELECT session FROM checkpoints WHERE id = ANY (%b)) "
    "ORDER BY number FOR SHARE"
)
_SELECT_IDS = "SELECT id FROM checkpoints WHERE id = ANY (%b)"
_SELECT_BRANCH = "SELECT name, head, moved_at, seal FROM branches WHERE session = %s AND name = %s"
_SELECT_KEYS = "SELECT key, id FROM checkpoints WHERE session = %s AND key = ANY (%s)"
_ERASE = (
    "DELETE FROM tags WHERE position IN (SELECT position FROM checkpoints WHERE session = %s)",
    "DELETE FROM checkpoints WHERE session = %s",
    "DELETE FROM branches WHERE session = %s",
    "DELETE FROM operations WHERE session = %s",
    "DELETE FROM sessions WHERE number = %s",
)
_COLUMNS = ("position", *(name.strip('"') for name in rows.CHECKPOINT_COLUMNS))
_EDITED = ("prev", "skipped", "hidden", "tags", "pinned", "edited_message", "added_metadata", "seal")
_BRANCH = ("session", "name", "head", "moved_at", "seal")
_OPERATION = ("session", "number", "kind", "at", "data", "previous", "hash", "seal")
_SESSION = tuple(rows.SESSION_FIELDS.split(", "))


class KnownSession(Record):
    """A session as it is in the store."""

    number: int
    row: SessionRow


class Written(Record):
    """What a commit came to."""

    checkpoints: Mapping[CheckpointId, CheckpointRow]
    session: KnownSession


class _Found(Record):
    """What was read for a commit, under the lock on its session."""

    number: int
    session: SessionRow | None
    checkpoints: Mapping[CheckpointId, CheckpointRow]
    """Those of the batch that are there, and those that it edits or removes."""


def attempt(
    connection: Connection,
    batch: Batch,
    chunks: Sequence[PackedChunk],
    known: KnownSession,
    ready: Collection[Table],
) -> Written:
    """Carry out a batch in one statement, from what is known of its session; rows take a transaction.

    Raises:
        psycopg.Error: What was known does not hold (`STALE`), or an id or a key is taken: read first.
        HoldfastError: By what is known it has to be refused: read first, to be sure.
    """
    new = {row.id for row in batch.checkpoints}
    seen = {row.id: row for row in batch.seen if row.id not in new}
    found = _Found(known.number, known.row, seen)
    if not batch.rows:
        return _apply(connection, batch, chunks, found)
    with connection.transaction():
        written = _apply(connection, batch, chunks, found)
        write_rows(connection, batch.rows, ready)
    return written


def can_attempt(batch: Batch) -> bool:
    """Whether the rows of a batch can be worked out without reading others.

    Those that it edits are at hand where the writer has seen them: `apply` says where one is not as it was. That goes
    for edits alone, so that a row can be removed only where this batch edits it, too.
    """
    if not (batch.edits or batch.removals or batch.also_relies_on):
        return True
    edited = {edit.id for edit in batch.edits}
    at_hand = {row.id for row in (*batch.seen, *batch.checkpoints)}
    return edited <= at_hand and edited.issuperset(batch.removals) and not batch.also_relies_on


def locked(
    connection: Connection, batch: Batch, chunks: Sequence[PackedChunk], ready: Collection[Table] = ()
) -> Written:
    """Carry out a batch in a transaction that locks its session first.

    Raises:
        HoldfastError: It is refused.
        psycopg.Error: Somebody made the same session at the same time (`STALE`).
    """
    with connection.transaction():
        enter(connection)
        found = _read(connection, batch)
        there = {
            row.id: found.checkpoints[row.id] for row in batch.checkpoints if row.id in found.checkpoints
        }
        if batch.checkpoints and len(there) == len(batch.checkpoints) and found.session is not None:
            return Written(there, KnownSession(found.number, found.session))
        _check(connection, batch, found)
        written = _apply(connection, batch, chunks, found)
        if batch.rows:
            write_rows(connection, batch.rows, ready)
    return written._replace(checkpoints={**there, **written.checkpoints})


def erase_session(connection: Connection, session: str) -> None:
    """Remove a session with all that belongs to it, inside a transaction that has entered."""
    number, current = lock_session(connection, session)
    for statement in _ERASE if current is not None else ():
        connection.execute(statement, [number])


def enter(connection: Connection) -> int:
    """Take the lock that writers share, inside a transaction; the epoch that chunks are stamped with."""
    ((epoch,),) = connection.execute(_ENTER, [VERSION]).fetchall()
    return int(epoch)


def lock_session(connection: Connection, session: str) -> tuple[int, SessionRow | None]:
    """The number of a session, a new one if it is not there; nobody else writes to it until the transaction ends."""
    found = connection.execute(_SELECT_SESSION, [session]).fetchall()
    if found:
        return found[0][0], rows.session_from(found[0])
    ((number,),) = connection.execute("SELECT nextval('session_numbers')").fetchall()
    return number, None


def _read(connection: Connection, batch: Batch) -> _Found:
    number, current = lock_session(connection, batch.claim.session)
    wanted = [row.id for row in batch.checkpoints] + [edit.id for edit in batch.edits] + [*batch.removals]
    checkpoints: dict[CheckpointId, CheckpointRow] = {}
    for row in connection.execute(_SELECT_CHECKPOINTS, [wanted], binary=True) if wanted else ():
        check_checkpoint(row)
        made = rows.checkpoint_from(row)
        checkpoints[made.id] = made
    return _Found(number, current, checkpoints)


def _check(connection: Connection, batch: Batch, found: _Found) -> None:
    """Refuse what does not hold, in the order of the contract. Nobody else writes to the session meanwhile."""
    if batch.fence is not None:
        # Only who holds a lease needs it.
        from holdfast.backends.postgres.lease import check_fence

        check_fence(connection, batch.fence)
    session = rules.claim_session(found.session, batch)
    rules.check_guard(session, batch.guard)
    if not _relied_on_is_there(connection, batch):
        assert batch.relies_on is not None, "nothing else is not there"
        raise ConflictError.chunks_gone(batch.relies_on)
    if batch.also_relies_on:
        _check_relied_on(connection, batch.also_relies_on)
    for move in batch.moves:
        _check_move(connection, session.id, found.number, move)
    _check_keys(connection, batch, found)


def _check_keys(connection: Connection, batch: Batch, found: _Found) -> None:
    new = [row for row in batch.checkpoints if row.key is not None and row.id not in found.checkpoints]
    if not new:
        return
    keys = [row.key for row in new]
    taken: dict[str, CheckpointId] = dict(connection.execute(_SELECT_KEYS, [found.number, keys]).fetchall())
    for row in new:
        assert row.key is not None, "only those with a key"
        existing = taken.setdefault(row.key, row.id)
        if existing != row.id:
            raise ConflictError.key_taken(batch.claim.session, row.key, existing=existing)


def _relied_on_is_there(connection: Connection, batch: Batch) -> bool:
    if _to_check(batch) is None:
        return True
    return bool(connection.execute(_SELECT_CHECKPOINTS, [[batch.relies_on]]).fetchall())


def _check_relied_on(connection: Connection, wanted: Sequence[CheckpointId]) -> None:
    """Refuse where one of many checkpoints is not there; those that are stay until the transaction ends."""
    connection.execute(_HOLD_SESSIONS, [list(wanted)])
    # A statement of its own, which sees what was removed while the locks were waited for.
    found = {bytes(name) for (name,) in connection.execute(_SELECT_IDS, [list(wanted)], binary=True)}
    for each in wanted:
        if each not in found:
            raise ConflictError.chunks_gone(each)


def _to_check(batch: Batch) -> CheckpointId | None:
    """The checkpoint that a batch relies on, unless a move is the check: a head is always there."""
    if any(move.expected == batch.relies_on for move in batch.moves):
        return None
    return batch.relies_on


def _check_move(connection: Connection, session: str, number: int, move: Move) -> None:
    branches = connection.execute(_SELECT_BRANCH, [number, move.branch]).fetchall()
    actual = rows.branch_from(session, branches[0]).head if branches else None
    if actual != move.expected:
        raise ConflictError.branch_moved(session, move.branch, expected=move.expected, actual=actual)


def _apply(connection: Connection, batch: Batch, chunks: Sequence[PackedChunk], found: _Found) -> Written:
    number, current = found.number, found.session
    new = {row.id: row for row in batch.checkpoints if row.id not in found.checkpoints}
    session = rules.claim_session(current, batch)
    rules.check_guard(session, batch.guard)
    first_seq = session.last_seq + 1
    session = rules.switched(rules.advance(session, new=len(new), operations=batch.operations), batch)
    for offset, row in enumerate(new.values()):
        new[row.id] = rows.numbered(
            row, seq=first_seq + offset, position=0, stored_at=batch.at, stored_bytes=0
        )
    made = [checkpoint_columns(row) for row in new.values()]
    edits = _edits(batch, found.checkpoints, new)
    gone = _removals(batch, found.checkpoints, new)
    # Numbers as text: psycopg would prepare another statement for each size of them.
    given = [
        str(VERSION),
        str(number),
        None if current is None else str(rows.session_row(number, current)[-1]),
        None if session is current else json.dumps(session_columns(number, session), ensure_ascii=False),
        _to_check(batch),
        _json([_move(session.id, move, batch.at) for move in batch.moves]) or "[]",
        *(_sent(ChunkColumns.of(chunks)) if chunks else (None,) * 7),
        _json(made),
        _json(edits),
        str(batch.cuts_log_from) if batch.cuts_log_from else None,
        _json([operation_columns(number, each) for each in batch.operations]),
        gone or None,
        *fence_columns(batch),
    ]
    ((positions, stored),) = connection.execute(_APPLY, given, binary=True).fetchall()
    for offset, (name, position) in enumerate(zip(new, positions or (), strict=True)):
        new[name] = new[name]._replace(position=position, stored_bytes=0 if offset else stored)
    return Written(new, KnownSession(number, session))


def _sent(columns: ChunkColumns) -> tuple[Any, ...]:
    """The columns of chunks as the statement takes them."""
    names, codecs, sizes, bases, marks, referring, bodies = columns
    return names, _numbers(codecs), _numbers(sizes), bases, marks, _numbers(referring), bodies


def _numbers(column: Sequence[int]) -> str:
    return f"{{{','.join(map(str, column))}}}"


def fence_columns(batch: Batch) -> tuple[str | None, str | None]:
    """The lease that has to be held and its epoch, as text; nothing where there is none."""
    fence = batch.fence
    return (None, None) if fence is None else (fence.name, str(fence.epoch))


def _move(session: str, move: Move, at: int) -> dict[str, Any]:
    checksum = None if move.head is None else rows.branch_seal(session, move.branch, move.head, at)
    values = (move.branch, move.expected, move.head, at, checksum)
    return _named(("name", "expected", "head", "moved_at", "seal"), values)


def _edits(
    batch: Batch, there: Mapping[CheckpointId, CheckpointRow], new: dict[CheckpointId, CheckpointRow]
) -> list[dict[str, Any]]:
    """The edits of a batch, one for each row; those of its own new checkpoints show in `new` as well."""
    before: dict[CheckpointId, int] = {}
    after: dict[CheckpointId, CheckpointRow] = {}
    for edit in batch.edits:
        current = after.get(edit.id) or new.get(edit.id) or there.get(edit.id)
        if current is None:
            raise rules.edit_missing(edit.id)
        before.setdefault(edit.id, _sealed(current)[-1])
        after[edit.id] = rules.edited(current, edit)
    for name, row in after.items():
        if name in new:
            new[name] = row
    return [
        {**_named(_EDITED, _sealed(row)[-8:]), "id": _hex(name), "was": before[name]}
        for name, row in after.items()
    ]


def _sealed(row: CheckpointRow) -> Row:
    return rows.checkpoint_row(row._replace(position=0, stored_bytes=0))


def _removals(
    batch: Batch, there: Mapping[CheckpointId, CheckpointRow], new: Mapping[CheckpointId, CheckpointRow]
) -> list[CheckpointId]:
    hidden = {edit.id: edit.hidden for edit in batch.edits}
    gone = []
    for name in batch.removals:
        row = new.get(name) or there.get(name)
        if row is not None:
            rules.check_removal(row, batch.claim.session, hidden=hidden.get(name, row.hidden))
            gone.append(name)
    return gone


def session_columns(number: int, row: SessionRow) -> dict[str, Any]:
    """A session as JSON that PostgreSQL makes a row of."""
    return _named(_SESSION, rows.session_row(number, row))


def branch_columns(number: int, row: BranchRow) -> dict[str, Any]:
    """A branch, likewise."""
    checksum = rows.branch_seal(row.session, row.name, row.head, row.moved_at)
    return _named(_BRANCH, (number, row.name, row.head, row.moved_at, checksum))


def checkpoint_columns(row: CheckpointRow) -> dict[str, Any]:
    """A checkpoint, likewise, without what the server gives it."""
    return _named(_COLUMNS, _sealed(row)[1:])


def operation_columns(number: int, row: Operation) -> dict[str, Any]:
    """An operation, likewise."""
    return _named(_OPERATION, rows.operation_row(number, row))


def _named(names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in zip(names, values, strict=True)}


def _plain(value: object) -> object:
    """A value as JSON has it, in a form that PostgreSQL reads back exactly."""
    if isinstance(value, bytes):
        return _hex(value)
    # As text: JSON has no infinity, and the sign of zero is nothing to rely on there.
    return repr(value) if isinstance(value, float) else value


def _hex(value: bytes) -> str:
    return f"\\x{value.hex()}"


def _json(items: Sequence[Mapping[str, Any]]) -> str | None:
    return json.dumps(items, ensure_ascii=False) if items else None
