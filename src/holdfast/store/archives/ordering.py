"""The order in which checkpoints come into a store: each after everything that it was made from.

A store numbers checkpoints as they come, and every walk through history counts on an ancestor having the lower number.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from holdfast.storage.records import CheckpointId, CheckpointRow


def parents_first(rows: Sequence[CheckpointRow], *, by_time: bool) -> list[int]:
    """The places of rows in an order in which each comes after its ancestors, as far as those are among them.

    Of those that may come next it is the oldest one's turn, or without `by_time` that of the one that stands first.
    Rows that are ancestors of themselves, and what comes from them, are left out.
    """
    places = {row.id: at for at, row in enumerate(rows)}
    children: dict[CheckpointId, list[int]] = {}
    waiting: list[int] = []
    for at, row in enumerate(rows):
        # What is not among them is not waited for.
        before = {each for each in (row.prev, *row.parents) if each is not None and each in places}
        for each in before:
            children.setdefault(each, []).append(at)
        waiting.append(len(before))

    def turn(at: int) -> tuple[int, int]:
        return (rows[at].created_at if by_time else 0), at

    ready = [turn(at) for at, count in enumerate(waiting) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        _, at = heappop(ready)
        order.append(at)
        for child in children.get(rows[at].id, ()):
            waiting[child] -= 1
            if not waiting[child]:
                heappush(ready, turn(child))
    return order
