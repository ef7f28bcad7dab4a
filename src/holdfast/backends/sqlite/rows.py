"""Records to rows and back, each row with its seal.

A seal covers the columns as they are stored, in the order of the table, with the name of the session in place of its
number: a row that came under another session's number does not match its seal either. Every row read passes through
here, so none is returned unchecked.
"""

from __future__ import annotations

import json

from holdfast.backends.sqlite.connection import Row
from holdfast.errors import IntegrityError
from holdfast.storage.records import BranchRow, CheckpointId, CheckpointRow, ChunkHash, Operation, SessionRow
from holdfast.storage.seal import seal

_ID_BYTES = 32
_NO_TAGS = "[]"

_CHECKPOINT_COLUMNS = (
    "seq", "id", "branch", "parents", "root", "created_at", '"trigger"', "status", "step", "message", "metadata",
    "tokens", "cost_usd", "duration_ms", "app_version", "nonce", "key", "size_bytes", "stored_at", "stored_bytes",
    "prev", "skipped", "hidden", "tags", "pinned", "edited_message", "added_metadata", "seal",
)  # fmt: skip

INSERT_CHECKPOINT = (
    f"INSERT INTO checkpoints (session, position, {', '.join(_CHECKPOINT_COLUMNS)}) "  # noqa: S608 - constants
    f"VALUES (?, ?{', ?' * len(_CHECKPOINT_COLUMNS)})"
)
CHECKPOINT_FIELDS = f"s.id, c.position, {', '.join('c.' + each for each in _CHECKPOINT_COLUMNS)}"
"""What `checkpoint_from` takes, of checkpoints AS c and sessions AS s."""

METADATA_FIELD, ADDED_FIELD = 12, 28
"""Where metadata and what was added to it stand among `CHECKPOINT_FIELDS`."""

SESSION_FIELDS = "number, id, agent, project, created_at, last_seq, log_count, log_tip, seal"
"""What `session_from` takes; the number is the store's own name for the session."""


def numbered(
    row: CheckpointRow, *, seq: int, position: int, stored_at: int, stored_bytes: int
) -> CheckpointRow:
    """A row with what the store gives it. Written out, because `dataclasses.replace` takes twice as long."""
    return CheckpointRow(
        id=row.id,
        session=row.session,
        branch=row.branch,
        parents=row.parents,
        root=row.root,
        created_at=row.created_at,
        trigger=row.trigger,
        status=row.status,
        step=row.step,
        message=row.message,
        metadata=row.metadata,
        tokens=row.tokens,
        cost_usd=row.cost_usd,
        duration_ms=row.duration_ms,
        app_version=row.app_version,
        nonce=row.nonce,
        key=row.key,
        size_bytes=row.size_bytes,
        seq=seq,
        position=position,
        stored_at=stored_at,
        stored_bytes=stored_bytes,
        prev=row.prev,
        skipped=row.skipped,
        hidden=row.hidden,
        tags=row.tags,
        pinned=row.pinned,
        edited_message=row.edited_message,
        added_metadata=row.added_metadata,
    )


def checkpoint_row(row: CheckpointRow) -> Row:
    """A checkpoint as a row: the name of its session, then its columns from position to seal."""
    fields = (
        row.session,
        row.position,
        row.seq,
        row.id,
        row.branch,
        b"".join(row.parents),
        row.root,
        row.created_at,
        row.trigger,
        row.status,
        row.step,
        row.message,
        row.metadata,
        row.tokens,
        row.cost_usd,
        row.duration_ms,
        row.app_version,
        row.nonce,
        row.key,
        row.size_bytes,
        row.stored_at,
        row.stored_bytes,
        row.prev,
        row.skipped,
        row.hidden,
        json.dumps(row.tags, ensure_ascii=False) if row.tags else _NO_TAGS,
        int(row.pinned),
        row.edited_message,
        row.added_metadata,
    )
    return (*fields, seal(*fields))


def check_checkpoint(row: Row) -> None:
    """Raise where a row of `CHECKPOINT_FIELDS` does not match its seal."""
    if seal(*row[:-1]) != row[-1]:
        name = row[3].hex() if isinstance(row[3], bytes) else row[3]
        raise IntegrityError.row_damaged(f"checkpoint {name}", why="its checksum does not match")


def checkpoint_from(row: Row) -> CheckpointRow:
    """The record of a row of `CHECKPOINT_FIELDS` that has been checked."""
    parents = row[5]
    return CheckpointRow(
        session=row[0],
        position=row[1],
        seq=row[2],
        id=CheckpointId(row[3]),
        branch=row[4],
        parents=tuple(CheckpointId(parents[at : at + _ID_BYTES]) for at in range(0, len(parents), _ID_BYTES)),
        root=ChunkHash(row[6]),
        created_at=row[7],
        trigger=row[8],
        status=row[9],
        step=row[10],
        message=row[11],
        metadata=row[METADATA_FIELD],
        tokens=row[13],
        cost_usd=row[14],
        duration_ms=row[15],
        app_version=row[16],
        nonce=row[17],
        key=row[18],
        size_bytes=row[19],
        stored_at=row[20],
        stored_bytes=row[21],
        prev=row[22],
        skipped=row[23],
        hidden=row[24],
        tags=() if row[25] == _NO_TAGS else tuple(json.loads(row[25])),
        pinned=bool(row[26]),
        edited_message=row[27],
        added_metadata=row[ADDED_FIELD],
    )


def session_row(number: int, row: SessionRow) -> Row:
    """A session as a row of `SESSION_FIELDS`, under its number."""
    fields = (
        number,
        row.id,
        row.agent,
        row.project,
        row.created_at,
        row.last_seq,
        row.log_count,
        row.log_tip,
    )
    return (*fields, seal(*fields))


def session_from(row: Row) -> SessionRow:
    """The record of a row of `SESSION_FIELDS`."""
    number, name, agent, project, created_at, last_seq, log_count, log_tip, checksum = row
    if seal(number, name, agent, project, created_at, last_seq, log_count, log_tip) != checksum:
        raise IntegrityError.row_damaged(f"session {name!r}", why="its checksum does not match")
    return SessionRow(
        id=name,
        agent=agent,
        project=project,
        created_at=created_at,
        last_seq=last_seq,
        log_count=log_count,
        log_tip=log_tip,
    )


def branch_seal(session: str, name: str, head: bytes, moved_at: int) -> int:
    """The seal of a branch."""
    return seal(session, name, head, moved_at)


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
