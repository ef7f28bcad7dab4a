"""Which checkpoints a policy does not want and still has to leave, because lines that stay meet there.

A merge needs the checkpoint at which two lines met last: as their common state, and to know that they met at all. So
for any two that stay, the place where they meet stays too, and so does the way from each to it. A way that `prev` leads
stays by itself, however many rows go on it. One that leads through a merge is known to that merge alone, which has to
stay, together with what it brought in.

One pass from the newest row to the oldest finds them: each row that goes belongs to the one that stays and leads to it.
Where two lead to it of which none leads to the other, they meet there. What no branch leads to is nobody's line, and is
left out.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from typing import Final

from holdfast.record import Record
from holdfast.storage.records import CheckpointId, CheckpointRow

MEET: Final = "branches meet here"
LEADS: Final = "leads to where branches meet"

_PATIENCE: Final = 1000
"""Rows looked at to learn whether one comes from another. Where that is not enough, a row stays that could go."""


def find_crossings(
    newest_first: Sequence[CheckpointRow], heads: Iterable[CheckpointId], removed: Collection[CheckpointId]
) -> dict[CheckpointId, str]:
    """Rows among `removed` that have to stay, and why; asked again without them, there may be a few more.

    Args:
        newest_first: All rows that are there, each after those that were made from it.
        heads: The tips of all branches.
        removed: What is to go.
    """
    if not removed or not any(len(row.parents) > 1 for row in newest_first):
        # Without a merge, lines meet where they parted, and these places stay by themselves.
        return {}
    return _Lines(newest_first, removed).crossings(heads)


def all_ways(
    newest_first: Sequence[CheckpointRow], heads: Iterable[CheckpointId], removed: Collection[CheckpointId]
) -> dict[CheckpointId, str]:
    """Every merge among `removed` that a branch leads to, and what it brought in.

    Where branches merge into each other all the time, each way that is kept makes another one matter, and in the end
    these are what stays. Together with them, `find_crossings` finds in one pass whatever else has to stay.
    """
    known = {row.id for row in newest_first}
    alive = set(heads)
    found: dict[CheckpointId, str] = {}
    for row in newest_first:
        if row.id in alive:
            ways = list(_ways(row, known))
            alive.update(way for way, _ in ways)
            if len(row.parents) > 1:
                found |= dict.fromkeys((row.id, *(way for way, is_prev in ways if not is_prev)), LEADS)
    return {each: why for each, why in found.items() if each in removed}


class _Step(Record):
    """How a row is led to."""

    child: CheckpointId
    """The row that leads to it."""
    is_prev: bool
    """Whether as the row before it, and not as what it merged."""
    is_known: bool
    """Whether the one that stays, and leads here, knows the way when all that goes has gone."""


class _Lines:
    """All rows that a branch leads to."""

    def __init__(self, rows: Sequence[CheckpointRow], removed: Collection[CheckpointId]) -> None:
        self._age = {row.id: age for age, row in enumerate(rows)}
        self._rows = rows
        self._removed = removed
        self._leading: dict[CheckpointId, list[tuple[CheckpointId, bool]]] = {}
        """To each row: those that lead to it, and whether as the row before them."""
        self._belongs: dict[CheckpointId, tuple[CheckpointId, _Step]] = {}
        """Of each row that goes: the one that stays and leads to it, and how."""
        self._above: dict[CheckpointId, Collection[CheckpointId]] = {}
        """Of each row that stays: those next to it that stay and lead to it."""
        self._found: dict[CheckpointId, str] = {}

    def crossings(self, heads: Iterable[CheckpointId]) -> dict[CheckpointId, str]:
        """Those that have to stay."""
        alive = set(heads)
        for row in self._rows:
            if row.id in alive:
                for way, is_prev in _ways(row, self._age):
                    alive.add(way)
                    self._leading.setdefault(way, []).append((row.id, is_prev))
                self._place(row.id)
        return self._found

    def _place(self, row: CheckpointId) -> None:
        """Find out what becomes of a row; all that lead to it have been placed."""
        steps = self._steps(row)
        if row in self._removed:
            nearest = [each for each in steps if not self._leads_to_any(each, steps)]
            if len(nearest) <= 1:
                for each in nearest:
                    self._belongs[row] = each, steps[each]
                return
            self._found[row] = MEET
        self._above[row] = [*steps]
        for each, step in steps.items():
            # A merge names what it merged: that way is known as long as both are there.
            if not step.is_known and step.child != each and not self._leads_to_any(each, steps):
                self._keep_way(row, step)

    def _steps(self, row: CheckpointId) -> dict[CheckpointId, _Step]:
        """The rows next to it that stay and lead to it, each with the best way."""
        steps: dict[CheckpointId, _Step] = {}
        for child, is_prev in self._leading.get(row, ()):
            if child in self._above:
                owner, is_known = child, is_prev
            elif child in self._belongs:
                owner, before = self._belongs[child]
                is_known = is_prev and before.is_known
            else:
                # A tip that goes: its branch goes back to what stays.
                continue
            step, known = _Step(child, is_prev, is_known), steps.get(owner)
            if known is None or (is_known, child == owner) > (known.is_known, known.child == owner):
                steps[owner] = step
        return steps

    def _keep_way(self, row: CheckpointId, step: _Step) -> None:
        """Keep each merge on a way, and what it brought in."""
        while True:
            if not step.is_prev:
                for each in (row, step.child):
                    if each not in self._above:
                        self._found.setdefault(each, LEADS)
            if step.child in self._above:
                return
            row, (_, step) = step.child, self._belongs[step.child]

    def _leads_to_any(self, row: CheckpointId, others: Iterable[CheckpointId]) -> bool:
        """Whether one that stays leads to one of these others."""
        wanted = self._age[row]
        waiting = [each for each in others if each != row]
        seen = set(waiting)
        for _ in range(_PATIENCE):
            if not waiting:
                return False
            for each in self._above[waiting.pop()]:
                if each == row:
                    return True
                # What is newer than the row does not come before it.
                if each not in seen and self._age[each] > wanted:
                    seen.add(each)
                    waiting.append(each)
        return False


def _ways(row: CheckpointRow, known: Container[CheckpointId]) -> Iterator[tuple[CheckpointId, bool]]:
    """Where a row leads, among those that are there, and whether as to the row before it."""
    first = next((each for each in (*row.parents[:1], row.prev) if each in known), None)
    if first is not None:
        yield first, True
    yield from ((each, False) for each in row.parents[1:] if each in known and each != first)
