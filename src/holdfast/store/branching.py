"""Branches as people use them: fork, restore, switch, rename, delete.

A fork and a restore write one checkpoint each, with the root of another one: a new id, the same state, and no chunk,
because the checkpoint they rely on keeps all of them. The other operations move names and write nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime
from itertools import count

from holdfast.errors import ConflictError, ErrorCode, InvalidInputError
from holdfast.history import jsontext
from holdfast.history.checkpoint import Checkpoint, moment
from holdfast.history.heads import get_head, missing_head, row_of
from holdfast.history.identity import checkpoint_id
from holdfast.history.names import check_branch, check_session
from holdfast.history.walk import ancestors
from holdfast.record import Record
from holdfast.storage.ports import Reader
from holdfast.storage.records import BranchRow, CheckpointId, CheckpointRow, Claim, Move, SessionRow
from holdfast.store.changing import OperationPlan, carry_out
from holdfast.store.intent import Expectation, Unset
from holdfast.store.place import Place

_MOST_OF_A_MESSAGE = 200
"""Enough to know the restored checkpoint again; the whole message is on that one."""


class BranchInfo(Record):
    """A branch as it is listed."""

    name: str
    head: Checkpoint
    moved_at: datetime
    current: bool
    """Whether it is the branch in use."""


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
    meant = ref

    def work(reader: Reader, owner: SessionRow) -> tuple[OperationPlan, None]:
        nonlocal meant
        source = place.find(reader, meant)
        # "@" may name another checkpoint in the next round; the one that was meant is this.
        meant = Checkpoint(source, owner)
        taken = [each.name for each in reader.branches(target.claim.session)]
        at_home = target.claim.session == source.session
        branch = name or (_free(place.branch, taken) if at_home else "main")
        if branch in taken:
            raise _branch_exists(target.claim.session, branch)
        made = _copied(
            source,
            target,
            branch=branch,
            parent=source,
            # Walks stay inside a session: what came before is known by its id alone.
            prev=source.id if at_home else None,
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
    meant = ref

    def work(reader: Reader, owner: SessionRow) -> tuple[OperationPlan, None]:
        nonlocal meant
        source = place.find(reader, meant)
        meant = Checkpoint(source, owner)
        head = get_head(reader, owner.id, place.branch)
        if not isinstance(expected, Unset) and expected != head.id:
            raise ConflictError.branch_moved(owner.id, place.branch, expected=expected, actual=head.id)
        said = source.message if source.edited_message is None else source.edited_message
        made = _copied(
            source,
            place,
            branch=place.branch,
            parent=head,
            prev=head.id,
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

    def work(reader: Reader, session: SessionRow) -> tuple[OperationPlan | None, CheckpointRow]:
        head = get_head(reader, session.id, name)
        if not remember or session.current == name:
            return None, head
        return OperationPlan("switch", switch_to=name, structural=False), head

    done = carry_out(place, work)
    return Checkpoint(done.found, done.session)


def rename(place: Place, old: str, new: str) -> BranchInfo:
    """Give a branch another name."""
    check_branch(old)
    check_branch(new)

    def work(reader: Reader, session: SessionRow) -> tuple[OperationPlan, CheckpointRow]:
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

    def work(reader: Reader, session: SessionRow) -> tuple[OperationPlan, CheckpointRow]:
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


def _copied(
    source: CheckpointRow,
    place: Place,
    *,
    branch: str,
    parent: CheckpointRow,
    prev: CheckpointId | None,
    trigger: str,
    message: str,
    metadata: str = "{}",
) -> CheckpointRow:
    """A new checkpoint with the state of `source`, and what its writer said about that state."""
    row = CheckpointRow(
        id=CheckpointId(b""),
        session=place.claim.session,
        branch=branch,
        parents=(parent.id,),
        root=source.root,
        # A clock that went back must not put a child before its parent.
        created_at=max(place.clock(), parent.created_at + 1),
        trigger=trigger,
        status=source.status,
        step=source.step,
        message=message,
        metadata=metadata,
        tokens=source.tokens,
        cost_usd=source.cost_usd,
        duration_ms=source.duration_ms,
        app_version=place.app_version,
        # Two forks of one checkpoint in the same microsecond are still two checkpoints.
        nonce=os.urandom(16),
        key=None,
        size_bytes=source.size_bytes,
        prev=prev,
    )
    return row._replace(id=checkpoint_id(row))


def _shortened(message: str) -> str:
    line = message.partition("\n")[0]
    if len(line) > _MOST_OF_A_MESSAGE:
        line = line[: _MOST_OF_A_MESSAGE - 1] + "…"
    return f": {line}" if line else ""


def _free(branch: str, taken: Iterable[str]) -> str:
    taken = set(taken)
    return next(name for n in count(1) if (name := f"{branch}-{n}") not in taken)


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
