"""copy_session: a session once more under another name, in one commit.

The copies have the roots of the originals, so that no state is read and no chunk is written. They are written on the
condition that the originals are still there: as long as a row is there, its chunks are, and from the commit on the
copies keep them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from holdfast.errors import (
    BackendError,
    ConflictError,
    ErrorCode,
    HoldfastError,
    IntegrityError,
    InvalidInputError,
)
from holdfast.history.checkpoint import checkpoint_id
from holdfast.history.names import check_session
from holdfast.history.refs import missing_head
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import (
    Batch,
    CheckpointId,
    CheckpointRow,
    Claim,
    Guard,
    Move,
    Query,
    SessionRow,
)
from holdfast.store.place import read_again

_ATTEMPTS: Final = 1000
"""Each lost round means that somebody removed what was to be copied, or wrote to the target; see `changing`."""


def copy_session(backend: Backend, source: str, target: str, *, now: int) -> int:
    """Write all that is visible of a session into a new one; how many checkpoints. See `Store.copy_session`."""
    check_session(source)
    if check_session(target) == source:
        raise InvalidInputError(
            f"session {source!r} cannot be copied to itself",
            code=ErrorCode.BAD_ARGUMENT,
            hint="give the copy an id of its own",
            session=source,
        )
    for _ in range(_ATTEMPTS):
        batch = read_again(partial(_worked_out, backend, source, target, now))
        if not batch.checkpoints:
            return 0
        try:
            backend.commit(batch)
        except ConflictError:
            # Something was removed that was to be copied, or the target is there now: look again.
            continue
        except BackendError as failure:
            _settle(backend, batch, failure)
        return len(batch.checkpoints)
    raise ConflictError.session_changed(source)


def _worked_out(backend: Backend, source: str, target: str, now: int) -> Batch:
    with backend.reader() as reader:
        owner = reader.session(source)
        if owner is None:
            missing_head(reader, source, "main")
        there = reader.session(target)
        if there is not None:
            _check_empty(reader, there)
        rows = reader.checkpoints(Query(session=source, oldest_first=True))
        branches = reader.branches(source)
    copies = _copies(rows, target)
    # Rows of one root have the same chunks.
    keepers = {row.root: row.id for row in rows}
    return Batch(
        # A new session belongs to whom this one belongs to.
        claim=Claim(target) if there else Claim(target, agent=owner.agent, project=owner.project),
        at=now,
        checkpoints=tuple(copies.values()),
        moves=tuple(
            Move(each.name, expected=None, head=_counterpart(copies, each.head, f"branch {each.name!r}"))
            for each in branches
        ),
        guard=Guard(
            log_count=there.log_count if there else 0,
            last_seq=there.last_seq if there else 0,
        ),
        switch_to=owner.current,
        also_relies_on=tuple(keepers.values()),
    )


def _copies(rows: Sequence[CheckpointRow], target: str) -> dict[CheckpointId, CheckpointRow]:
    """What rows become in another session, by the ids of the originals; each comes after those it was made from."""
    copies: dict[CheckpointId, CheckpointRow] = {}
    for row in rows:
        made = row._replace(
            session=target,
            # One that was removed, or is of a third session, is known by its id alone.
            parents=tuple(copies[each].id if each in copies else each for each in row.parents),
            prev=None if row.prev is None else _counterpart(copies, row.prev, f"checkpoint {row.id.hex()}"),
        )
        copies[row.id] = made._replace(id=checkpoint_id(made))
    return copies


def _counterpart(
    copies: Mapping[CheckpointId, CheckpointRow], original: CheckpointId, what: str
) -> CheckpointId:
    if original not in copies:
        raise IntegrityError.row_damaged(what, why=f"checkpoint {original.hex()} is not in its history")
    return copies[original].id


def _check_empty(reader: Reader, target: SessionRow) -> None:
    if reader.checkpoints(Query(session=target.id, include_hidden=True, limit=1)):
        raise ConflictError(
            f"session {target.id!r} has checkpoints already, or removed ones that undo can bring back",
            code=ErrorCode.SESSION_EXISTS,
            hint="give the copy an id that no session has; store.forget() frees one for good",
            session=target.id,
        )


def _settle(backend: Backend, batch: Batch, failure: BackendError) -> None:
    """Find out whether a commit whose reply was an error took place after all; raise the error if not."""
    try:
        with backend.reader() as reader:
            found = reader.checkpoint(batch.checkpoints[-1].id)
    except HoldfastError:
        # The store cannot be read either: the first failure is the one to report.
        raise failure from None
    if found is None:
        raise failure
