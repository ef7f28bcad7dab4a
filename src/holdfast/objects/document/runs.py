"""The runs of one container of a document: which items are encoded again, and where they are cut.

Items that stand in a run with something that changed are encoded from the values as they are now: those before it in
one go, those behind it some at once where they are small, to see where the run ends. Those of the run at the end are
remembered one by one, so that adding to a list, or changing a value of a small dict, encodes nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, Protocol

from holdfast.objects.document.containers import Tracked
from holdfast.objects.document.dirty import EXACT, PLAIN, VOLATILE, Edit, marks_of
from holdfast.objects.document.item_packing import ItemPacker
from holdfast.objects.document.kept import Group, Item, KeptNode, LargeValue, RunNote
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.tree import nodes
from holdfast.objects.tree.boundaries import Cuts, literals, token, worth_at_once
from holdfast.objects.tree.nodes import Entry, Parts

_TEXT_MARKS: Final = frozenset((*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB))

_NOTHING: Final = Edit(0, 0, 0, 0)


class OddKeyError(Exception):
    """A dict has a key that is no text, half a surrogate pair, or too large: it is cut another way."""


class Encoder(Protocol):
    """What the runs of a container need from whoever encodes the whole tree."""

    cuts: Cuts
    packer: ItemPacker

    def container(self, container: Tracked, depth: int) -> bytes | KeptNode:
        """A container literally, or its node."""
        ...

    def pieces(self, data: bytes) -> KeptNode:
        """The node of any other large value."""
        ...


class RunCutter:
    """Cuts the items of one container; see `recutting.Cutter`."""

    _pair_at: Callable[[int], tuple[Any, Any]]
    """Gives the key and the value at a position."""

    def __init__(
        self, encoder: Encoder, container: Any, node: KeptNode, edits: list[Edit], depth: int
    ) -> None:
        self._encoder = encoder
        self._cuts = encoder.cuts
        self._container = container
        self._node = node
        self._edits = edits
        self._depth = depth + 1
        self._closed = node.levels[0].covered
        self._total = len(container)
        # The items since the last cut, what they weigh, and how many there are beside those that stand for them.
        self._held: list[Item] = []
        self._weight = self._more = 0
        self._at_once = 1
        self._is_odd = False
        """Whether something was found that is not encoded together with others."""

    def begin(self, group: int, start: int, edit: int) -> Iterator[Item]:
        """See `recutting.Cutter`."""
        before = self._edits[edit - 1] if edit else _NOTHING
        shift = before.new_stop - before.old_stop
        stop = self._edits[edit].new_start
        closed = max(start, min(stop, self._closed + shift))
        self._pair_at = self._pairs(start)
        runs = self._node.levels[0]
        # In full runs without a note, what was not written to stands literally. Who adds to the end need not ask.
        if group < len(runs.widths) and not (
            self._is_odd or self._container._marks & EXACT or any(self._node.notes)
        ):
            self._at_once = worth_at_once(runs.widths[group], runs.entries[group].size)
        self._held = [*self._bulk(group, start, closed, shift), *self._remembered(closed, stop, shift)]
        self._weight = sum([item.weight for item in self._held])
        self._more = sum([item.count - 1 for item in self._held])
        return self._units(edit)

    def _units(self, edit: int) -> Iterator[Item]:
        """The items from an edit on."""
        for number in range(edit, len(self._edits)):
            change = self._edits[number]
            for place in range(change.new_start, change.new_stop):
                yield self._item(*self._pair_at(place), None)
            following = self._edits[number + 1].new_start if number + 1 < len(self._edits) else self._total
            yield from self._unchanged(change.new_stop, following, change.new_stop - change.old_stop)

    def _unchanged(self, start: int, stop: int, shift: int) -> Iterator[Item]:
        """Items that were not written to: `shift` places before them, they stood there before."""
        place, closed = start, min(stop, self._closed + shift)
        while place < closed:
            several = self._several(place, min(place + self._at_once, closed)) if self._at_once > 1 else None
            if several:
                for item in several:
                    yield item
                    place += item.count
            else:
                yield self._item(*self._pair_at(place), place - shift)
                place += 1
        yield from self._remembered(start, stop, shift)

    def _several(self, start: int, stop: int) -> list[Item]:
        """Items of full runs up to one that ends a run, those before it all in one; none where each is looked at."""
        if stop - start == 1:
            return []
        keys, values = zip(*map(self._pair_at, range(start, stop)), strict=True)
        names = self._encoder.packer.pack_each(keys) if self._node.kind == nodes.DICT else []
        encoded = self._encoder.packer.pack_each(values)
        if names is None or encoded is None or len(max(encoded, key=len)) > self._cuts.item_limit:
            # The last where something went behind the back of the document.
            self._is_odd, self._at_once = True, 1
            return []
        parts, numbers = literals(encoded, names)
        end = self._cuts.first_end(numbers, list(map(len, parts)), self._weight)
        before = len(parts) if end is None else end
        ending = [] if end is None else [_alone(parts[end], numbers[end])]
        if before < 2:
            # One that stands for itself alone is asked whether it ends the run.
            return [_alone(*each) for each in zip(parts[:before], numbers[:before], strict=True)] + ending
        return [_together(b"".join(parts[:before]), before), *ending]

    def _remembered(self, start: int, stop: int, shift: int) -> list[Item]:
        """Those of them that stood in the run at the end."""
        first = max(start - self._closed - shift, 0)
        return self._node.tail[first : max(stop - self._closed - shift, first)]

    def _bulk(self, group: int, start: int, stop: int, shift: int) -> Iterable[Item]:
        """The items at the beginning of a full run, which do not end it: all in one, where they can be encoded so."""
        if stop - start > 1 and self._node.notes[group] is None and not self._container._marks & EXACT:
            pairs = map(self._pair_at, range(start, stop))
            several = dict(pairs) if self._node.kind == nodes.DICT else [value for _, value in pairs]
            data = self._encoder.packer.pack_several(several)
            if data is not None:
                return [_together(data, stop - start)]
        return self._unchanged(start, stop, shift)

    def rest(self) -> list[Item]:
        """The items after the last cut, one by one."""
        if self._more:
            place = self._total - self._count()
            held, self._held, self._more = self._held, [], 0
            for item in held:
                places = range(place, place + item.count)
                self._held += (
                    [item] if item.count == 1 else [self._item(*self._pair_at(each), None) for each in places]
                )
                place += item.count
        return self._held

    def _count(self) -> int:
        return len(self._held) + self._more

    def _pairs(self, start: int) -> Callable[[int], tuple[Any, Any]]:
        """What gives the key and the value at a position from `start` on."""
        container = self._container
        if container._plain is list:
            get = container.__getitem__
            return lambda place: (place, get(place))
        count = len(container) - start
        if count < start:
            pairs = list(islice(reversed(container.items()), count))[::-1]
        else:
            pairs = list(islice(container.items(), start, None))
        return lambda place: pairs[place - start]

    def _item(self, key: Any, value: Any, old: int | None) -> Item:
        """Encode an item; `old` is its position before, where nothing was written to it."""
        name = b""
        if self._node.kind == nodes.DICT:
            name = self._name(key)
        if type(value) is dict or type(value) is list:
            # Something put it there behind the back of the document.
            value = self._container._taken_in(value, key)
            self._container._put(key, value)
        if isinstance(value, Tracked):
            made = self._encoder.container(value, self._depth)
            volatile = bool(value._marks & VOLATILE)
            if isinstance(made, bytes):
                return self._literal(name, made, volatile=volatile)
            return self._as_node(name, made, None, volatile=volatile)
        return self._other(name, value, old)

    def _other(self, name: bytes, value: Any, old: int | None) -> Item:
        if old is not None and type(value) in (str, bytes) and len(value) > self._cuts.item_limit:
            known = self._known(value, old)
            if known is not None:
                return self._as_node(name, known.node, known, volatile=False)
        data = self._encoder.packer.pack(value, self._depth)
        volatile = type(value) not in PLAIN and bool(marks_of(value) & VOLATILE)
        if len(data) <= self._cuts.item_limit:
            return self._literal(name, data, volatile=volatile)
        node = self._encoder.pieces(data)
        return self._as_node(name, node, LargeValue(value, node), volatile=volatile)

    def _name(self, key: Any) -> bytes:
        name = self._encoder.packer.pack(key, self._depth) if type(key) is str else b"\0"
        if name[0] not in _TEXT_MARKS or len(name) > self._cuts.item_limit:
            raise OddKeyError
        return name

    def _known(self, value: Any, old: int) -> LargeValue | None:
        """What is remembered of a long text that stood at position `old`."""
        for width, note in zip(self._node.levels[0].widths, self._node.notes, strict=True):
            if old < width:
                large = note.large if note is not None else ()
                return next((each for each in large if each.value is value), None)
            old -= width
        return None

    def _literal(self, name: bytes, data: bytes, *, volatile: bool) -> Item:
        return _alone(name + data if name else data, token(name or data), volatile=volatile)

    def _as_node(self, name: bytes, node: KeptNode, large: LargeValue | None, *, volatile: bool) -> Item:
        weight = len(name) + self._cuts.node_weight
        return Item(name, node.part, len(name) + node.size, weight, token(name or node.part), volatile, large)

    def add(self, unit: Item) -> bool:
        """See `recutting.Cutter`."""
        self._held.append(unit)
        self._weight = total = self._weight + unit.weight
        if unit.count > 1:
            self._more += unit.count - 1
            return False
        return self._cuts.ends_leaf(unit.number, unit.weight, total)

    def close(self) -> Group:
        """See `recutting.Cutter`."""
        held, count = self._held, self._count()
        self._held, self._weight, self._more = [], 0, 0
        chunk = nodes.leaf_chunk(parts_of(held))
        entry = Entry(hash_chunk(chunk), count, sum(item.size for item in held))
        mixed = any(item.part is not None for item in held)
        volatile = any(item.volatile for item in held)
        large = tuple(item.large for item in held if item.large is not None)
        return Group(entry, count, chunk, RunNote(mixed, volatile, large) if mixed or volatile else None)


def _alone(literal: bytes, number: int, *, volatile: bool = False) -> Item:
    """An item that stands literally."""
    return Item(literal, None, len(literal), len(literal), number, volatile, None)


def _together(data: bytes, count: int) -> Item:
    """Several items that stand literally, in one."""
    return Item(data, None, len(data), len(data), 0, volatile=False, large=None, count=count)


def parts_of(items: list[Item]) -> Parts:
    """The literal bytes and the nodes of a run, in turn."""
    parts: Parts = []
    literal: list[bytes] = []
    for item in items:
        literal.append(item.literal)
        if item.part is not None:
            parts += [b"".join(literal), item.part]
            literal = []
    parts.append(b"".join(literal))
    return parts
