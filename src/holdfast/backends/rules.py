"""The checks that every backend makes in a commit, as plain functions over rows.

A backend reads the session it writes to, asks these functions what the batch makes of it, and stores the answer. They
are kept apart from any storage, so that all backends refuse the same batches, in the same order, with the same words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.errors import (
    ConflictError,
    ErrorCode,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    StateError,
    bad_argument,
)
from holdfast.storage.records import (
    Batch,
    CheckpointId,
    CheckpointRow,
    ChunkHash,
    Edit,
    Guard,
    Operation,
    SessionRow,
)

if TYPE_CHECKING:
    from holdfast.storage.copy_rows import Adoption


def check_batch(batch: Batch) -> None:
    """Refuse a batch that speaks of two sessions: its rows would be stored under the wrong one."""
    session = batch.claim.session
    for row in batch.checkpoints:
        # NaN is the one float that a database turns into NULL.
        if row.session != session or row.cost_usd != row.cost_usd or row.duration_ms != row.duration_ms:
            raise _unfit(session, f"checkpoint {row.id.hex()[:12]}")
    for operation in batch.operations:
        if operation.session != session:
            raise _unfit(session, f"operation {operation.number}")


def check_adoption(batch: Adoption) -> None:
    """Refuse rows of more than one session: they would be stored under the wrong one."""
    session = batch.session.id
    named = [(row.session, f"checkpoint {row.id.hex()[:12]}") for row in batch.checkpoints]
    named += [(each.session, f"branch {each.name!r}") for each in batch.branches or ()]
    named += [(each.session, f"operation {each.number}") for each in batch.operations]
    if batch.expected is not None:
        named.append((batch.expected.id, "the session that is expected"))
    for name, what in named:
        if name != session:
            raise _unfit(session, what)


def chunk_gone(chunk: ChunkHash) -> ConflictError:
    """The error for an adoption that counts on a chunk which the store does not have."""
    return ConflictError(
        f"the store no longer has chunk {chunk.hex()[:12]}, which was there when it was looked for",
        code=ErrorCode.CHUNKS_GONE,
        hint="copy again: the next time it is sent",
        chunk=chunk.hex(),
    )


def claim_session(current: SessionRow | None, batch: Batch) -> SessionRow:
    """The session as the claim wants it: new, or completed where it had no agent or project.

    Raises:
        InvalidInputError: It belongs to another agent or project (`session-mismatch`).
    """
    claim = batch.claim
    if current is None:
        return SessionRow(id=claim.session, agent=claim.agent, project=claim.project, created_at=batch.at)
    if claim.agent in (None, current.agent) and claim.project in (None, current.project):
        return current
    return current._replace(
        agent=_claimed(current.id, "agent", current.agent, claim.agent),
        project=_claimed(current.id, "project", current.project, claim.project),
    )


def check_guard(session: SessionRow, guard: Guard | None) -> None:
    """Refuse the batch where the session is not as it was read; one that is not there yet counts as empty."""
    if guard is None:
        return
    if guard.log_count != session.log_count or guard.last_seq not in (None, session.last_seq):
        raise ConflictError.session_changed(session.id)


def relied_on(batch: Batch) -> tuple[CheckpointId, ...]:
    """All checkpoints that have to be there for a batch, because their states have chunks that it leaves out."""
    return batch.also_relies_on if batch.relies_on is None else (batch.relies_on, *batch.also_relies_on)


def advance(session: SessionRow, *, new: int, operations: Sequence[Operation]) -> SessionRow:
    """The session with so many new checkpoints, and with these operations at the end of its log.

    Raises:
        ConflictError: The operations do not follow on from the tip of the log (`session-changed`).
    """
    count, tip = session.log_count, session.log_tip
    for operation in operations:
        if operation.number != count + 1 or operation.previous != tip:
            raise ConflictError.session_changed(session.id)
        count, tip = operation.number, operation.hash
    if not new and not operations:
        return session
    return SessionRow(*session[:4], session.last_seq + new, count, tip, session.current)


def switched(session: SessionRow, batch: Batch) -> SessionRow:
    """The session on the branch that the batch switches to."""
    if batch.switch_to is None or batch.switch_to == session.current:
        return session
    return session._replace(current=batch.switch_to)


def check_removal(row: CheckpointRow, session: str, *, hidden: int) -> None:
    """Refuse to remove for good what has not been removed from history, or belongs to another session."""
    if row.session != session or not hidden:
        raise bad_argument(
            f"checkpoint {row.id.hex()[:12]} of session {row.session!r} is still part of its history",
            "hide it in the same batch, or before",
            checkpoint=row.id.hex(),
        )


def edited(row: CheckpointRow, edit: Edit) -> CheckpointRow:
    """The row with everything that an edit sets."""
    return row._replace(
        prev=edit.prev,
        skipped=edit.skipped,
        hidden=edit.hidden,
        tags=edit.tags,
        pinned=edit.pinned,
        edited_message=edit.edited_message,
        added_metadata=edit.added_metadata,
    )


def edit_missing(checkpoint: CheckpointId) -> NotFoundError:
    """The error for an edit of a checkpoint that the store does not have."""
    return NotFoundError(
        f"there is no checkpoint {checkpoint.hex()[:12]} to change",
        code=ErrorCode.CHECKPOINT_MISSING,
        hint="list the checkpoints there are with s.log()",
        checkpoint=checkpoint.hex(),
    )


def store_closed(url: str) -> StateError:
    """The error of every use after close."""
    return StateError(
        f"the store {url} is closed",
        code=ErrorCode.STORE_CLOSED,
        hint="open it again with holdfast.open()",
        url=url,
    )


def store_damaged(where: str, why: str) -> IntegrityError:
    """What is at this path or address is not what was written to it."""
    return IntegrityError(
        f"the store {where} is damaged: {why}",
        code=ErrorCode.STORE_DAMAGED,
        hint="open(damaged=True): store.verify() says what is lost, store.repair() keeps the rest; or go to a backup",
        path=where,
    )


def _claimed(session: str, what: str, current: str | None, wanted: str | None) -> str | None:
    if wanted is None or current is None or wanted == current:
        return current if wanted is None else wanted
    raise InvalidInputError(
        f"session {session!r} belongs to {what} {current!r}, not to {wanted!r}",
        code=ErrorCode.SESSION_MISMATCH,
        hint=f"use another session id, or leave {what} out",
        session=session,
        **{what: current},
    )


def _unfit(session: str, what: str) -> InvalidInputError:
    return bad_argument(
        f"{what} cannot be stored in session {session!r}: it names another session, or a number that is not one",
        "a batch writes to the session that its claim names, with finite numbers",
        session=session,
    )
