"""Which branches an import may move forward: those whose head the line that comes in goes on from.

A line goes on from a head where the head is an ancestor of its last checkpoint, by what each checkpoint follows here.
Where the two have parted, or several lines of one name go on from the same head, nobody but a person can say where the
branch belongs, and it stays. What came in then has a branch beside it, and more of that line moves this one forward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from holdfast.storage.records import BranchRow, CheckpointId, CheckpointRow, Move
from holdfast.store.archives.numbering import is_beside

Find = Callable[[CheckpointId], CheckpointRow | None]


def last_on_branches(
    rows: Sequence[CheckpointRow], heads: Mapping[str, CheckpointId] | None
) -> list[tuple[str, CheckpointId]]:
    """Where each branch ends in what came in, as the rows are here from then on.

    Args:
        rows: All that came in, what was here before included.
        heads: The branches as the first line of a whole session says; None where there is no such line, and a branch
            ends where nothing that was saved on it follows.
    """
    there = {row.id for row in rows if not row.hidden}
    if heads is not None:
        return [(name, head) for name, head in heads.items() if head in there]
    followed = {
        (row.branch, each)
        for row in rows
        if not row.hidden
        for each in (row.prev, *row.parents[:1])
        if each is not None
    }
    return [(row.branch, row.id) for row in rows if row.id in there and (row.branch, row.id) not in followed]


def moves_forward(
    branches: Iterable[BranchRow], ends: Iterable[tuple[str, CheckpointId]], find: Find
) -> tuple[Move, ...]:
    """The heads that can move forward, each to where the line of its name ends."""
    by_name: dict[str, list[CheckpointId]] = {}
    for name, end in ends:
        by_name.setdefault(name, []).append(end)
    moves = []
    for branch in branches:
        wanted = by_name.get(branch.name)
        head = find(branch.head) if wanted else None
        if not wanted or head is None or branch.head in wanted:
            continue
        going_on = _going_on(head, wanted, find)
        if len(going_on) == 1:
            moves.append(Move(branch.name, expected=branch.head, head=going_on[0]))
    return tuple(moves)


def moves_beside(
    branches: Iterable[BranchRow],
    parted: Iterable[tuple[str, CheckpointId]],
    arriving: Iterable[CheckpointRow],
    find: Find,
) -> dict[tuple[str, CheckpointId], Move]:
    """The lines that go on from a branch which an earlier import made beside the one of their name; how each moves.

    Such a branch is called by the name with a number, and its head was saved on a branch of the name itself: whoever
    forks or saves here writes checkpoints that were saved on the branch with the number. A branch that was renamed so
    looks the same; what goes on from its head moves it forward, which takes nothing from it.

    Args:
        branches: Those that are there.
        parted: The branches of what is new that do not go on from the head of their name, and where each ends.
        arriving: All that is new, each after what it follows.
        find: Finds a checkpoint as it is afterwards.
    """
    begun: dict[CheckpointId, CheckpointId | None] = {}
    for row in arriving:
        begun[row.id] = row.prev if row.prev is None else begun.get(row.prev, row.prev)
    at: dict[CheckpointId, list[BranchRow]] = {}
    for branch in branches:
        at.setdefault(branch.head, []).append(branch)
    moves: dict[str, list[tuple[tuple[str, CheckpointId], Move]]] = {}
    for name, end in parted:
        start = begun.get(end)
        head = None if start is None or start not in at else find(start)
        if head is None or head.branch != name:
            continue
        for branch in at[head.id]:
            if is_beside(branch.name, name):
                moves.setdefault(branch.name, []).append(((name, end), Move(branch.name, head.id, end)))
                break
    return dict(each[0] for each in moves.values() if len(each) == 1)


def _going_on(head: CheckpointRow, ends: Iterable[CheckpointId], find: Find) -> list[CheckpointId]:
    """Those of some checkpoints that have the head among their ancestors."""
    # Shared by all of them: each checkpoint is passed once, however many lines there are.
    known = {head.id: True}
    found = []
    for end in ends:
        passed: list[CheckpointId] = []
        here = find(end)
        # A child is younger than what it follows. Whatever is as old as the head is not made from it; and in a damaged
        # store that leads in a circle, this ends.
        while here is not None and here.id not in known and here.created_at > head.created_at:
            passed.append(here.id)
            known[here.id] = False
            here = None if here.prev is None else find(here.prev)
        reached = here is not None and known.get(here.id, False)
        known.update(dict.fromkeys(passed, reached))
        if reached and end != head.id:
            found.append(end)
    return found
