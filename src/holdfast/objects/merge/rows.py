"""What becomes of the items of a list: which item is which on both sides, and what stands where in the end.

Items that both sides kept in their place hold the list together. What lies between two of them is a gap. If only one
side put something new into a gap, most of it can be told: what one removed goes, what the other added comes; but items
that one side replaced by new ones, and the other changed or removed, are a conflict. If both put something there,
nobody knows which comes first, and the gap is a conflict; but what both added at the very end is ours, then theirs,
with what they have in common once.

A change to an item and what was put beside it are one change where nobody can tell them apart: a plain value has
nothing to be known by, so that `b` that became `t1, t2` may have been changed and added to, or replaced. Where the
other side changed `b` too, all of it is one conflict.

An item that one side moved is merged where it stands now. If both moved the same item, or one moved items and a stretch
is a conflict, the whole list is one: to decide on a part of it could lose an item that came from another part.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final, Literal

from holdfast.objects.diff.alignment import align
from holdfast.objects.diff.pairs import pair_items
from holdfast.objects.diff.sequences import Item, unequal
from holdfast.record import Record

OURS: Final = 0
THEIRS: Final = 1

Names = Sequence[bytes | None]
"""The `id` of each item of a row, where it has one."""


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


class Contact(Record):
    """Items that both changed, and what one of them put beside these."""

    outcomes: list[Entry | Stretch | Appended]
    """What becomes of them if the items can be merged."""
    stretch: Stretch
    """All of it: the conflict if one of the items cannot."""


Outcome = Entry | Stretch | Appended | Contact


class Part(Record):
    """A piece of the list, and what becomes of it."""

    where: Stretch
    outcomes: list[Entry | Stretch | Appended]
    bond: Literal["changed", "put", ""] = ""
    """`changed` for an item that both changed, `put` for what was put between two items: beside each other these are
    one."""


class _Fate(Record):
    """What one side did with the items of the common ancestor."""

    kept: dict[int, int]
    """Positions in the ancestor and where they are now; in place, so they go up on both sides."""
    moved: dict[int, int]
    """The same for those that stand elsewhere."""
    origin: dict[int, int]
    """The other way round, for both."""


def merge_rows(
    rows: tuple[list[Item], list[Item], list[Item]], names: tuple[Names, Names, Names]
) -> list[Outcome] | None:
    """The items of the merged list, in order; None where the list can only be decided on as a whole.

    Args:
        rows: The items of the common ancestor, of ours and of theirs.
        names: Their ids.
    """
    base, ours, theirs = rows
    fates = (_fate(base, ours), _fate(base, theirs))
    if fates[OURS].moved.keys() & fates[THEIRS].moved.keys():
        return None
    parts = list(_Merging(rows, names, fates).parts())
    if not any(fate.moved for fate in fates):
        return list(_joined(parts))
    found: list[Outcome] = [outcome for part in parts for outcome in part.outcomes]
    return None if any(isinstance(each, Stretch) for each in found) else found


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

    def __init__(
        self,
        rows: tuple[list[Item], list[Item], list[Item]],
        names: tuple[Names, Names, Names],
        fates: tuple[_Fate, _Fate],
    ) -> None:
        self._base, *self._sides = rows
        self._base_names, *self._side_names = names
        self._fates = fates

    def parts(self) -> Iterator[Part]:
        """The whole list: items that both kept in their place, and what lies between them."""
        ours, theirs = (fate.kept for fate in self._fates)
        at = left = right = 0
        for stop in sorted(ours.keys() & theirs.keys()):
            mine, other = ours[stop], theirs[stop]
            yield from self._gap(Stretch((at, stop), (left, mine), (right, other)))
            bond = self._changed(OURS, stop) and self._changed(THEIRS, stop)
            at, left, right = stop + 1, mine + 1, other + 1
            where = Stretch((stop, at), (mine, left), (other, right))
            yield Part(where, [Entry(stop, mine, other)], "changed" if bond else "")
        ends = len(self._base), len(self._sides[OURS]), len(self._sides[THEIRS])
        yield from self._gap(Stretch((at, ends[0]), (left, ends[1]), (right, ends[2])))

    def _gap(self, gap: Stretch) -> Iterator[Part]:
        if not any(start < stop for start, stop in gap):
            return
        new = [self._has_new(side, *gap[1 + side]) for side in (OURS, THEIRS)]
        if all(new):
            outcomes = self._both_new(gap)
            yield Part(gap, outcomes, "" if isinstance(outcomes[0], Entry) else "put")
        else:
            yield from self._one_new(gap, THEIRS if new[THEIRS] else OURS)

    def _one_new(self, gap: Stretch, side: int) -> Iterator[Part]:
        """A gap into which at most this side put something, cut where that side kept an item."""
        kept = self._fates[side].kept
        at, own, across = gap.base[0], gap[1 + side][0], gap[2 - side][0]
        for stop in [*(at for at in range(*gap.base) if at in kept), gap.base[1]]:
            own_stop = kept.get(stop, gap[1 + side][1])
            across_stop = across + len(
                [each for each in range(at, stop) if each in self._fates[1 - side].kept]
            )
            if at < stop or own < own_stop:
                yield self._hunk(side, (at, stop), (own, own_stop), (across, across_stop))
            at, own, across = stop, own_stop, across_stop
            if stop < gap.base[1]:
                # The other side has it no more, or elsewhere.
                where = _stretch(side, (at, at + 1), (own, own + 1), (across, across))
                gone = at not in self._fates[1 - side].moved
                bond = gone and self._changed(side, at)
                yield Part(where, self._in_order(where), "changed" if bond else "")
                at, own = at + 1, own + 1

    def _hunk(self, side: int, base: tuple[int, int], own: tuple[int, int], across: tuple[int, int]) -> Part:
        """Items that a side removed, and what it put there."""
        where = _stretch(side, base, own, across)
        fate, other = self._fates[side], self._fates[1 - side]
        new = [at for at in range(*own) if at not in fate.origin]
        removed = [at for at in range(*base) if at not in fate.moved]
        if not new or not self._is_replaced(side, removed, new):
            return Part(where, self._in_order(where), "put" if new and base[0] == base[1] else "")
        if any(
            at not in other.moved and (at not in other.kept or self._edited(1 - side, at)) for at in removed
        ):
            return Part(where, [where], "put")
        return Part(where, self._in_order(where))

    def _is_replaced(self, side: int, removed: list[int], new: list[int]) -> bool:
        """Whether new items may stand for removed ones: not if all of them say who they are."""
        names = self._side_names[side]
        said = all(self._base_names[at] is not None for at in removed) and all(
            names[at] is not None for at in new
        )
        return bool(removed) and not said

    def _changed(self, side: int, at: int) -> bool:
        """Whether a side changed an item that is known by nothing but its place."""
        return self._base_names[at] is None and self._edited(side, at)

    def _edited(self, side: int, at: int) -> bool:
        now = self._sides[side][self._fates[side].kept[at]]
        return now.value.token != self._base[at].value.token

    def _in_order(self, where: Stretch) -> list[Entry | Stretch | Appended]:
        placed = [each for side in (OURS, THEIRS) for each in self._placed(side, *where[1 + side])]
        placed.sort(key=lambda each: each[0])
        return [entry for _, entry in placed]

    def _both_new(self, stretch: Stretch) -> list[Entry | Stretch | Appended]:
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


def _stretch(side: int, base: tuple[int, int], own: tuple[int, int], across: tuple[int, int]) -> Stretch:
    return Stretch(base, own, across) if side == OURS else Stretch(base, across, own)


def _fate(base: list[Item], side: list[Item]) -> _Fate:
    stretches = unequal([item.value for item in base], [item.value for item in side])
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


def _joined(parts: Iterable[Part]) -> Iterator[Outcome]:
    """What becomes of parts that follow each other, those that touch as one."""
    touching: list[Part] = []
    for part in parts:
        if touching and {touching[-1].bond, part.bond} != {"changed", "put"}:
            yield from _as_one(touching)
            touching = []
        touching.append(part)
    if touching:
        yield from _as_one(touching)


def _as_one(parts: list[Part]) -> Iterator[Outcome]:
    outcomes = [outcome for part in parts for outcome in part.outcomes]
    if len(parts) == 1:
        yield from outcomes
        return
    ends = zip(parts[0].where, parts[-1].where, strict=True)
    yield Contact(outcomes, Stretch(*((first[0], last[1]) for first, last in ends)))
