"""Where rows lead when removed checkpoints come back, or some go: worked out from what each was saved on.

A row knows what it was saved on for ever, so that its way can be worked out while that is in the store. Where that is
gone for good, the log of the removal may say where the row led before, or the numbers do: if as many are skipped as
there are numbers between a row and what it leads to, all of them lay on its way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from holdfast.record import Record
from holdfast.storage.records import CheckpointId, CheckpointRow

Link = tuple[CheckpointId | None, int]
"""`prev` and `skipped` of a row."""


def relink(
    rows: Sequence[CheckpointRow],
    *,
    shown: Collection[CheckpointId],
    hidden: Collection[CheckpointId],
    told: Mapping[CheckpointId, Link] | None = None,
) -> Mapping[CheckpointId, Link]:
    """Where each row leads once some are shown and some are hidden: `prev` and `skipped`.

    `rows` has those that change, those whose way they are part of, and what each of these was saved on, if it is there.
    `told` has where rows led that the entry changed: where the parent is gone for good, nothing else knows.
    """
    known = {row.id: row for row in rows}

    def stays(checkpoint: CheckpointId) -> bool:
        return checkpoint in shown or not (checkpoint in hidden or known[checkpoint].hidden)

    links: dict[CheckpointId, Link] = {}
    # Oldest first: where a parent leads is known before its children are looked at.
    for row in sorted(rows, key=lambda row: row.seq):
        parent = row.parents[0] if row.parents else None
        if parent in links:
            beyond, more = links[parent]
            links[row.id] = (parent, 0) if stays(parent) else (beyond, more + 1)
        elif told and row.id in told:
            links[row.id] = told[row.id]
        elif row.prev in known and not stays(row.prev):
            # The parent is gone for good, and so is the way between: count on from what the row knows itself.
            beyond, more = links[row.prev]
            links[row.id] = beyond, row.skipped + 1 + more
        else:
            links[row.id] = row.prev, row.skipped
    return links


class Rejoined(Record):
    """What follows checkpoints that come back, where what followed them before is gone for good."""

    links: Mapping[CheckpointId, Link]
    unsure: Sequence[tuple[CheckpointRow, Sequence[CheckpointRow]]]
    """Those that come back and may have lain on the way of several rows, or of none; and those rows."""


def rejoin(rows: Sequence[CheckpointRow], back: Iterable[CheckpointRow]) -> Rejoined:
    """Find what follows each of `back`: checkpoints that come back, and whose followers are gone for good.

    `rows` has all that lead to where these lead, that itself, and what each was saved on, if it is there.
    """
    known = {row.id: row for row in rows}
    links: dict[CheckpointId, Link] = {}
    unsure: list[tuple[CheckpointRow, Sequence[CheckpointRow]]] = []
    # Oldest first: a row is left to the youngest of those that it may follow.
    for each in sorted(back, key=lambda row: row.seq):
        possible = [row for row in rows if _may_follow(row, each, known)]
        sure = [row for row in possible if _is_sure(row, known)]
        there = [row for row in possible if not row.hidden]
        if not sure and (len(there) > 1 or any(row.branch != each.branch for row in there)):
            unsure.append((each, there))
            continue
        for row in sure or [row for row in possible if row.branch == each.branch]:
            links[row.id] = each.id, row.skipped - each.skipped - 1
    return Rejoined(links, unsure)


def _may_follow(row: CheckpointRow, back: CheckpointRow, known: Mapping[CheckpointId, CheckpointRow]) -> bool:
    """Whether the way of a row may have led through one that comes back, and at least one more that is gone."""
    gone = bool(row.parents) and row.parents[0] not in known
    return gone and row.prev == back.prev and row.seq > back.seq and row.skipped >= back.skipped + 2


def _is_sure(row: CheckpointRow, known: Mapping[CheckpointId, CheckpointRow]) -> bool:
    """Whether every checkpoint between a row and what it leads to lay on its way."""
    if row.prev is None:
        return row.skipped == row.seq - 1
    return row.prev in known and row.skipped == row.seq - known[row.prev].seq - 1
