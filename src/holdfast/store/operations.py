"""Operations: every change to history that is not a save, planned from one view and committed with its log entry.

The commit holds on condition that the session is still as it was read. If somebody came in between, the operation is
planned again from what is there now. If the reply to the commit was an error, the log says whether it took place.

A fork and a restore write one checkpoint each, with the root of another one: a new id, the same state, and no chunk,
because the checkpoint they rely on keeps all of them. The other operations change rows and move names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

from holdfast.errors import (
    BackendError,
    ConflictError,
    ErrorCode,
    InvalidInputError,
)
from holdfast.history import jsontext
from holdfast.history.checkpoint import Checkpoint, carried_on, moment, new_row
from holdfast.history.names import check_branch, check_session
from holdfast.history.oplog import edit, operation, recorded
from holdfast.history.refs import ancestors, get_head, missing_head, row_of
from holdfast.history.removal import plan_clearing, plan_removal
from holdfast.history.undo import Log, Reversal, Subject, plan_reversal, summary
from holdfast.record import Record
from holdfast.reports.changes import Undone
from holdfast.reports.listings import BranchInfo, OperationInfo
from holdfast.storage.ports import Reader
from holdfast.storage.records import (
    Batch,
    BranchRow,
    CheckpointId,
    CheckpointRow,
    Claim,
    Edit,
    Guard,
    Move,
    NewChunk,
    Operation,
    SessionRow,
)
from holdfast.store.draft import check_message
from holdfast.store.place import (
    ATTEMPTS,
    Expectation,
    Place,
    Unset,
    free_branch,
    is_expected,
    read_again,
    settle,
)

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
    told: bool = True
    """Whether the entry in the log says what changed."""
    removals: tuple[CheckpointId, ...] = ()
    """Checkpoints whose rows go for good."""
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
    work: Callable[[Reader, SessionRow, int], tuple[OperationPlan | None, _T]],
    *,
    attempts: int = ATTEMPTS,
) -> Done[_T]:
    """Work an operation out and commit it, again and again until nobody comes between.

    `work` gets the session as it is, an empty one where it does not exist yet, and the time. It returns the plan, None
    where there is nothing to write, and whatever the caller wants to know.
    """
    claim = place.claim
    for _ in range(attempts):
        now = place.clock()
        session, plan, found = read_again(partial(_work_out, place, work, now))
        if plan is None:
            return Done(found, session, None, now)
        entry = _entry(session, plan, now)
        try:
            receipt = place.backend.commit(_batch(place, session, plan, entry))
        except ConflictError as conflict:
            if conflict.code is ErrorCode.LEASE_LOST and place.lease is not None:
                place.lease._noted(conflict)  # noqa: SLF001 - its own lease
                raise
            # Somebody saved or changed something in between: work it out again from what is there now.
            continue
        except BackendError as failure:
            outcome = settle(place.backend, failure, partial(_outcome, entry, plan))
            if outcome is None:
                raise
            (made,) = outcome
        else:
            made = receipt.checkpoints[0] if receipt.checkpoints else None
        return Done(found, session, made, now)
    raise ConflictError.session_changed(claim.session)


def _outcome(entry: Operation, plan: OperationPlan, reader: Reader) -> tuple[CheckpointRow | None] | None:
    """The checkpoint that an operation made, if any; None if the operation did not take place."""
    if not any(each.hash == entry.hash for each in reader.operations(entry.session, after=entry.number - 1)):
        return None
    return (None if plan.made is None else reader.checkpoint(plan.made.id),)


def _work_out(
    place: Place, work: Callable[[Reader, SessionRow, int], tuple[OperationPlan | None, _T]], now: int
) -> tuple[SessionRow, OperationPlan | None, _T]:
    claim = place.claim
    with place.backend.reader() as reader:
        session = reader.session(claim.session) or SessionRow(
            id=claim.session, agent=claim.agent, project=claim.project, created_at=now
        )
        plan, found = work(reader, session, now)
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


def finder(place: Place, ref: str | Checkpoint) -> Callable[[Reader, SessionRow], CheckpointRow]:
    """A function that finds what a ref names, and the same checkpoint in every further round.

    "@" may name another one by then; the first one was meant.
    """
    meant = ref

    def find(reader: Reader, session: SessionRow) -> CheckpointRow:
        nonlocal meant
        row = place.find(reader, meant)
        meant = Checkpoint(row, session)
        return row

    return find


def _change_row(
    place: Place, ref: str | Checkpoint, kind: str, change: Callable[[CheckpointRow], Edit]
) -> Checkpoint:
    find = finder(place, ref)

    def work(reader: Reader, session: SessionRow, _now: int) -> tuple[OperationPlan | None, CheckpointRow]:
        row = find(reader, session)
        new = change(row)
        if new == edit(row):
            return None, row
        return OperationPlan(kind, edits=[(row, new)]), row._replace(**new._asdict())

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
        guard=Guard(log_count=session.log_count, last_seq=session.last_seq),
        relies_on=plan.relies_on,
        switch_to=plan.switch_to,
        removals=plan.removals,
        cuts_log_from=plan.cuts_log_from,
        fence=None if place.lease is None else place.lease.fence,
        seen=tuple(old for old, _ in plan.edits),
    )


_MOST_OF_A_MESSAGE = 200
"""Enough to know the restored checkpoint again; the whole message is on that one."""


def list_branches(place: Place) -> list[BranchInfo]:
    """All branches of the session, by name."""
    with place.backend.reader() as reader:
        session = reader.session(place.claim.session)
        if session is None:
            return []
        return [
            _info(each, _head_row(reader, each), session, current=each.name == place.branch)
            for each in reader.branches(session.id)
        ]


def fork(
    place: Place, ref: str | Checkpoint, name: str | None, session: str | None
) -> tuple[Place, Checkpoint]:
    """Begin a new branch, here or in another session; where that is, and its first checkpoint."""
    if name is not None:
        check_branch(name)
    target = place if session in (None, place.claim.session) else _elsewhere(place, session)
    find = finder(place, ref)

    def work(reader: Reader, owner: SessionRow, now: int) -> tuple[OperationPlan, None]:
        source = find(reader, owner)
        taken = [each.name for each in reader.branches(target.claim.session)]
        at_home = target.claim.session == source.session
        branch = name or (free_branch(place.branch, taken) if at_home else "main")
        if branch in taken:
            raise _branch_exists(target.claim.session, branch)
        made = _copied(
            source,
            target,
            branch=branch,
            parent=source,
            now=now,
            trigger="fork",
            message=f"fork of #{source.seq}",
        )
        move = Move(branch, expected=None, head=made.id)
        return OperationPlan("fork", moves=[move], made=made, relies_on=source.id), None

    done = carry_out(target, work)
    assert done.made is not None
    return target._replace(branch=done.made.branch), Checkpoint(done.made, done.session)


def restore(place: Place, ref: str | Checkpoint, expected: Expectation) -> Checkpoint:
    """Put the state of `ref` at the tip of the branch in use, as a new checkpoint."""
    find = finder(place, ref)

    def work(reader: Reader, owner: SessionRow, now: int) -> tuple[OperationPlan, None]:
        source = find(reader, owner)
        head = get_head(reader, owner.id, place.branch)
        check_expected(reader, expected, head)
        said = source.message if source.edited_message is None else source.edited_message
        made = _copied(
            source,
            place,
            branch=place.branch,
            parent=head,
            now=now,
            trigger="restore",
            message=f"restore of #{source.seq}{_shortened(said)}",
            metadata=jsontext.dump({"restored_from": source.id.hex()}),
        )
        move = Move(place.branch, expected=head.id, head=made.id)
        return OperationPlan("restore", moves=[move], made=made, relies_on=source.id), None

    done = carry_out(place, work)
    assert done.made is not None
    return Checkpoint(done.made, done.session)


def switch(place: Place, name: str, *, remember: bool) -> Checkpoint:
    """The head of a branch to go on from; `remember` makes it the one that people are on."""
    check_branch(name)

    def work(reader: Reader, session: SessionRow, _now: int) -> tuple[OperationPlan | None, CheckpointRow]:
        head = get_head(reader, session.id, name)
        if not remember or session.current == name:
            return None, head
        return OperationPlan("switch", switch_to=name), head

    done = carry_out(place, work)
    return Checkpoint(done.found, done.session)


def rename(place: Place, old: str, new: str) -> BranchInfo:
    """Give a branch another name."""
    check_branch(old)
    check_branch(new)

    def work(reader: Reader, session: SessionRow, _now: int) -> tuple[OperationPlan, CheckpointRow]:
        head = get_head(reader, session.id, old)
        if reader.branch(session.id, new) is not None:
            raise _branch_exists(session.id, new)
        moves = [Move(old, expected=head.id, head=None), Move(new, expected=None, head=head.id)]
        return OperationPlan("rename", moves=moves, switch_to=new if session.current == old else None), head

    done = carry_out(place, work)
    row = BranchRow(session=done.session.id, name=new, head=done.found.id, moved_at=done.at)
    return _info(row, done.found, done.session, current=place.branch in (old, new))


def drop(place: Place, name: str, *, force: bool) -> Checkpoint:
    """Remove a branch and leave its checkpoints; where it was."""
    check_branch(name)

    def work(reader: Reader, session: SessionRow, _now: int) -> tuple[OperationPlan, CheckpointRow]:
        head = get_head(reader, session.id, name)
        others = [each for each in reader.branches(session.id) if each.name != name]
        if not force:
            _check_spare(reader, place, session, head, name, others)
        names = [each.name for each in others]
        # Whoever is on no branch in particular should not be on one that is not there.
        leave = session.current == name and bool(names)
        switch_to = ("main" if "main" in names else names[0]) if leave else None
        return OperationPlan(
            "drop", moves=[Move(name, expected=head.id, head=None)], switch_to=switch_to
        ), head

    done = carry_out(place, work)
    return Checkpoint(done.found, done.session)


def _check_spare(
    reader: Reader,
    place: Place,
    session: SessionRow,
    head: CheckpointRow,
    name: str,
    others: Iterable[BranchRow],
) -> None:
    others = list(others)
    if name in (place.branch, session.current):
        why, hint = "is in use", "s.switch() to another one first"
    elif not others:
        why, hint = "is the last one", "s.clear() removes its checkpoints too"
    elif not any(_leads_to(reader, _head_row(reader, each), head) for each in others):
        why = "is the only one that leads to its newest checkpoint"
        hint = f"s.tag('#{head.seq}', ...) helps to find that one later"
    else:
        return
    raise InvalidInputError(
        f"branch {name!r} of session {session.id!r} {why}, so it was not deleted",
        code=ErrorCode.PROTECTED,
        hint=f"pass force=True to delete it all the same; {hint}",
        session=session.id,
        branch=name,
    )


def _leads_to(reader: Reader, start: CheckpointRow, wanted: CheckpointRow) -> bool:
    for row in ancestors(reader, start):
        if row.seq <= wanted.seq:
            # Numbers only fall on the way back: it is this one, or it does not come.
            return row.id == wanted.id
    return False


def _elsewhere(place: Place, session: str | None) -> Place:
    """The same store, another session: a new one belongs to whom this one belongs to."""
    name = check_session(session or "")
    with place.backend.reader() as reader:
        if reader.session(name) is not None:
            return place._replace(claim=Claim(name))
        owner = reader.session(place.claim.session)
        if owner is None:
            missing_head(reader, place.claim.session, place.branch)
    return place._replace(claim=Claim(name, agent=owner.agent, project=owner.project))


def check_expected(reader: Reader, expected: Expectation, head: CheckpointRow) -> None:
    """Raise ConflictError where the branch is not at what a writer has seen, nor at the same state."""
    if not is_expected(reader, expected, head) and not isinstance(expected, Unset):
        raise ConflictError.branch_moved(head.session, head.branch, expected=expected, actual=head.id)


def _copied(
    source: CheckpointRow,
    place: Place,
    *,
    branch: str,
    parent: CheckpointRow,
    now: int,
    trigger: str,
    message: str,
    metadata: str = "{}",
) -> CheckpointRow:
    """A new checkpoint with the state of `source`, and what its writer said about that state."""
    return new_row(
        place.claim.session,
        branch,
        (parent,),
        source.root,
        source.size_bytes,
        at=now,
        app_version=place.app_version,
        trigger=trigger,
        message=message,
        metadata=metadata,
        **carried_on(source),
    )


def _shortened(message: str) -> str:
    line = message.partition("\n")[0]
    if len(line) > _MOST_OF_A_MESSAGE:
        line = line[: _MOST_OF_A_MESSAGE - 1] + "…"
    return f": {line}" if line else ""


def _branch_exists(session: str, branch: str) -> ConflictError:
    return ConflictError(
        f"session {session!r} has a branch {branch!r} already",
        code=ErrorCode.BRANCH_EXISTS,
        hint="choose another name; s.branches() lists those that are taken",
        session=session,
        branch=branch,
    )


def _head_row(reader: Reader, branch: BranchRow) -> CheckpointRow:
    return row_of(reader, branch.head, f"the head of branch {branch.name!r} of session {branch.session!r}")


def _info(branch: BranchRow, head: CheckpointRow, session: SessionRow, *, current: bool) -> BranchInfo:
    return BranchInfo(branch.name, Checkpoint(head, session), moment(branch.moved_at), current)


def delete(place: Place, ref: str | Checkpoint, *, force: bool) -> tuple[CheckpointRow, SessionRow]:
    """Hide a checkpoint; the row as it was left, and its session."""
    find = finder(place, ref)

    def work(reader: Reader, session: SessionRow, _now: int) -> tuple[OperationPlan, CheckpointRow]:
        row = find(reader, session)
        change = plan_removal(reader, session, row, force=force)
        new = next(new for _, new in change.edits if new.id == row.id)
        return OperationPlan("delete", edits=change.edits, moves=change.moves), row._replace(**new._asdict())

    done = carry_out(place, work)
    return done.found, done.session


def clear(place: Place, *, force: bool) -> list[str]:
    """Hide every checkpoint and remove every branch of the session; the ids of the checkpoints."""

    def work(reader: Reader, session: SessionRow, _now: int) -> tuple[OperationPlan | None, list[str]]:
        change = plan_clearing(reader, session, force=force)
        if not change.edits and not change.moves:
            return None, []
        removed = [row.id.hex() for row, new in change.edits if new.hidden and not row.hidden]
        return OperationPlan("clear", edits=change.edits, moves=change.moves), removed

    return carry_out(place, work).found


class Turn(Record):
    """What an undo or redo means for the writer that asked for it."""

    undone: Undone
    branch: str
    """The branch in use from now on: a renamed one is followed."""
    moved: bool
    """Whether its head is another one than before."""
    lost: CheckpointId | None
    """The head that went with the branch, where others are still there."""


def list_operations(place: Place, limit: int | None) -> list[OperationInfo]:
    """The operation log, newest first."""
    with place.backend.reader() as reader:
        session = reader.session(place.claim.session)
        if session is None:
            return []
        log = Log(reader, session)
        entries = list(islice(log.backwards(), limit))
        oldest = entries[-1].number if entries else 0
        reachable = set()
        for entry in log.undoable():
            if entry.number < oldest or not _can_come_back(reader, entry):
                break
            reachable.add(entry.number)
        return [
            OperationInfo(
                entry.number,
                entry.kind,
                moment(entry.at),
                summary(reader, log, entry),
                entry.number in reachable and entry.kind not in ("forget", "repair"),
            )
            for entry in entries
        ]


def _can_come_back(reader: Reader, entry: Operation) -> bool:
    """Whether gc has left what an entry removed; it takes all that one operation hid, or none."""
    hidden = (each.checkpoint for each in recorded(entry).edits if each.after.get("hidden"))
    first = next(hidden, None)
    return first is None or reader.checkpoint(first) is not None


def reverse(place: Place, verb: str) -> Turn:
    """Carry out an undo or a redo.

    Raises:
        NotFoundError: There is nothing to reverse, or what it would bring back is gone for good.
        ConflictError: Something moved since.
    """

    def work(reader: Reader, session: SessionRow, _now: int) -> tuple[OperationPlan, Turn]:
        if reader.session(session.id) is None:
            missing_head(reader, session.id, place.branch)
        log = Log(reader, session)
        entry = log.next_undo() if verb == "undo" else log.next_redo()
        origin = log.origin(entry)
        said = summary(reader, log, origin)
        reversal = plan_reversal(reader, session, Subject(entry, origin.kind, said, verb))
        plan = OperationPlan(
            verb,
            edits=reversal.edits,
            moves=reversal.moves,
            of=entry.number,
            switch_to=reversal.switch_to,
        )
        undone = Undone(origin.number, origin.kind, moment(origin.at), said, None)
        return plan, _turn(reader, session, place.branch, reversal, undone)

    return carry_out(place, work).found


def _turn(reader: Reader, session: SessionRow, branch: str, reversal: Reversal, undone: Undone) -> Turn:
    """Where a writer on `branch` stands after the moves."""
    heads = {each.name: each.head for each in reader.branches(session.id)}
    before = heads.get(branch)
    for move in reversal.moves:
        if move.head is None:
            heads.pop(move.branch, None)
        else:
            heads[move.branch] = move.head
    after = branch
    if undone.kind == "switch" and branch == session.current and reversal.switch_to in heads:
        after = reversal.switch_to
    elif branch not in heads:
        after = _renamed(reversal.moves, branch, before) or branch
    head = heads.get(after)
    edited = {new.id: row._replace(**new._asdict()) for row, new in reversal.edits}
    row = None if head is None else edited.get(head) or reader.checkpoint(head)
    return Turn(
        undone.replace(head=None if row is None else Checkpoint(row, session)),
        after,
        moved=after != branch or head != before,
        lost=before if head is None and heads else None,
    )


def _renamed(moves: Sequence[Move], branch: str, head: CheckpointId | None) -> str | None:
    return next(
        (m.branch for m in moves if m.expected is None and m.head == head is not None and m.branch != branch),
        None,
    )
