"""Two states side by side: what differs, part by part, in the order in which a reader meets it.

Both sides are opened together, as deep as they are the same kind of container. What is a container on one side only,
or has another type, is replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.codec.state_path import EXTRA, PathStep
from holdfast.objects.codec.tagged_json import VALUE, looks_like_tag
from holdfast.objects.diff.alignment import Pair, rising
from holdfast.objects.diff.change import Change, Place
from holdfast.objects.diff.encoded_value import (
    ARRAY,
    LIST,
    MAP,
    NIL,
    PAIRS,
    RECORD,
    SET,
    Encoded,
    Large,
    Opened,
    Value,
    open_value,
)
from holdfast.objects.diff.pairs import Paired, pair_items
from holdfast.objects.diff.sequences import Item, Stretch, all_items, differing, unequal
from holdfast.objects.tree import nodes
from holdfast.objects.tree.read import Read, join_node
from holdfast.record import Record

_KINDS: Final = {ARRAY: nodes.LIST, MAP: nodes.DICT}
_INSIDE: Final = (VALUE,)
"""Where the parts of a value lie in its tagged JSON, if it is no plain list or dict."""
_TAG_SIZE: Final = 12
"""No tag has more keys."""
_NO_TYPES: Final = TypeRegistry()


class _Pair(Record):
    """A place that both sides have, to be looked into."""

    place: Place
    old: Value
    new: Value


class _Way(Record):
    """How a container is gone into: what its steps are, and where its parts are in JSON."""

    step: Callable[[Item], PathStep]
    prefix: tuple[str, ...] = ()


_Found = Iterator[Change | _Pair]


class Comparison:
    """One walk through two states.

    Args:
        read: How chunks are fetched.
        types: The classes that values may hold.
    """

    def __init__(self, read: Read, types: TypeRegistry) -> None:
        self._read = read
        self._types = types

    def changes(self, old: Value | None, new: Value | None, place: Place | None = None) -> list[Change]:
        """What differs; one that is None is not there at all."""
        place = place or Place()
        if old is None or new is None:
            return [] if old is new else [self._only(place, old, new)]
        found: list[Change] = []
        # A stack: a level of recursion would take several frames.
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
                return self._told(place, stretches, pair_items(stretches), _Way(_index))
            if self._looks_like_tag(old) or self._looks_like_tag(new):
                place.whole = self._bytes(new)
            return self._mapping(place, stretches, _Way(_key))
        before, after = Encoded(self._bytes(old)), Encoded(self._bytes(new))
        if _kind(before) is not None and _kind(before) == _kind(after):
            # What lies very deep is stored as bytes: only these say that it is a list or a dict.
            return self._inside(place, before, after)
        return self._opened(place, before, after)

    def _opened(self, place: Place, old: Encoded, new: Encoded) -> _Found:
        """Two values of which at least one is neither a list nor a dict."""
        before, after = open_value(old), open_value(new)
        if before is None or after is None or before.frame != after.frame:
            return iter([Change("replace", place, old.data, new.data, self._types)])
        if before.shape == LIST:
            stretches = _unequal(before, after)
            return self._told(place, stretches, pair_items(stretches), _Way(_index, _INSIDE))
        if before.shape == RECORD:
            if looks_like_tag(before.keys) or looks_like_tag(after.keys):
                place.whole = new.data
            return self._record(place, before, after)
        place.whole = new.data
        if before.shape == SET:
            return self._members(place, before, after)
        assert before.shape == PAIRS
        return self._mapping(place, _unequal(before, after), _Way(_decoded_key))

    def _record(self, place: Place, before: Opened, after: Opened) -> _Found:
        way = _Way(lambda item: PathStep("field", item.key), _INSIDE)
        yield from self._mapping(place, _unequal(before, after), way)
        assert before.extra is not None
        assert after.extra is not None
        old, new = (None if each.data == NIL else each.data for each in (before.extra, after.extra))
        if old != new:
            op = "add" if old is None else "remove" if new is None else "replace"
            yield Change(op, Place(place, EXTRA, EXTRA), old, new, self._types)  # type: ignore[arg-type]

    def _members(self, place: Place, before: Opened, after: Opened) -> _Found:
        old, new = ({value.data for value in opened.values} for opened in (before, after))
        way = _Way(_member)
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
        yield Change("move", spot, old.at, new.at, self._types, self._bytes(new.value))
        yield _Pair(spot, old.value, new.value)

    def _only(self, place: Place, old: Value | None, new: Value | None) -> Change:
        if new is None:
            return Change("remove", place, self._bytes(old), None, self._types)
        return Change("add", place, None, self._bytes(new), self._types)

    def _bytes(self, value: Value | None) -> bytes:
        assert value is not None
        return value.data if isinstance(value, Encoded) else join_node(value.node, self._read)

    def _looks_like_tag(self, value: Value) -> bool:
        """Whether a dict is written as pairs in tagged JSON, because it would be read as a tag."""
        if isinstance(value, Encoded):
            return looks_like_tag(value.inside().keys)
        if value.node.count > _TAG_SIZE:
            return False
        return looks_like_tag({item.key for item in all_items(value, nodes.DICT, self._read)})


def _kind(value: Value) -> int | None:
    """Whether it is a list or a dict that is compared run by run."""
    if isinstance(value, Large):
        return value.node.kind if value.node.kind != nodes.RAW else None
    return _KINDS.get(value.head()[0])


def _index(item: Item) -> PathStep:
    return PathStep("index", item.at)


def _key(item: Item) -> PathStep:
    return PathStep("key", item.key)


def _decoded_key(item: Item) -> PathStep:
    return PathStep("key", decode_value(item.key, _NO_TYPES))


def _member(item: Item) -> PathStep:
    assert isinstance(item.value, Encoded)
    return PathStep("member", decode_value(item.value.data, _NO_TYPES))


def _unequal(old: Opened, new: Opened) -> list[Stretch]:
    return unequal(old.values, new.values, old.keys, new.keys)


def _below(place: Place, way: _Way, old: Item | None, new: Item | None) -> Place:
    before = None if old is None else way.step(old)
    after = None if new is None else way.step(new)
    return Place(place, before, after, prefix=way.prefix)
