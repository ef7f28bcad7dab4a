"""The head of a branch, and what is said where there is none."""

from __future__ import annotations

from typing import NoReturn

from holdfast.errors import ErrorCode, IntegrityError, NotFoundError
from holdfast.history.unresolved import SHOWN, did_you_mean, near
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointId, CheckpointRow, Query


def find_head(reader: Reader, session: str, branch: str) -> CheckpointRow | None:
    """The head of a branch, or None where the session or the branch does not exist."""
    found = reader.branch(session, branch)
    if found is None:
        return None
    return row_of(reader, found.head, f"the head of branch {branch!r} of session {session!r}")


def get_head(reader: Reader, session: str, branch: str) -> CheckpointRow:
    """The head of a branch that has one; otherwise the error that says why not, and what there is instead."""
    head = find_head(reader, session, branch)
    return head if head is not None else missing_head(reader, session, branch)


def row_of(reader: Reader, checkpoint: CheckpointId, what: str) -> CheckpointRow:
    """The row of an id that must be there: `what` says who claims so."""
    row = reader.checkpoint(checkpoint)
    if row is None or row.hidden:
        raise IntegrityError.row_damaged(what, why=f"checkpoint {checkpoint.hex()} is not in the store")
    return row


def _can_undo(reader: Reader, session: str) -> bool:
    """Whether an undo has something to bring back: neither gc nor a forget took it for good."""
    # Only on the way to an error.
    from holdfast.history.undoing import Log, next_undo

    row = reader.session(session)
    if row is None or not reader.checkpoints(Query(session=session, include_hidden=True, limit=1)):
        return False
    try:
        next_undo(Log(reader, row))
    except (NotFoundError, IntegrityError):
        return False
    return True


def missing_head(reader: Reader, session: str, branch: str) -> NoReturn:
    """Raise the NotFoundError that says why a branch has no head, and what there is instead."""
    if reader.session(session) is None:
        close = near(session, (each.id for each in reader.sessions()))
        raise NotFoundError(
            f"session {session!r} has no checkpoint yet",
            code=ErrorCode.SESSION_MISSING,
            hint=did_you_mean(close, "save() makes the first one"),
            session=session,
            candidates=close,
        )
    names = [each.name for each in reader.branches(session)]
    if not names:
        raise NotFoundError(
            f"every checkpoint of session {session!r} was deleted",
            code=ErrorCode.CHECKPOINT_MISSING,
            hint="save() starts it again"
            + (", s.undo() brings them back" if _can_undo(reader, session) else ""),
            session=session,
        )
    close = near(branch, names)
    raise NotFoundError(
        f"session {session!r} has no branch {branch!r}",
        code=ErrorCode.BRANCH_MISSING,
        hint=did_you_mean(close, f"its branches are: {', '.join(names[:SHOWN])}"),
        session=session,
        branch=branch,
        candidates=close or names[:SHOWN],
    )
