"""undo and redo, and the list of what was done.

What can be undone and what that changes is worked out in `history.undoing` and `history.reversing`; here it is
committed, and the writer that asked for it is told where its branch is now.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice

from holdfast.history.checkpoint import Checkpoint, moment
from holdfast.history.heads import missing_head
from holdfast.history.oplog import recorded
from holdfast.history.reversing import Reversal, Subject, plan_reversal
from holdfast.history.summaries import summary
from holdfast.history.undoing import Log, next_redo, next_undo, undoable
from holdfast.record import Record
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointId, Move, Operation, SessionRow
from holdfast.store.changing import OperationPlan, carry_out
from holdfast.store.place import Place


class OperationInfo(Record):
    """An entry of the operation log, for people."""

    number: int
    """1, 2, 3 ... in the session."""
    kind: str
    at: datetime
    summary: str
    """What it did, in a few words."""
    undoable: bool
    """Whether undo gets to it, one step at a time."""


class Undone(Record):
    """The operation that an undo took back, or a redo brought again."""

    number: int
    kind: str
    at: datetime
    """When it was done."""
    summary: str
    head: Checkpoint | None
    """The head of the branch in use afterwards; None where that branch is gone."""


class Turn(Record):
    """What an undo or redo means for the writer that asked for it."""

    undone: Undone
    branch: str
    """The branch in use from now on: a renamed one is followed."""
    moved: bool
    """Whether its head is another one than before."""
    lost: CheckpointId | None
    """The head that went with the branch, where others are still there."""


def operations(place: Place, limit: int | None) -> list[OperationInfo]:
    """The operation log, newest first."""
    with place.backend.reader() as reader:
        session = reader.session(place.claim.session)
        if session is None:
            return []
        log = Log(reader, session)
        entries = list(islice(log.backwards(), limit))
        oldest = entries[-1].number if entries else 0
        reachable = set()
        for entry in undoable(log):
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

    def work(reader: Reader, session: SessionRow) -> tuple[OperationPlan, Turn]:
        if reader.session(session.id) is None:
            missing_head(reader, session.id, place.branch)
        log = Log(reader, session)
        entry = next_undo(log) if verb == "undo" else next_redo(log)
        origin = log.origin(entry)
        said = summary(reader, log, origin)
        reversal = plan_reversal(reader, session, Subject(entry, origin.kind, said, verb))
        plan = OperationPlan(
            verb,
            edits=reversal.edits,
            moves=reversal.moves,
            of=entry.number,
            switch_to=reversal.switch_to,
            structural=any(new.hidden != row.hidden for row, new in reversal.edits),
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
        undone._replace(head=None if row is None else Checkpoint(row, session)),
        after,
        moved=after != branch or head != before,
        lost=before if head is None and heads else None,
    )


def _renamed(moves: Sequence[Move], branch: str, head: CheckpointId | None) -> str | None:
    return next(
        (m.branch for m in moves if m.expected is None and m.head == head is not None and m.branch != branch),
        None,
    )
