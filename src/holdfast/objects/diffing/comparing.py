"""Two states side by side: what differs, part by part, in the order in which a reader meets it.

Both sides are opened together, as deep as they are the same kind of container, with a stack of our own: states may lie
thousands of levels deep. What is a container on one side only, or has another type, is replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.diffing.aligning import Pair, rising
from holdfast.objects.diffing.change import Change, PathStep, Place, Whole
from holdfast.objects.diffing.encoded import (
    LIST,
    PAIRS,
    RECORD,
    SET,
    Encoded,
    Large,
    Opened,
    Value,
    open_alike,
)
from holdfast.objects.diffing.excerpts import excerpts
from holdfast.objects.diffing.pairing import Paired, pair_items
from holdfast.objects.diffing.scanning import ARRAY, MAP
from holdfast.objects.diffing.stretches import Item, Stretch, all_items, differing, items_at_hand, unequal
from holdfast.objects.tagged import TYPE, VALUE
from holdfast.objects.tree import nodes
from holdfast.objects.tree.read import Read, join_node
from holdfast.record import Record

_KINDS: Final = {ARRAY: nodes.LIST, MAP: nodes.DICT}
_NOTHING: Final = b"\xc0"
_TYPE_KEY: Final = bytes((0xA0 | len(TYPE),)) + TYPE.encode()
_INSIDE: Final = (VALUE,)
"""Where the parts of a value lie in its tagged JSON, if it is no plain list or dict."""


class _Pair(Record):
    """A place that both sides have, to be looked into."""

    place: Place
    old: Value
    new: Value


class _Way(Record):
    """How a container is gone into: what its steps are, where its parts are in JSON, and whether they are there."""

    step: Callable[[Item], PathStep]
    prefix: tuple[str, ...] = ()
    whole: Whole | None = None


_Found = Iterator[Change | _Pair]


class Comparison:
    """One walk through two states.

    Args:
        read: How chunks are fetched.
        types: The classes that values may hold.
        whole: Read long texts whole, and find out everything that a JSON patch needs.
    """

    def __init__(self, read: Read, types: TypeRegistry, *, whole: bool = False) -> None:
        self._read = read
        self._types = types
        self._whole = whole

    def changes(self, old: Value | None, new: Value | None, place: Place | None = None) -> list[Change]:
        """What differs; one that is None is not there at all."""
        place = place or Place()
        if old is None or new is None:
            return [] if old is new else [self._only(place, old, new)]
        found: list[Change] = []
        stack: list[_Found] = [iter([_Pair(place, old, new)])]
        while stack:
            each = next(stack[-1], None)
            if each is None:
                stack.pop()
            elif isinstance(each, Change):
                found.append(each)
            elif each.old.token != each.new.token:
                stack.append(self._inside(*each))
        return found

    def _inside(self, place: Place, old: Value, new: Value) -> _Found:
        kind = _kind(old)
        if kind is not None and kind == _kind(new):
            stretches = differing(old, new, kind, self._read)
            if kind == nodes.LIST:
                return self._row(place, stretches, _Way(_index))
            return self._mapping(place, stretches, _Way(_key, whole=self._unlike_json(place, old, new)))
        if isinstance(old, Large) and isinstance(new, Large) and not self._whole:
            parts = excerpts(old, new, self._read)
            if parts is not None:
                return iter([Change("replace", place, *parts, self._types)])
        before, after = self._encoded(old), self._encoded(new)
        if _kind(before) is not None and _kind(before) == _kind(after):
            # What lies very deep is stored as bytes: only these say that it is a list or a dict.
            return self._inside(place, before, after)
        return self._opened(place, before, after)

    def _opened(self, place: Place, old: Encoded, new: Encoded) -> _Found:
        """Two values of which at least one is neither a list nor a dict."""
        before, after = open_alike(old, new)
        if before is None or after is None or before.frame != after.frame:
            return iter([Change("replace", place, old.data, new.data, self._types)])
        if before.shape == LIST:
            return self._row(place, _unequal(before, after), _Way(_index, _INSIDE))
        if before.shape == SET:
            way = _Way(self._member, whole=Whole(place, new, certain=True))
            return self._members(place, before, after, way)
        if before.shape == PAIRS:
            way = _Way(self._decoded_key, whole=Whole(place, new, certain=True))
            return self._mapping(place, _unequal(before, after), way)
        assert before.shape == RECORD
        return self._record(place, before, after, new)

    def _record(self, place: Place, before: Opened, after: Opened, new: Encoded) -> _Found:
        # Fields of the name $type make their own dict unlike an object of JSON.
        odd = TYPE in before.keys or TYPE in after.keys
        whole = Whole(place, new, certain=True) if odd else None
        way = _Way(lambda item: PathStep("field", item.key), _INSIDE, whole)
        yield from self._mapping(place, _unequal(before, after), way)
        assert before.extra is not None
        assert after.extra is not None
        if before.extra.data != after.extra.data:
            step = PathStep("extra", None)
            spot = Place(place, step, step, whole=whole)
            old_extra, new_extra = (
                None if each.data == _NOTHING else each.data for each in (before.extra, after.extra)
            )
            op = "add" if old_extra is None else "remove" if new_extra is None else "replace"
            yield Change(op, spot, old_extra, new_extra, self._types)  # type: ignore[arg-type]

    def _members(self, place: Place, before: Opened, after: Opened, way: _Way) -> _Found:
        old, new = ({value.data for value in opened.values} for opened in (before, after))
        for value in before.values:
            if value.data not in new:
                yield self._only(_below(place, way, Item(0, value), None), value, None)
        for value in after.values:
            if value.data not in old:
                yield self._only(_below(place, way, None, Item(0, value)), None, value)

    def _mapping(self, place: Place, stretches: list[Stretch], way: _Way) -> _Found:
        before = {
            item.key: (number, at)
            for number, each in enumerate(stretches)
            for at, item in enumerate(each.old)
        }
        kept: list[list[Pair]] = []
        moved = {}
        for number, stretch in enumerate(stretches):
            common = [(before[item.key], at) for at, item in enumerate(stretch.new) if item.key in before]
            here = [(at, new_at) for (home, at), new_at in common if home == number]
            stayed = [here[position] for position in rising([at for at, _ in here])]
            kept.append(stayed)
            in_place = {new_at for _, new_at in stayed}
            moved.update({(number, at): home for home, at in common if at not in in_place})
        return self._told(place, stretches, Paired(kept, moved), way)

    def _row(self, place: Place, stretches: list[Stretch], way: _Way) -> _Found:
        return self._told(place, stretches, pair_items(stretches), way)

    def _told(self, place: Place, stretches: list[Stretch], paired: Paired, way: _Way) -> _Found:
        """What became of the items of a container, in the order of the new one."""
        gone = set(paired.moved.values())
        for number, stretch in enumerate(stretches):
            old_at = new_at = 0
            for old_stop, new_stop in [*paired.kept[number], (len(stretch.old), len(stretch.new))]:
                for at in range(old_at, old_stop):
                    if (number, at) not in gone:
                        item = stretch.old[at]
                        yield self._only(_below(place, way, item, None), item.value, None)
                for at in range(new_at, new_stop):
                    item = stretch.new[at]
                    source = paired.moved.get((number, at))
                    if source is None:
                        yield self._only(_below(place, way, None, item), None, item.value)
                    else:
                        yield from self._moved(place, way, stretches[source[0]].old[source[1]], item)
                if old_stop < len(stretch.old) and new_stop < len(stretch.new):
                    left, right = stretch.old[old_stop], stretch.new[new_stop]
                    if left.value.token != right.value.token:
                        yield _Pair(_below(place, way, left, right), left.value, right.value)
                old_at, new_at = old_stop + 1, new_stop + 1

    def _moved(self, place: Place, way: _Way, old: Item, new: Item) -> _Found:
        spot = _below(place, way, old, new)
        yield Change("move", spot, old.at, new.at, self._types)
        yield _Pair(spot, old.value, new.value)

    def _only(self, place: Place, old: Value | None, new: Value | None) -> Change:
        if new is None:
            return Change("remove", place, self._bytes(old), None, self._types)
        return Change("add", place, None, self._bytes(new), self._types)

    def _bytes(self, value: Value | None) -> bytes:
        assert value is not None
        return self._encoded(value).data

    def _encoded(self, value: Value) -> Encoded:
        return value if isinstance(value, Encoded) else Encoded(join_node(value.node, self._read))

    def _decoded_key(self, item: Item) -> PathStep:
        return PathStep("key", decode_value(item.key, self._types))

    def _member(self, item: Item) -> PathStep:
        return PathStep("member", decode_value(item.value.data, self._types))

    def _unlike_json(self, place: Place, old: Value, new: Value) -> Whole | None:
        """Whether a dict is no object in tagged JSON: one with a key `$type` is written as pairs."""
        if any(self._has_type(side) for side in (old, new)):
            return Whole(place, self._encoded(new), certain=True)
        unread = any(isinstance(side, Large) and side.node.levels for side in (old, new))
        return Whole(place, None, certain=False) if unread and not self._whole else None

    def _has_type(self, value: Value) -> bool:
        """Whether a dict has a key `$type`, as far as it can be seen; nothing is read unless all is to be."""
        if isinstance(value, Large) and value.node.levels:
            items = all_items(value, nodes.DICT, self._read) if self._whole else items_at_hand(value)
            return any(item.key == TYPE for item in items)
        if isinstance(value, Encoded):
            return TYPE in value.inside().keys
        # Nearly always the word is nowhere in it.
        if not any(_TYPE_KEY in part for part in value.node.tail):
            return False
        return any(item.key == TYPE for item in all_items(value, nodes.DICT, self._read))


def _kind(value: Value) -> int | None:
    """Whether it is a list or a dict that is compared run by run."""
    if isinstance(value, Large):
        return value.node.kind if value.node.kind != nodes.RAW else None
    return _KINDS.get(value.head()[0])


def _index(item: Item) -> PathStep:
    return PathStep("index", item.at)


def _key(item: Item) -> PathStep:
    return PathStep("key", item.key)


def _unequal(old: Opened, new: Opened) -> list[Stretch]:
    return unequal(old.values, new.values, old.keys, new.keys)


def _below(place: Place, way: _Way, old: Item | None, new: Item | None) -> Place:
    before = None if old is None else way.step(old)
    after = None if new is None else way.step(new)
    return Place(place, before, after, prefix=way.prefix, whole=way.whole)
