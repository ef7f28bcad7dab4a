"""Merging where one common ancestor is not enough to tell who changed what.

Two cases. Lines that were merged into each other crosswise have several common ancestors, and each knows something that
the others do not: what follows from one of them counts only if it follows from all. And where the last common ancestor
is gone for good, an older one says what was there once, not what both sides had when they parted: then nothing follows
from a side being as it was, and whatever differs is a conflict.

Conflicts are looked for as deep as can be: dicts, objects, tuples and lists whose items have an `id` are taken apart as
in any merge, and where the ancestors agree on a part, it is merged as in any other. The rest is merged with each
ancestor for itself, and is one conflict if what comes out is not the same.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Sequence
from typing import Any, Final

from holdfast.objects.codec import msgpack
from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.diffing.change import PathStep
from holdfast.objects.diffing.encoded import DICT, LIST, PAIRS, RECORD, Encoded, Opened, Value
from holdfast.objects.merging import building
from holdfast.objects.merging.conflict import ConflictKind, MergeConflict
from holdfast.objects.merging.extras import merge_set_names
from holdfast.objects.merging.ordering import order_keys, order_named
from holdfast.objects.merging.resolving import Resolver
from holdfast.objects.merging.values import Merge, Spot, Three
from holdfast.record import Record

_NO_TYPES: Final = TypeRegistry()
_NIL: Final = b"\xc0"

_Maybe = Value | None
_Work = Generator[Three, _Maybe, _Maybe]


class UnsureBase(Encoded):
    """What several ancestors have in a place, or one that is not the last that both sides had."""

    __slots__ = ("bases", "exact")

    def __init__(self, bases: Sequence[_Maybe], *, exact: bool) -> None:
        super().__init__(_NIL)
        self.bases = bases
        """What each of them has there, the youngest first; None where there is nothing."""
        self.exact = exact
        """Whether they are the last ones that both sides had."""

    @property
    def token(self) -> Hashable:
        """Equal to nothing else: nobody can say what was there."""
        return "unsure", id(self)


class _Place(Record):
    """A place taken apart."""

    spot: Spot
    exact: bool
    bases: list[Opened]
    """One that has nothing there, or where it does not count something else, has no parts."""
    ours: Opened
    theirs: Opened

    @property
    def sides(self) -> list[Opened]:
        return [*self.bases, self.ours, self.theirs]

    def part(self, step: PathStep, bases: Sequence[_Maybe], ours: _Maybe, theirs: _Maybe) -> Three:
        base: _Maybe = UnsureBase(bases, exact=self.exact)
        if self.exact and all(_equal(bases[0], each) for each in bases):
            base = bases[0]
        return Three(Spot(self.spot, step), base, ours, theirs)


class UnsureMerge(Merge):
    """One merge of two states whose ancestor is an `UnsureBase`."""

    def _merged(self, three: Three) -> _Work:
        if not isinstance(three.base, UnsureBase):
            return (yield from super()._merged(three))
        if _equal(three.ours, three.theirs):
            return three.ours
        place = self._taken_apart(three, three.base)
        merged = None if place is None else (yield from self._by_place(place))
        return self._as_one(three, three.base) if merged is None else merged

    def _by_place(self, place: _Place) -> _Work:
        """What its parts become; None where they cannot be told from each other."""
        frame = place.ours.frame
        if place.ours.shape == LIST:
            values = yield from self._list_items(place)
            return None if values is None else building.row_of(frame, values, self._read)
        pairs = yield from self._pairs(place)
        if place.ours.shape == RECORD:
            extra = yield from self._extra(place, list(pairs))
            return building.record_of(frame, pairs, extra, self._read)
        return building.mapping_of(frame, pairs, self._read)

    def _taken_apart(self, three: Three, unsure: UnsureBase) -> _Place | None:
        """The place in all its states; None where it can only be decided on as a whole."""
        if three.ours is None or three.theirs is None:
            return None
        present = [each for each in unsure.bases if each is not None]
        *found, ours, theirs = self._opening.open([*present, three.ours, three.theirs])
        if ours is None or theirs is None or ours.frame != theirs.frame:
            return None
        if ours.shape not in (LIST, DICT, PAIRS, RECORD):
            return None
        fits = all(each is not None and each.frame == ours.frame for each in found)
        if unsure.exact and not fits:
            return None
        nothing = Opened(ours.shape, ours.frame, [])
        opened = iter(found)
        bases = [(next(opened) if each is not None and fits else None) or nothing for each in unsure.bases]
        place = _Place(three.spot, unsure.exact, bases, ours, theirs)
        if ours.shape == PAIRS and not _are_distinct({key for each in place.sides for key in each.keys}):
            # 1 and True are not the same, but a dict can have only one of them.
            return None
        return place

    def _pairs(self, place: _Place) -> Generator[Three, _Maybe, dict[Any, Value]]:
        *bases, ours, theirs = (dict(zip(each.keys, each.values, strict=True)) for each in place.sides)
        found: dict[Any, Value] = {}
        for key in order_keys(list(bases[0]), list(ours), list(theirs)):
            step = self._step(place, key)
            value = yield place.part(step, [each.get(key) for each in bases], ours.get(key), theirs.get(key))
            if value is not None:
                found[key] = value
        return found

    def _step(self, place: _Place, key: Any) -> PathStep:
        if place.ours.shape == PAIRS:
            return self._pair_step(key)
        return PathStep("field" if place.ours.shape == RECORD else "key", key)

    def _extra(self, place: _Place, merged: list[str]) -> Generator[Three, _Maybe, Value]:
        *bases, ours, theirs = (each.extra or Encoded(_NIL) for each in place.sides)
        *names, mine, other = (each.keys for each in place.sides)
        found = [
            merge_set_names((base, ours, theirs), (known, mine, other), merged)
            for base, known in zip(bases, names, strict=True)
        ]
        first = found[0]
        # Which fields were set is no value of anybody's: an ancestor that is not the last one will do.
        if first is not None and (not place.exact or all(_equal(first, each) for each in found)):
            return first
        value = yield place.part(PathStep("extra", None), bases, ours, theirs)
        assert value is not None
        return value

    def _list_items(self, place: _Place) -> Generator[Three, _Maybe, list[Value] | None]:
        """The items of a tuple, or of a list whose items say who they are; None where it is neither."""
        rows = [each.values for each in place.sides]
        if place.ours.frame[0] == msgpack.TUPLE:
            if len({len(row) for row in rows}) > 1:
                return None
            names: list[list[Hashable]] = [[*range(len(row))] for row in rows]
        elif place.ours.frame == (LIST,):
            names = [[self._opening.identity(value) for value in row] for row in rows]
            if any(None in row or len(set(row)) < len(row) for row in names):
                return None
        else:
            return None
        order = _order(names, exact=place.exact)
        if order is None:
            return None
        *bases, ours, theirs = (
            dict(zip(ids, row, strict=True)) for ids, row in zip(names, rows, strict=True)
        )
        at = [{name: number for number, name in enumerate(row)} for row in names[-2:]]
        found: list[Value] = []
        for name in order:
            number = at[0].get(name, at[1].get(name))
            if number is not None:
                was, *both = [each.get(name) for each in bases], ours.get(name), theirs.get(name)
                step = PathStep("index", number)
                if None not in both and (None in was if place.exact else not any(was)):
                    # To one ancestor at least, it is a new item on both sides.
                    value = self._both_added(Three(Spot(place.spot, step), None, *both))
                else:
                    value = yield place.part(step, was, *both)
                found += [] if value is None else [value]
        return found

    def _as_one(self, three: Three, unsure: UnsureBase) -> _Maybe:
        """What has no parts, or cannot be told apart: the same with each ancestor, or a conflict."""
        ours, theirs = self._bytes(three.ours), self._bytes(three.theirs)
        if ours == theirs:
            return three.ours
        if unsure.exact:
            found = [self._alone(base, three) for base in unsure.bases]
            if found[0] is not None and all(each == found[0] for each in found):
                return None if found[0] == () else Encoded(found[0][0])
        conflict = MergeConflict(
            self._kind(three, unsure),
            three.spot.steps(),
            (self._bytes(unsure.bases[0]), ours, theirs),
            self._types,
        )
        return self._ask(conflict, three.ours)

    def _alone(self, base: _Maybe, three: Three) -> tuple[bytes, ...] | None:
        """What becomes of a place with one of the ancestors; empty where nothing is left, None for a conflict."""
        was, ours, theirs = (self._bytes(each) for each in (base, three.ours, three.theirs))
        if was in (ours, theirs):
            kept = theirs if ours == was else ours
            return () if kept is None else (kept,)
        if three.ours is None or three.theirs is None:
            return None
        alone = Merge(self._read, self._types, Resolver(None, self._types))
        merged = alone.run(base, three.ours, three.theirs)
        return None if alone.conflicts else (building.whole(merged, self._read),)

    def _kind(self, three: Three, unsure: UnsureBase) -> ConflictKind:
        if three.ours is None or three.theirs is None:
            return "remove/edit" if three.ours is None else "edit/remove"
        if all(each is None for each in unsure.bases):
            return "add/add"
        return "edit/edit" if self._opening.sort(three.ours) == self._opening.sort(three.theirs) else "type"

    def _bytes(self, value: _Maybe) -> bytes | None:
        return None if value is None else building.whole(value, self._read)


def _order(names: list[list[Hashable]], *, exact: bool) -> list[Hashable] | None:
    """In which order named items stand; None where that does not follow."""
    *bases, ours, theirs = names
    if not exact:
        mine, other = set(ours), set(theirs)
        both = [name for name in ours if name in other]
        if both != [name for name in theirs if name in mine]:
            return None
        # As if both had begun with what both have.
        bases = [both]
    orders = [order_named(base, ours, theirs) for base in bases]
    there = {*ours, *theirs}
    found = [None if each is None else [name for name in each if name in there] for each in orders]
    return found[0] if all(each == found[0] for each in found) else None


def _equal(one: _Maybe, other: _Maybe) -> bool:
    if one is None or other is None:
        return one is other
    return one.token == other.token


def _are_distinct(keys: Iterable[bytes]) -> bool:
    """Whether keys are still different from each other once they are decoded."""
    decoded = [decode_value(each, _NO_TYPES) for each in keys]
    return len(set(decoded)) == len(decoded)
