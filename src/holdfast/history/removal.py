"""What deleting a checkpoint changes: computed here, written in one commit.

A deleted checkpoint is hidden, not destroyed. Its children's `prev` is led past it, so that every walk stays whole, and
a branch whose tip it was moves back to the nearest ancestor that is still there. A checkpoint that is pinned, or from
which more than one line goes on, is protected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.history.oplog import edit
from holdfast.storage.ports import Reader
from holdfast.storage.records import CheckpointRow, Edit, Move, Query, SessionRow


class Change(NamedTuple):
    """The edits (with the rows they change) and branch moves of one operation."""

    edits: Sequence[tuple[CheckpointRow, Edit]]
    moves: Sequence[Move]
    structural: bool
    """Whether it matters that no checkpoint is saved meanwhile."""


def plan_removal(reader: Reader, session: SessionRow, row: CheckpointRow, *, force: bool) -> Change:
    """Work out the deletion of `row`.

    Raises:
        InvalidInputError: It is protected, and `force` is not given.
    """
    heads = [branch for branch in reader.branches(session.id) if branch.head == row.id]
    rows = reader.checkpoints(Query(session=session.id, include_hidden=True))
    # Removed children are led past it too: `prev` of any row always is a checkpoint that is there.
    children = [each for each in rows if each.prev == row.id]
    if not force:
        _check_unprotected(row, lines=len(heads) + sum(not child.hidden for child in children))
    number = session.log_count + 1
    edits = [(row, edit(row, hidden=number))]
    for child in children:
        skipped = child.skipped + 1 + row.skipped
        edits.append((child, edit(child, prev=row.prev, skipped=skipped)))
    moves = [Move(branch=branch.name, expected=row.id, head=row.prev) for branch in heads]
    return Change(edits, moves, structural=True)


def _check_unprotected(row: CheckpointRow, *, lines: int) -> None:
    if row.pinned:
        why = "is pinned"
    elif lines > 1:
        why = "is where branches part"
    else:
        return
    raise InvalidInputError(
        f"checkpoint {row.id.hex()[:12]} {why}, so it was not deleted",
        code=ErrorCode.PROTECTED,
        hint="pass force=True to delete it all the same",
        checkpoint=row.id.hex(),
    )
