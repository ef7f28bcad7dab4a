"""Texts in a state that match, each chunk searched once however many states have it.

What was found in a chunk is remembered with the places as they are inside it; a state puts them together by walking
its entries, of which it reads only those that no state before it had. It gets them as groups, each with the way to it:
what two states share is the same group, and is told from what is new without a look at what is in it. Where letters are
looked for as they are, bytes that do not hold them are not even decoded: a text stands in them as UTF-8.

Only texts that are values count: not keys, not bytes, not times or numbers. A text of more than 16 KB is a tree of its
own, cut without regard to words: it is put together to be searched, and again where it has changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.opaque import Opaque
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.diffing.change import PathStep
from holdfast.objects.diffing.encoded import Encoded, Large, Value
from holdfast.objects.diffing.stretches import items_at_hand
from holdfast.objects.tree import nodes
from holdfast.objects.tree.nodes import Entry, MalformedNodeError, Node, Parts
from holdfast.objects.tree.read import MAX_NODE_DEPTH, Read, join_node, read_chunks
from holdfast.objects.tree.select import parts_of
from holdfast.record import Record
from holdfast.storage.records import ChunkHash
from holdfast.store.searching.patterns import Pattern, Span

_AT_ONCE: Final = 64
"""Chunks that are asked for together."""
_REMEMBERED: Final = 200_000
"""Chunks whose finds are remembered; nearly all of them have none."""
_AROUND: Final = 60
"""Characters that are shown on each side of a match."""
_LONGEST_SHOWN: Final = 200
"""Characters of a match that are shown."""

_NO_TYPES: Final = TypeRegistry()


class Found(Record):
    """A text that matches, with its place in what was searched."""

    steps: tuple[PathStep, ...]
    text: str
    start: int
    stop: int
    offset: int
    mark: int
    """Equal where whole texts are, as far as anybody will see."""


_Finds = tuple[Found, ...]


class Group(Record):
    """What was found in one run of items: the same object in every state that has the run."""

    finds: _Finds
    """With their places in the run; at least one."""
    way: tuple[PathStep, ...] = ()
    """To the list or dict that the run is a part of."""
    by: int = 0
    """The place of the run in its list."""

    def placed(self) -> Iterable[Found]:
        """The finds with their places in what was searched."""
        if not self.way and not self.by:
            return self.finds
        return [each._replace(steps=(*self.way, *_later(each.steps, self.by))) for each in self.finds]


Groups = tuple[Group, ...]


class TextSearch:
    """One pattern, looked for in many states."""

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self._finds: dict[tuple[ChunkHash | bytes, int, int], Groups] = {}
        self.searched = 0
        """Chunks, and values that stand in none of their own, that were looked into."""

    def search(self, value: Value, read: Read, depth: int = 0) -> Groups:
        """What matches in a value, from its beginning to its end.

        Raises:
            InvalidInputError: The pattern takes too long on one of the texts.
            MalformedNodeError: The chunks are no state.
        """
        if depth > MAX_NODE_DEPTH:
            raise MalformedNodeError("nodes in nodes without end")
        if isinstance(value, Encoded):
            self.searched += 1
            return _grouped(self._encoded(value.data))
        node = value.node
        if node.kind != nodes.RAW:
            return self._sequence(node, read, depth)
        known = (value.data, nodes.RAW, 0)
        if known not in self._finds:
            self.searched += 1
            self._remember(known, _grouped(self._encoded(join_node(node, read))))
        return self._finds[known]

    def _sequence(self, node: Node, read: Read, depth: int) -> Groups:
        found: list[Group] = []
        at, level = 0, len(node.levels)
        for entries in node.levels:
            level -= 1
            found += self._entries(node.kind, entries, level, at, read, depth)
            at += sum(entry.count for entry in entries)
        if any(node.tail):
            found += _moved(self._run(node.kind, node.count - at, node.tail, read, depth), node.kind, at)
        return tuple(found)

    def _entries(
        self, kind: int, entries: Iterable[Entry], level: int, at: int, read: Read, depth: int
    ) -> Iterator[Group]:
        """What is under entries of one level, of which only those are read that no state had before."""
        some = list(entries)
        for first in range(0, len(some), _AT_ONCE):
            batch = some[first : first + _AT_ONCE]
            new = {e.hash: e for e in batch if (e.hash, kind, level) not in self._finds}
            chunks = read_chunks(new, read) if new else {}
            for entry in batch:
                known = (entry.hash, kind, level)
                finds = self._finds.get(known)
                if finds is None:
                    finds = self._chunk(kind, entry, level, chunks[entry.hash], read, depth)
                    self._remember(known, finds)
                yield from _moved(finds, kind, at)
                at += entry.count

    def _chunk(self, kind: int, entry: Entry, level: int, chunk: bytes, read: Read, depth: int) -> Groups:
        if level:
            if not chunk or chunk[0] != nodes.INDEX:
                raise MalformedNodeError(f"no index at level {level}")
            below = nodes.parse_entries(memoryview(chunk)[1:])
            if sum(each.count for each in below) != entry.count:
                raise MalformedNodeError("an index that does not hold what it says")
            return tuple(self._entries(kind, below, level - 1, 0, read, depth))
        return self._run(kind, entry.count, parts_of(chunk), read, depth)

    def _run(self, kind: int, count: int, parts: Parts, read: Read, depth: int) -> Groups:
        self.searched += 1
        if len(parts) == 1 and self._pattern.absent(parts[0]):
            return ()
        # A list or dict of its own, so that it is opened as every other one is.
        cut_out = sum(nodes.parse_node(part).size for part in parts[1::2])
        size = len(nodes.header(kind, count)) + sum(map(len, parts[::2])) + cut_out
        run = Large(Node(kind, count, size, [], parts).pack())
        groups: list[Group] = []
        found: list[Found] = []
        for item in items_at_hand(run):
            step = PathStep("index", item.at) if kind == nodes.LIST else PathStep("key", item.key)
            if isinstance(item.value, Encoded):
                finds = self._encoded(item.value.data)
                found += [each._replace(steps=(step, *each.steps)) for each in finds]
                continue
            inner = self.search(item.value, read, depth + 1)
            if inner:
                groups += _grouped(tuple(found))
                groups += [each._replace(way=(step, *each.way)) for each in inner]
                found = []
        return (*groups, *_grouped(tuple(found)))

    def _encoded(self, data: bytes) -> _Finds:
        if self._pattern.absent(data):
            return ()
        found = []
        for place, text in _texts(decode_value(data, _NO_TYPES)):
            span = self._pattern.find(text)
            if span is not None:
                found.append(found_at(text, span, _steps(place)))
        return tuple(found)

    def _remember(self, known: tuple[ChunkHash | bytes, int, int], finds: Groups) -> None:
        self._finds[known] = finds
        if len(self._finds) > _REMEMBERED:
            del self._finds[next(iter(self._finds))]


class _At(Record):
    """Where a value is: the step to it, and where what holds it is."""

    holder: _At | None
    step: PathStep


def _texts(value: Any) -> Iterator[tuple[_At | None, str]]:
    """The texts in a decoded value in order; a stack, because values may lie thousands of levels deep."""
    left: list[tuple[_At | None, Any]] = [(None, value)]
    while left:
        at, each = left.pop()
        if type(each) is str:
            yield at, each
            continue
        within = [(_At(at, step), item) for step, item in _items(each)]
        left += reversed(within)


def _items(value: Any) -> Iterator[tuple[PathStep, Any]]:
    kind: Any = "key"
    if isinstance(value, Opaque):
        value, kind = value.data, "field"
        if not isinstance(value, Mapping):
            yield PathStep("extra", None), value
            return
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield PathStep(kind, key), item
    elif isinstance(value, list | tuple | deque):
        for number, item in enumerate(value):
            yield PathStep("index", number), item
    elif isinstance(value, set | frozenset):
        for item in value:
            yield PathStep("member", item), item


def _steps(at: _At | None) -> tuple[PathStep, ...]:
    steps: list[PathStep] = []
    while at is not None:
        steps.append(at.step)
        at = at.holder
    return tuple(reversed(steps))


def found_at(text: str, span: Span, steps: tuple[PathStep, ...]) -> Found:
    """A match with what is around it."""
    start, stop = span
    first, last = max(0, start - _AROUND), min(stop, start + _LONGEST_SHOWN)
    part = text[first : last + _AROUND]
    return Found(steps, part, start - first, last - first, start, hash(text))


def _grouped(finds: _Finds) -> Groups:
    return (Group(finds),) if finds else ()


def _moved(groups: Groups, kind: int, by: int) -> Iterable[Group]:
    """The same, with the place of a run in its list added to the first step."""
    if kind != nodes.LIST or not by:
        return groups
    return [
        each._replace(way=_later(each.way, by)) if each.way else each._replace(by=each.by + by)
        for each in groups
    ]


def _later(steps: tuple[PathStep, ...], by: int) -> tuple[PathStep, ...]:
    """The same way, into a list that begins so many items later."""
    return (PathStep("index", steps[0].key + by), *steps[1:]) if by else steps
