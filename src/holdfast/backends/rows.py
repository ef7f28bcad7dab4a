"""Records to rows and back, each row with its seal.

A seal covers the columns as they are stored, in the order of the table, with the name of the session in place of its
number: a row that came under another session's number does not match its seal either. Every row read passes through
here, so none is returned unchecked.
"""

from __future__ import annotations

import json
from typing import Any

from holdfast.errors import IntegrityError
from holdfast.storage.records import (
    BranchRow,
    CheckpointId,
    CheckpointRow,
    ChunkHash,
    Operation,
    SessionRow,
    seal,
)

Row = tuple[Any, ...]
"""The columns of one row, as a driver gives and takes them."""

_ID_BYTES = 32
_NO_TAGS = "[]"

CHECKPOINT_COLUMNS = (
    "seq", "id", "branch", "parents", "root", "created_at", '"trigger"', "status", "step", "message", "metadata",
    "tokens", "cost_usd", "duration_ms", "app_version", "nonce", "key", "size_bytes", "stored_at", "stored_bytes",
    "prev", "skipped", "hidden", "tags", "pinned", "edited_message", "added_metadata", "seal",
)  # fmt: skip

CHECKPOINT_FIELDS = "s.id, c.*"
"""What `checkpoint_from` takes, of checkpoints AS c and sessions AS s. The star, because looking up thirty names takes
SQLite as long as everything else about a short question; the columns come in the order of the schema."""

METADATA_FIELD, ADDED_FIELD = 13, 29
"""Where metadata and what was added to it stand among `CHECKPOINT_FIELDS`."""

SESSION_FIELDS = "number, id, agent, project, created_at, last_seq, log_count, log_tip, current, seal"
"""What `session_from` takes; the number is the store's own name for the session."""


def numbered(
    row: CheckpointRow, *, seq: int, position: int, stored_at: int, stored_bytes: int
) -> CheckpointRow:
    """A row with what the store gives it. By place, because naming each field takes four times as long."""
    return CheckpointRow(*row[:18], seq, position, stored_at, stored_bytes, *row[22:])


def checkpoint_row(row: CheckpointRow) -> Row:
    """A checkpoint as a row: the name of its session, then its columns from position to seal; by place as well."""
    name, session, branch, parents, root, *said, seq, position, stored_at, stored_bytes = row[:22]
    prev, skipped, hidden, tags, pinned, edited_message, added_metadata = row[22:]
    fields = (
        session,
        position,
        seq,
        name,
        branch,
        b"".join(parents),
        root,
        # From created_at to size_bytes, in the same order here and there.
        *said,
        stored_at,
        stored_bytes,
        prev,
        skipped,
        hidden,
        json.dumps(tags, ensure_ascii=False) if tags else _NO_TAGS,
        int(pinned),
        edited_message,
        added_metadata,
    )
    return (*fields, seal(*fields))


def check_checkpoint(row: Row) -> None:
    """Raise where a row of `CHECKPOINT_FIELDS` does not match its seal."""
    if seal(row[0], row[1], *row[3:-1]) != row[-1]:
        name = row[4].hex() if isinstance(row[4], bytes) else row[4]
        raise IntegrityError.row_damaged(f"checkpoint {name}", why="its checksum does not match")


def checkpoint_from(row: Row) -> CheckpointRow:
    """The record of a row of `CHECKPOINT_FIELDS` that has been checked. By place, like `numbered`."""
    session, position, _, seq, checkpoint, branch, parents, root = row[:8]
    stored_at, stored_bytes, prev, skipped, hidden, tags, pinned, edited_message, added_metadata = row[21:30]
    fields = (
        CheckpointId(checkpoint),
        session,
        branch,
        # Nearly all have one.
        (CheckpointId(parents),)
        if len(parents) == _ID_BYTES
        else tuple([CheckpointId(parents[at : at + _ID_BYTES]) for at in range(0, len(parents), _ID_BYTES)]),
        ChunkHash(root),
        # From created_at to size_bytes, in the same order here and there.
        *row[8:21],
        seq,
        position,
        stored_at,
        stored_bytes,
        prev,
        skipped,
        hidden,
        () if tags == _NO_TAGS else tuple(json.loads(tags)),
        bool(pinned),
        edited_message,
        added_metadata,
    )
    return CheckpointRow._make(fields)


def session_row(number: int, row: SessionRow) -> Row:
    """A session as a row of `SESSION_FIELDS`, under its number: the record has the rest, in the same order."""
    fields = (number, *row)
    return (*fields, seal(*fields))


def session_from(row: Row) -> SessionRow:
    """The record of a row of `SESSION_FIELDS`."""
    if seal(*row[:-1]) != row[-1]:
        raise IntegrityError.row_damaged(f"session {row[1]!r}", why="its checksum does not match")
    return SessionRow(*row[1:-1])


def branch_seal(session: str, name: str, head: bytes, moved_at: int) -> int:
    """The seal of a branch."""
    return seal(session, name, head, moved_at)


def branch_row(number: int, row: BranchRow) -> Row:
    """A branch as a row, under the number of its session."""
    return (
        number,
        row.name,
        row.head,
        row.moved_at,
        branch_seal(row.session, row.name, row.head, row.moved_at),
    )


def branch_from(session: str, row: Row) -> BranchRow:
    """The record of a row (name, head, moved_at, seal)."""
    name, head, moved_at, checksum = row
    if branch_seal(session, name, head, moved_at) != checksum:
        raise IntegrityError.row_damaged(
            f"branch {name!r} of session {session!r}", why="its checksum does not match"
        )
    return BranchRow(session=session, name=name, head=head, moved_at=moved_at)


def operation_row(number: int, operation: Operation) -> Row:
    """An operation as a row, under the number of its session."""
    fields = (
        operation.number,
        operation.kind,
        operation.at,
        operation.data,
        operation.previous,
        operation.hash,
    )
    return (number, *fields, seal(operation.session, *fields))


def operation_from(session: str, row: Row) -> Operation:
    """The record of a row (number, kind, at, data, previous, hash, seal)."""
    number, kind, at, data, previous, digest, checksum = row
    if seal(session, number, kind, at, data, previous, digest) != checksum:
        raise IntegrityError.row_damaged(
            f"operation {number} of session {session!r}", why="its checksum does not match"
        )
    return Operation(
        session=session, number=number, kind=kind, at=at, data=data, previous=previous, hash=digest
    )
