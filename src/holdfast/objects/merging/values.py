"""The three-way merge of values: the common ancestor and both sides, taken apart together.

What one side left as it was becomes what the other made of it; what both made the same is that. Where both changed
something, containers of the same kind are merged part by part, texts of several lines line by line, and anything else
is a conflict. Every step waits on a stack of our own, as a generator: states may lie thousands of levels deep.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Final

from holdfast.objects.codec import msgpack
from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.diffing.change import PathStep
from holdfast.objects.diffing.encoded import (
    DICT,
    LIST,
    PAIRS,
    RECORD,
    SET,
    Encoded,
    Value,
    is_text,
    text_of,
)
from holdfast.objects.diffing.stretches import Item
from holdfast.objects.merging import building
from holdfast.objects.merging.conflict import ConflictKind, MergeConflict, MergeResolution
from holdfast.objects.merging.extras import merge_set_names
from holdfast.objects.merging.opening import Opening, Parts
from holdfast.objects.merging.ordering import order_keys, order_named
from holdfast.objects.merging.outcomes import Appended, Contact, Entry, Stretch
from holdfast.objects.merging.resolving import Resolver, answered
from holdfast.objects.merging.rows import join_appended, merge_rows
from holdfast.objects.merging.texts import merge_lines
from holdfast.objects.tree.read import Read
from holdfast.record import Record

_NO_TYPES: Final = TypeRegistry()
_NIL: Final = b"\xc0"
_DICTS: Final = ((DICT,), (msgpack.PAIRS,))


class Spot:
    """Where something is, as a chain up to the whole state."""

    __slots__ = ("parent", "step")

    def __init__(self, parent: Spot | None = None, step: PathStep | None = None) -> None:
        self.parent = parent
        self.step = step

    def steps(self) -> tuple[PathStep, ...]:
        """The way from the whole state to here."""
        found = []
        spot: Spot | None = self
        while spot is not None and spot.step is not None:
            found.append(spot.step)
            spot = spot.parent
        return tuple(found[::-1])


class Three(Record):
    """A place in the three states, and what is there; None where nothing is."""

    spot: Spot
    base: Value | None
    ours: Value | None
    theirs: Value | None


_Work = Generator[Three, Value | None, Value | None]
_Items = list[Value]
_Rows = tuple[_Items, _Items, _Items]


class Merge:
    """One merge of three states.

    Args:
        read: How chunks are fetched.
        types: The classes that the values of conflicts may hold.
        resolver: Who decides on conflicts.
    """

    def __init__(self, read: Read, types: TypeRegistry, resolver: Resolver) -> None:
        self._read = read
        self._opening = Opening(read)
        self._types = types
        self._resolver = resolver
        self.conflicts: list[MergeConflict] = []
        """Those that nobody decided on; our side stands in the result."""
        self.resolved: list[MergeResolution] = []

    def run(self, base: Value | None, ours: Value, theirs: Value) -> Value:
        """The merged value."""
        stack = [self._merged(Three(Spot(), base, ours, theirs))]
        result: Value | None = None
        while stack:
            try:
                inner = stack[-1].send(result)
            except StopIteration as end:
                stack.pop()
                result = end.value
            else:
                stack.append(self._merged(inner))
                result = None
        assert result is not None
        return result

    def _merged(self, three: Three) -> _Work:
        base, ours, theirs = three.base, three.ours, three.theirs
        if _same(ours, theirs) or _same(base, theirs):
            return ours
        if _same(base, ours):
            return theirs
        if ours is None or theirs is None:
            return self._conflict(three, "remove/edit" if ours is None else "edit/remove")
        parts = self._opening.three(base, ours, theirs)
        if parts is not None:
            return (yield from self._by_parts(three, parts))
        return self._as_wholes(three, base, ours, theirs)

    def _as_wholes(self, three: Three, base: Value | None, ours: Value, theirs: Value) -> Value | None:
        """What has no parts of its own, or not the same kind of parts."""
        merged = self._text(base, ours, theirs)
        if merged is not None:
            return merged
        if base is None:
            return self._conflict(three, "add/add")
        return self._conflict(
            three, "edit/edit" if self._opening.sort(ours) == self._opening.sort(theirs) else "type"
        )

    def _by_parts(self, three: Three, parts: Parts) -> _Work:
        shape = parts.ours.shape
        if shape == LIST:
            return (yield from self._row(three, parts))
        if shape == SET:
            return self._set(three, parts)
        if shape == RECORD:
            return (yield from self._record(three, parts))
        if shape == PAIRS and not _distinct({key for each in parts for key in each.keys}):
            # 1 and True are not the same, but a dict can have only one of them.
            return self._conflict(three, _changed(three))
        found = yield from self._mapping(three.spot, _key_step if shape == DICT else self._pair_step, parts)
        return building.mapping_of(parts.ours.frame, found, self._read)

    def _mapping(
        self, spot: Spot, step: Callable[[Any], PathStep], parts: Parts
    ) -> Generator[Three, Value | None, dict[Any, Value]]:
        base, ours, theirs = (dict(zip(each.keys, each.values, strict=True)) for each in parts)
        found: dict[Any, Value] = {}
        for key in order_keys(list(base), list(ours), list(theirs)):
            inner = Three(Spot(spot, step(key)), base.get(key), ours.get(key), theirs.get(key))
            value = yield inner
            if value is not None:
                found[key] = value
        return found

    def _record(self, three: Three, parts: Parts) -> _Work:
        fields = yield from self._mapping(three.spot, _field_step, parts)
        base, ours, theirs = (each.extra or Encoded(_NIL) for each in parts)
        extra: Value | None = merge_set_names(
            (base, ours, theirs), [each.keys for each in parts], list(fields)
        )
        if extra is None:
            extra = yield Three(Spot(three.spot, PathStep("extra", None)), base, ours, theirs)
        assert extra is not None
        return building.record_of(parts.ours.frame, fields, extra, self._read)

    def _set(self, three: Three, parts: Parts) -> Value | None:
        base, ours, theirs = ({building.whole(each, self._read) for each in side.values} for side in parts)
        members = (ours | (theirs - base)) - (base - theirs)
        if not _distinct(members):
            return self._conflict(three, _changed(three))
        return building.set_of(parts.ours.frame, members, self._read)

    def _row(self, three: Three, parts: Parts) -> _Work:
        frame = parts.ours.frame
        lengths = {len(each.values) for each in parts}
        if frame[0] == msgpack.TUPLE:
            # A tuple is a record without names, rather than a row that grows.
            if len(lengths) > 1:
                return self._conflict(three, _changed(three))
            values = yield from self._positions(three.spot, parts)
        elif three.base is None or (frame[0] == msgpack.DEQUE and frame[1] != _NIL):
            # Two lists that were made apart are not one; a deque that is full would drop what it has no room for.
            return self._conflict(three, _changed(three))
        else:
            found = yield from self._items(three.spot, parts)
            if found is None:
                return self._conflict(three, "order")
            values = found
        return building.row_of(frame, values, self._read)

    def _positions(self, spot: Spot, parts: Parts) -> Generator[Three, Value | None, _Items]:
        values: _Items = []
        for at, three in enumerate(zip(*(each.values for each in parts), strict=True)):
            value = yield Three(Spot(spot, PathStep("index", at)), *three)
            assert value is not None
            values.append(value)
        return values

    def _items(self, spot: Spot, parts: Parts) -> Generator[Three, Value | None, _Items | None]:
        rows = [[Item(at, value) for at, value in enumerate(each.values)] for each in parts]
        names = [[self._opening.identity(item.value) for item in row] for row in rows]
        if all(None not in row and len(set(row)) == len(row) for row in names):
            return (yield from self._named(spot, rows, names))
        outcomes = merge_rows((rows[0], rows[1], rows[2]), (names[0], names[1], names[2]))
        if outcomes is None:
            return None
        base, ours, theirs = ([item.value for item in row] for row in rows)
        found: _Items = []
        for each in outcomes:
            if isinstance(each, Contact):
                found += yield from self._contact(spot, each, (base, ours, theirs))
            else:
                found += yield from self._outcome(spot, each, (base, ours, theirs))
        return found

    def _outcome(
        self, spot: Spot, each: Entry | Stretch | Appended, rows: _Rows
    ) -> Generator[Three, Value | None, _Items]:
        if isinstance(each, Stretch):
            return self._stretch(spot, each, rows)
        if isinstance(each, Appended):
            return (yield from self._appended(spot, each, rows[1], rows[2]))
        at = each.ours if each.ours is not None else each.theirs
        value = yield Three(Spot(spot, PathStep("index", at)), *map(_at, rows, each))
        return [] if value is None else [value]

    def _contact(self, spot: Spot, contact: Contact, rows: _Rows) -> Generator[Three, Value | None, _Items]:
        """Items that both changed, with what stands beside them: one conflict where an item cannot be merged."""
        lists: tuple[list[Any], ...] = (self.conflicts, self.resolved, self._resolver.open)
        before = [len(each) for each in lists]
        depth = len(spot.steps()) + 1
        found: _Items = []
        for each in contact.outcomes:
            told = len(self.conflicts), len(self.resolved)
            found += yield from self._outcome(spot, each, rows)
            new = [*self.conflicts[told[0] :], *(each.conflict for each in self.resolved[told[1] :])]
            if isinstance(each, Entry) and each.base is not None and any(len(c.steps) == depth for c in new):
                # A dict or an object is an item of its own, which its place and its likeness tell.
                if None in each and self._opening.open([rows[0][each.base]]) != [None]:
                    continue
                for told_of, number in zip(lists, before, strict=True):
                    del told_of[number:]
                return self._stretch(spot, contact.stretch, rows)
        return found

    def _named(
        self, spot: Spot, rows: list[list[Item]], names: list[list[Any]]
    ) -> Generator[Three, Value | None, _Items | None]:
        """A list whose items all say who they are: each is merged with itself, wherever it stands."""
        order = order_named(*names)
        if order is None:
            return None
        base, ours, theirs = (dict(zip(ids, row, strict=True)) for ids, row in zip(names, rows, strict=True))
        found: _Items = []
        for name in order:
            sides = [
                None if (item := side.get(name)) is None else item.value for side in (base, ours, theirs)
            ]
            place = ours.get(name) or theirs.get(name)
            if place is not None:
                three = Three(Spot(spot, PathStep("index", place.at)), *sides)
                value = self._both_added(three) if _is_added(three) else (yield three)
                found += [] if value is None else [value]
        return found

    def _appended(
        self, spot: Spot, each: Appended, ours: _Items, theirs: _Items
    ) -> Generator[Three, Value | None, _Items]:
        mine, other = ours[each.ours :], theirs[each.theirs :]
        names = [[self._opening.identity(value) or value.token for value in row] for row in (mine, other)]
        found: _Items = []
        for left, right in join_appended(*names):
            at = each.ours + left if left is not None else each.theirs + (right or 0)
            three = Three(Spot(spot, PathStep("index", at)), None, _at(mine, left), _at(other, right))
            value = self._both_added(three) if _is_added(three) else (yield three)
            found += [] if value is None else [value]
        return found

    def _both_added(self, three: Three) -> Value | None:
        """Two new items with one `id`: ids are often counted, so that it says nothing of their being one."""
        return self._conflict(three, "add/add")

    def _stretch(self, spot: Spot, stretch: Stretch, rows: _Rows) -> _Items:
        parts = [row[slice(*ends)] for row, ends in zip(rows, stretch, strict=True)]
        start, stop = stretch.ours
        place = Spot(spot, PathStep("index", f"{start}:{stop}"))
        lists = (building.list_of(part, self._read) for part in parts)
        decided = self._conflict(Three(place, *lists), _kind_of(*map(bool, parts)))
        assert isinstance(decided, Encoded)
        return [*decided.inside().values]

    def _text(self, base: Value | None, ours: Value, theirs: Value) -> Value | None:
        """Texts of several lines, where both sides changed others; None where it is anything else."""
        if base is None:
            return None
        three = [self._opening.whole(each) for each in (base, ours, theirs)]
        if not all(map(is_text, three)):
            return None
        texts = [text_of(each) for each in three]
        merged = merge_lines(*texts) if "\n" in texts[0] else None
        return None if merged is None else building.text_of(merged)

    def _pair_step(self, key: bytes) -> PathStep:
        return PathStep("key", decode_value(key, self._types))

    def _conflict(self, three: Three, kind: ConflictKind) -> Value | None:
        """What is decided on a conflict; our side where nothing is."""
        sides = (three.base, three.ours, three.theirs)
        base, ours, theirs = (None if each is None else building.whole(each, self._read) for each in sides)
        # The same value may stand as a tree on one side and whole on the other.
        if theirs in (ours, base):
            return three.ours
        if ours == base:
            return three.theirs
        return self._ask(
            MergeConflict(kind, three.spot.steps(), (base, ours, theirs), self._types), three.ours
        )

    def _ask(self, conflict: MergeConflict, ours: Value | None) -> Value | None:
        answer = self._resolver.decide(conflict)
        if answer is None:
            self.conflicts.append(conflict)
            return ours
        self.resolved.append(MergeResolution(conflict, answer.how))
        return answered(answer)


def _same(one: Value | None, other: Value | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.token == other.token


def _is_added(three: Three) -> bool:
    return three.base is None and three.ours is not None and three.theirs is not None


def _changed(three: Three) -> ConflictKind:
    return "add/add" if three.base is None else "edit/edit"


def _kind_of(base: bool, ours: bool, theirs: bool) -> ConflictKind:  # noqa: FBT001 - what there is of a stretch
    if not base:
        return "add/add"
    if ours and theirs:
        return "edit/edit"
    return "edit/remove" if ours else "remove/edit"


def _at(row: _Items, at: int | None) -> Value | None:
    return None if at is None else row[at]


def _distinct(encoded: Iterable[bytes]) -> bool:
    """Whether members or keys are still different from each other once they are decoded."""
    decoded = [decode_value(each, _NO_TYPES) for each in encoded]
    return len(set(decoded)) == len(decoded)


def _key_step(key: Any) -> PathStep:
    return PathStep("key", key)


def _field_step(name: Any) -> PathStep:
    return PathStep("field", name)
