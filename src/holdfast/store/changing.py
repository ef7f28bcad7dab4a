"""Operations on what is there: how each is read, worked out and committed, and the ones that change a single row.

An operation is worked out from one reading, and committed together with its entry in the operation log on the condition
that the session is still as it was read. If somebody came in between, it is worked out again from what is there now. If
the reply to the commit was an error, the log says whether it took place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from holdfast.errors import (
    BackendError,
    ConflictError,
    ErrorCode,
    HoldfastError,
    InvalidInputError,
)
from holdfast.history import jsontext
from holdfast.history.checkpoint import Checkpoint
from holdfast.history.oplog import edit, operation
from holdfast.record import Record
from holdfast.storage.ports import Backend, Reader
from holdfast.storage.records import (
    Batch,
    CheckpointId,
    CheckpointRow,
    Edit,
    Guard,
    Move,
    NewChunk,
    Operation,
    SessionRow,
)
from holdfast.store.draft import check_message
from holdfast.store.place import Place
from holdfast.store.rereading import read_again

_ATTEMPTS = 1000
"""Each lost round means that another writer got through; see `saving._ATTEMPTS`."""

_T = TypeVar("_T")


class OperationPlan(Record):
    """What one operation writes."""

    kind: str
    edits: Sequence[tuple[CheckpointRow, Edit]] = ()
    """Each with the row that it changes."""
    moves: Sequence[Move] = ()
    made: CheckpointRow | None = None
    """A checkpoint whose chunks are all there already, as those of `relies_on`, or come with it."""
    relies_on: CheckpointId | None = None
    chunks: Sequence[NewChunk] = ()
    of: int | None = None
    """The number of the entry that is reversed."""
    switch_to: str | None = None
    structural: bool = True
    """Whether it matters that no checkpoint is saved meanwhile."""
    told: bool = True
    """Whether the entry in the log says what changed."""
    removals: tuple[CheckpointId, ...] = ()
    """Checkpoints whose rows go for good."""
    entry: Operation | None = None
    """Its entry in the log, where it is not the usual one."""
    cuts_log_from: int = 0


class Done(NamedTuple, Generic[_T]):
    """What came of an operation."""

    found: _T
    """What was read for it, in the round that counted."""
    session: SessionRow
    """The session before it."""
    made: CheckpointRow | None
    """The checkpoint it wrote."""
    at: int
    """The time of its entry."""


def carry_out(
    place: Place,
    work: Callable[[Reader, SessionRow], tuple[OperationPlan | None, _T]],
    *,
    attempts: int = _ATTEMPTS,
) -> Done[_T]:
    """Work an operation out and commit it, again and again until nobody comes between.

    `work` gets the session as it is, an empty one where it does not exist yet. It returns the plan, None where there
    is nothing to write, and whatever the caller wants to know.
    """
    claim = place.claim
    for _ in range(attempts):
        now = place.clock()
        session, plan, found = read_again(partial(_work_out, place, work, now))
        if plan is None:
            return Done(found, session, None, now)
        entry = plan.entry or _entry(session, plan, now)
        try:
            receipt = place.backend.commit(_batch(place, session, plan, entry))
        except ConflictError as conflict:
            if conflict.code is ErrorCode.LEASE_LOST and place.lease is not None:
                place.lease._noted(conflict)  # noqa: SLF001 - its own lease
                raise
            # Somebody saved or changed something in between: work it out again from what is there now.
            continue
        except BackendError as failure:
            made = _settle(place.backend, entry, plan, failure)
        else:
            made = receipt.checkpoints[0] if receipt.checkpoints else None
        return Done(found, session, made, now)
    raise ConflictError.session_changed(claim.session)


def _work_out(
    place: Place, work: Callable[[Reader, SessionRow], tuple[OperationPlan | None, _T]], now: int
) -> tuple[SessionRow, OperationPlan | None, _T]:
    claim = place.claim
    with place.backend.reader() as reader:
        session = reader.session(claim.session) or SessionRow(
            id=claim.session, agent=claim.agent, project=claim.project, created_at=now
        )
        plan, found = work(reader, session)
    return session, plan, found


def annotate(
    place: Place, ref: str | Checkpoint, *, message: str | None, metadata: Mapping[str, Any] | None
) -> Checkpoint:
    """Edit the message, or lay metadata over what is there."""
    if message is None and not metadata:
        raise InvalidInputError(
            "annotate was given nothing to write",
            code=ErrorCode.BAD_ARGUMENT,
            hint="pass message= or metadata=, or use tag() for labels",
        )
    if message is not None:
        check_message(message)
    extra = jsontext.parse(jsontext.metadata_text(metadata))

    def annotated(row: CheckpointRow) -> Edit:
        added = row.added_metadata
        if extra:
            added = jsontext.metadata_text((jsontext.parse(added) if added else {}) | extra)
        edited = row.edited_message if message is None else message
        return edit(row, edited_message=edited, added_metadata=added)

    return _change_row(place, ref, "annotate", annotated)


def retag(
    place: Place, ref: str | Checkpoint, *, add: tuple[str, ...] = (), remove: tuple[str, ...] = ()
) -> Checkpoint:
    """Add and remove labels; what is already so is left alone."""
    if not add and not remove:
        raise InvalidInputError(
            "no tag was given", code=ErrorCode.BAD_ARGUMENT, hint='name at least one: s.tag("@", "golden")'
        )

    def retagged(row: CheckpointRow) -> Edit:
        return edit(row, tags=tuple(sorted((set(row.tags) | set(add)) - set(remove))))

    return _change_row(place, ref, "tag", retagged)


def set_pin(place: Place, ref: str | Checkpoint, *, pinned: bool) -> Checkpoint:
    """Protect a checkpoint from removal, or end that."""
    return _change_row(place, ref, "pin", lambda row: edit(row, pinned=pinned))


def _change_row(
    place: Place, ref: str | Checkpoint, kind: str, change: Callable[[CheckpointRow], Edit]
) -> Checkpoint:
    meant = ref

    def work(reader: Reader, session: SessionRow) -> tuple[OperationPlan | None, CheckpointRow]:
        nonlocal meant
        row = place.find(reader, meant)
        # "@" may name another checkpoint in the next round; the one that was meant is this.
        meant = Checkpoint(row, session)
        new = change(row)
        if new == edit(row):
            return None, row
        return OperationPlan(kind, edits=[(row, new)], structural=False), row._replace(**new._asdict())

    done = carry_out(place, work)
    return Checkpoint(done.found, done.session)


def _entry(session: SessionRow, plan: OperationPlan, now: int) -> Operation:
    current, new = session.current, plan.switch_to
    return operation(
        session,
        plan.kind,
        now,
        edits=plan.edits if plan.told else (),
        moves=plan.moves if plan.told else (),
        made=() if plan.made is None else (plan.made,),
        of=plan.of,
        switch=None if new is None or new == current else (current, new),
    )


def _batch(place: Place, session: SessionRow, plan: OperationPlan, entry: Operation) -> Batch:
    return Batch(
        claim=place.claim,
        at=entry.at,
        chunks=plan.chunks,
        checkpoints=() if plan.made is None else (plan.made,),
        moves=tuple(plan.moves),
        edits=tuple(new for _, new in plan.edits),
        operations=(entry,),
        guard=Guard(log_count=session.log_count, last_seq=session.last_seq if plan.structural else None),
        relies_on=plan.relies_on,
        switch_to=plan.switch_to,
        removals=plan.removals,
        cuts_log_from=plan.cuts_log_from,
        fence=None if place.lease is None else place.lease.fence,
        seen=tuple(old for old, _ in plan.edits),
    )


def _settle(
    backend: Backend, entry: Operation, plan: OperationPlan, failure: BackendError
) -> CheckpointRow | None:
    """Find out whether a commit whose reply was an error took place after all; raise the error if not."""
    try:
        with backend.reader() as reader:
            found = reader.operations(entry.session, after=entry.number - 1)
            made = None if plan.made is None else reader.checkpoint(plan.made.id)
    except HoldfastError:
        # The store cannot be read either: the first failure is the one to report.
        raise failure from None
    if not any(each.hash == entry.hash for each in found):
        raise failure
    return made
