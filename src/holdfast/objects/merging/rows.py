"""What becomes of the items of a list: which item is which on both sides, and what stands where in the end.

Items that both sides kept in their place hold the list together. What lies between two of them is a stretch. If only
one side put something new into a stretch, all of it can be told: what one removed goes, what the other added comes. If
both did, nobody knows which comes first, and the stretch is a conflict; but what both added at the very end is ours,
then theirs, with what they have in common once.

An item that one side moved is merged where it stands now. If both moved the same item, or one moved items and a stretch
is a conflict, the whole list is one: to decide on a part of it could lose an item that came from another part.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Final

from holdfast.objects.diffing.aligning import align
from holdfast.objects.diffing.pairing import pair_items
from holdfast.objects.diffing.stretches import Item, unequal
from holdfast.record import Record

OURS: Final = 0
THEIRS: Final = 1


class Entry(Record):
    """One item of the result: where it is in each of the three, as far as it is there."""

    base: int | None
    ours: int | None
    theirs: int | None


class Stretch(Record):
    """Items on which both sides disagree: where they begin and end in each of the three."""

    base: tuple[int, int]
    ours: tuple[int, int]
    theirs: tuple[int, int]


class Appended(Record):
    """What both added at the end of the list: where that begins on both sides."""

    ours: int
    theirs: int


Outcome = Entry | Stretch | Appended


class _Fate(Record):
    """What one side did with the items of the common ancestor."""

    kept: dict[int, int]
    """Positions in the ancestor and where they are now; in place, so they go up on both sides."""
    moved: dict[int, int]
    """The same for those that stand elsewhere."""
    origin: dict[int, int]
    """The other way round, for both."""


def merge_rows(base: list[Item], ours: list[Item], theirs: list[Item]) -> list[Outcome] | None:
    """The items of the merged list, in order; None where the list can only be decided on as a whole."""
    fates = (_fate(base, ours), _fate(base, theirs))
    if fates[OURS].moved.keys() & fates[THEIRS].moved.keys():
        return None
    merging = _Merging((base, ours, theirs), fates)
    found: list[Outcome] = []
    for stretch, stable in merging.stretches():
        found += merging.inside(stretch)
        if stable is not None:
            found.append(stable)
    if any(fate.moved for fate in fates) and any(isinstance(each, Stretch) for each in found):
        return None
    return found


def join_appended(
    ours: Sequence[Hashable], theirs: Sequence[Hashable]
) -> Iterator[tuple[int | None, int | None]]:
    """What both added at the end, by name: positions on both sides; what they have in common is there once."""
    pairs = align(ours, theirs)
    partners = dict(pairs)
    taken = set(partners.values())
    spare: dict[Hashable, list[int]] = {}
    for at, name in reversed(list(enumerate(theirs))):
        if at not in taken:
            spare.setdefault(name, []).append(at)
    for at, name in enumerate(ours):
        if at not in partners and spare.get(name):
            partners[at] = spare[name].pop()
    taken = set(partners.values())
    left = right = 0
    for stop, other_stop in [*pairs, (len(ours), len(theirs))]:
        yield from ((at, partners.get(at)) for at in range(left, stop))
        yield from ((None, at) for at in range(right, other_stop) if at not in taken)
        if stop < len(ours):
            yield stop, other_stop
        left, right = stop + 1, other_stop + 1


class _Merging:
    """One list."""

    def __init__(self, rows: tuple[list[Item], list[Item], list[Item]], fates: tuple[_Fate, _Fate]) -> None:
        self._base, *self._sides = rows
        self._fates = fates

    def stretches(self) -> Iterator[tuple[Stretch, Entry | None]]:
        """What lies between items that both kept in their place, each with the one that follows it."""
        ours, theirs = (fate.kept for fate in self._fates)
        at = left = right = 0
        for stop in sorted(ours.keys() & theirs.keys()):
            mine, other = ours[stop], theirs[stop]
            yield Stretch((at, stop), (left, mine), (right, other)), Entry(stop, mine, other)
            at, left, right = stop + 1, mine + 1, other + 1
        ends = len(self._base), len(self._sides[OURS]), len(self._sides[THEIRS])
        yield Stretch((at, ends[0]), (left, ends[1]), (right, ends[2])), None

    def inside(self, stretch: Stretch) -> list[Outcome]:
        """What becomes of a stretch."""
        ranges = (stretch.ours, stretch.theirs)
        new = [self._has_new(side, *ranges[side]) for side in (OURS, THEIRS)]
        if all(new):
            return self._both_new(stretch)
        placed = [each for side in (OURS, THEIRS) for each in self._placed(side, *ranges[side])]
        placed.sort(key=lambda each: each[0])
        return [entry for _, entry in placed]

    def _both_new(self, stretch: Stretch) -> list[Outcome]:
        if any(fate.moved for fate in self._fates):
            # What was moved here may have been changed there.
            return [stretch]
        mine, other = self._tokens(OURS, *stretch.ours), self._tokens(THEIRS, *stretch.theirs)
        if mine == other:
            pairs = zip(range(*stretch.ours), range(*stretch.theirs), strict=True)
            return [Entry(None, *pair) for pair in pairs]
        if stretch.base == (len(self._base), len(self._base)):
            return [Appended(stretch.ours[0], stretch.theirs[0])]
        return [stretch]

    def _placed(self, side: int, start: int, stop: int) -> Iterator[tuple[tuple[int, int, int], Entry]]:
        """The items of one side in a stretch, each with what to sort it by: what it stands at, or behind."""
        fate, other = self._fates[side], self._fates[1 - side]
        last = -1
        for at in range(start, stop):
            origin = fate.origin.get(at)
            in_place = origin is not None and origin in fate.kept
            if in_place and origin is not None:
                last = origin
            if origin is not None and in_place and origin in other.moved:
                # It is told where it stands now.
                continue
            there = None if origin is None else other.kept.get(origin)
            entry = Entry(origin, at, there) if side == OURS else Entry(origin, there, at)
            yield (last, 0 if in_place else 1 + side, at), entry

    def _has_new(self, side: int, start: int, stop: int) -> bool:
        kept = self._fates[side].kept
        return any(self._fates[side].origin.get(at, -1) not in kept for at in range(start, stop))

    def _tokens(self, side: int, start: int, stop: int) -> list[Hashable]:
        return [item.value.token for item in self._sides[side][start:stop]]


def _fate(base: list[Item], side: list[Item]) -> _Fate:
    stretches = unequal(base, side)
    paired = pair_items(stretches)
    gone = {item.at for stretch in stretches for item in stretch.old}
    come = {item.at for stretch in stretches for item in stretch.new}
    # Outside of the stretches everything is equal, in the same order.
    kept = dict(
        zip(
            (item.at for item in base if item.at not in gone),
            (item.at for item in side if item.at not in come),
            strict=True,
        )
    )
    for stretch, pairs in zip(stretches, paired.kept, strict=True):
        kept.update((stretch.old[old].at, stretch.new[new].at) for old, new in pairs)
    moved = {
        stretches[source].old[old].at: stretches[target].new[new].at
        for (target, new), (source, old) in paired.moved.items()
    }
    return _Fate(kept, moved, {at: origin for origin, at in (kept | moved).items()})
