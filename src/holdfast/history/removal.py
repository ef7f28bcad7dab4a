"""What taking checkpoints out of history changes: computed here, written in one commit.

A removed checkpoint is hidden, not destroyed. The `prev` of every row that followed it, hidden ones included, is led
past it to the nearest ancestor that stays, so that every walk stays whole; a branch whose tip it was moves back along
the same way. Deleting one, clearing a session and pruning are the same change with other sets of checkpoints.

A checkpoint that is pinned, or from which more than one line goes on, is protected from being deleted by mistake.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.history.oplog import edit
from holdfast.record import Record
from holdfast.storage.ports import Reader
from holdfast.storage.records import (
    BranchRow,
    CheckpointId,
    CheckpointRow,
    Edit,
    Move,
    Query,
    SessionRow,
)

_Links = Mapping[CheckpointId, tuple[CheckpointId | None, int]]
"""Of each checkpoint: its nearest ancestor that stays, and how many lie between."""


class Change(Record):
    """The edits (with the rows they change) and branch moves of one operation."""

    edits: Sequence[tuple[CheckpointRow, Edit]]
    moves: Sequence[Move]


def plan_removal(reader: Reader, session: SessionRow, row: CheckpointRow, *, force: bool) -> Change:
    """Work out the deletion of `row`.

    Raises:
        InvalidInputError: It is protected, and `force` is not given.
    """
    heads = [branch for branch in reader.branches(session.id) if branch.head == row.id]
    children = reader.checkpoints(Query(session=session.id, prev=row.id, include_hidden=True))
    if not force:
        _check_unprotected(row, lines=len(heads) + sum(not each.hidden for each in children))
    return remove([row, *children], heads, {row.id}, number=session.log_count + 1)


def plan_clearing(reader: Reader, session: SessionRow, *, force: bool) -> Change:
    """Work out the removal of every checkpoint and every branch of a session.

    Raises:
        InvalidInputError: One of them is pinned, and `force` is not given.
    """
    rows = reader.checkpoints(Query(session=session.id, include_hidden=True))
    there = [row for row in rows if not row.hidden]
    pinned = [row for row in there if row.pinned]
    if pinned and not force:
        raise _protected(pinned[0], f"is pinned, so session {session.id!r} was not cleared", "clear it")
    removed = {row.id for row in there}
    return remove(rows, reader.branches(session.id), removed, number=session.log_count + 1)


def remove(
    rows: Iterable[CheckpointRow],
    heads: Iterable[BranchRow],
    removed: Collection[CheckpointId],
    *,
    number: int,
) -> Change:
    """The change that takes `removed` out of the history of one session, as operation `number` of its log.

    `rows` has the removed ones and all whose `prev` they are, hidden ones too; `heads` the branches.
    """
    rows = list(rows)
    links = links_past(rows, removed)
    moves = [
        Move(branch=each.name, expected=each.head, head=links[each.head][0])
        for each in heads
        if each.head in removed
    ]
    return Change(_edits(rows, links, removed, number), moves)


def links_past(rows: Sequence[CheckpointRow], removed: Collection[CheckpointId]) -> _Links:
    """Where each row leads once some are removed: `prev` and `skipped`."""
    links: dict[CheckpointId, tuple[CheckpointId | None, int]] = {}
    # Oldest first: where a removed row leads is known before anything that follows it is looked at.
    for row in sorted(rows, key=lambda row: row.seq):
        prev, skipped = row.prev, row.skipped
        if prev is not None and prev in removed:
            beyond, more = links[prev]
            prev, skipped = beyond, skipped + 1 + more
        links[row.id] = prev, skipped
    return links


def _edits(
    rows: Iterable[CheckpointRow], links: _Links, removed: Collection[CheckpointId], number: int
) -> list[tuple[CheckpointRow, Edit]]:
    edits = []
    for row in sorted(rows, key=lambda row: row.seq):
        prev, skipped = links[row.id]
        # One that was hidden before keeps the number of the operation that hid it.
        hidden = row.hidden or (number if row.id in removed else 0)
        if (prev, skipped, hidden) != (row.prev, row.skipped, row.hidden):
            edits.append((row, edit(row, prev=prev, skipped=skipped, hidden=hidden)))
    return edits


def _check_unprotected(row: CheckpointRow, *, lines: int) -> None:
    if row.pinned:
        raise _protected(row, "is pinned, so it was not deleted", "delete it")
    if lines > 1:
        raise _protected(row, "is where branches part, so it was not deleted", "delete it")


def _protected(row: CheckpointRow, why: str, anyway: str) -> InvalidInputError:
    return InvalidInputError(
        f"checkpoint {row.id.hex()[:12]} {why}",
        code=ErrorCode.PROTECTED,
        hint=f"pass force=True to {anyway} all the same",
        checkpoint=row.id.hex(),
    )
