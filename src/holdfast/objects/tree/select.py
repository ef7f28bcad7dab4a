"""A part of a state by its path, read without the rest: `messages[-20:]`, `beliefs.b7.confidence`, `a['b c'][0]`.

    path  = [ name ] { "." name | "[" number "]" | "[" [start] ":" [stop] "]" | "['" text "']" }

`spelling.py` says how any text stands in quotes.

The way goes down the tree as far as there are nodes. Of a list only the runs that hold the wanted items are read, of a
dict the runs up to the one that has the key. From where the value stands whole, it is decoded, and the rest of the way
is taken in Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any, Final

import ormsgpack

from holdfast.errors import ErrorCode, NotFoundError
from holdfast.objects.codec import msgpack, paths
from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.opaque import Opaque
from holdfast.objects.codec.paths import Step, parse_path
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.tree import nodes
from holdfast.objects.tree.nodes import Entry, MalformedNodeError, Node, Parts
from holdfast.objects.tree.read import Read, join_node, not_a_state, open_root, read_chunk, read_chunks
from holdfast.record import Record
from holdfast.storage.records import ChunkHash


class _Decoded(Record):
    """A value that stood whole: from here on the way is taken in Python."""

    value: Any


_Place = Node | _Decoded


def select_part(root: ChunkHash, text: str, read: Read, types: TypeRegistry) -> Any:
    """The part of the state under `root` at that path, verified.

    Raises:
        InvalidInputError: The path is none (`bad-path`).
        NotFoundError: There is no such part (`path-missing`).
        IntegrityError: A chunk on the way is missing or damaged.
    """
    steps = parse_path(text)
    try:
        return _Selection(read, types, steps).select(open_root(root, read))
    except MalformedNodeError as error:
        raise not_a_state(root, error) from error


class _Selection:
    """One way down one state."""

    def __init__(self, read: Read, types: TypeRegistry, steps: list[Step]) -> None:
        self._read = read
        self._types = types
        self._steps = steps

    def select(self, start: Node | memoryview) -> Any:
        place = start if isinstance(start, Node) else _Decoded(decode_value(start, self._types))
        for number, step in enumerate(self._steps):
            if isinstance(place, Node) and place.kind == nodes.RAW:
                place = _Decoded(self._whole(place))
            if isinstance(place, Node):
                place = (
                    self._items(place, step, number)
                    if place.kind == nodes.LIST
                    else self._value(place, number)
                )
            else:
                place = _Decoded(_taken(place.value, step, self._steps, number))
        return self._whole(place) if isinstance(place, Node) else place.value

    def _whole(self, node: Node) -> Any:
        return decode_value(join_node(node, self._read), self._types)

    def _items(self, node: Node, step: Step, number: int) -> _Place:
        """An item of a list, or several."""
        if isinstance(step, str):
            raise missing(self._steps, number, f"a list of {node.count} items has no {step!r}")
        if isinstance(step, int):
            index = step + node.count if step < 0 else step
            if not 0 <= index < node.count:
                raise missing(self._steps, number, f"the list has {node.count} items")
            item = next(self._between(node, index, index + 1))
            return item if isinstance(item, Node) else _Decoded(item)
        start, stop, _ = step.indices(node.count)
        found = self._between(node, start, stop) if start < stop else ()
        return _Decoded([self._whole(item) if isinstance(item, Node) else item for item in found])

    def _between(self, node: Node, start: int, stop: int) -> Iterator[Any]:
        """The items of a list from `start` to `stop`; a large one as its node."""
        leaves = list(self._leaves(node, start, stop))
        chunks = read_chunks((entry.hash for _, entry in leaves), self._read)
        runs = [(at, entry.count, parts_of(chunks[entry.hash])) for at, entry in leaves]
        under = sum(entry.count for level in node.levels for entry in level)
        runs.append((under, node.count - under, node.tail))
        for at, count, parts in runs:
            if at < stop and count:
                yield from self._run(nodes.LIST, count, parts)[max(start - at, 0) : stop - at]

    def _value(self, node: Node, number: int) -> _Place:
        """The value of a dict under a key: the run at the end is at hand, the others are read one by one."""
        key = self._steps[number]
        under = sum(entry.count for level in node.levels for entry in level)
        runs: Iterator[tuple[int, Parts]] = (
            (entry.count, parts_of(read_chunk(entry.hash, self._read)))
            for _, entry in self._leaves(node, 0, under)
        )
        seen: list[str] = []
        for count, parts in chain([(node.count - under, node.tail)], runs):
            run = self._run(nodes.DICT, count, parts) if count else {}
            if key in run:
                value = run[key]
                return value if isinstance(value, Node) else _Decoded(value)
            seen += run
        raise missing(self._steps, number, f"its keys are {', '.join(map(repr, seen[:8]))}")

    def _leaves(self, node: Node, start: int, stop: int) -> Iterator[tuple[int, Entry]]:
        """The entries of full runs between two positions, and where each begins."""
        at = 0
        for depth, level in enumerate(node.levels):
            for entry in level:
                yield from self._under(entry, len(node.levels) - depth - 1, at, start, stop)
                at += entry.count

    def _under(self, entry: Entry, level: int, at: int, start: int, stop: int) -> Iterator[tuple[int, Entry]]:
        if at >= stop or at + entry.count <= start:
            return
        if level == 0:
            yield at, entry
            return
        children = nodes.parse_entries(memoryview(read_chunk(entry.hash, self._read))[1:])
        if sum(child.count for child in children) != entry.count:
            raise MalformedNodeError("an index that does not hold what it says")
        for child in children:
            yield from self._under(child, level - 1, at, start, stop)
            at += child.count

    def _run(self, kind: int, count: int, parts: Parts) -> Any:
        """The items of one run, as a list or a dict; nodes stand in it as they are."""
        header = msgpack.array_header(count) if kind == nodes.LIST else msgpack.map_header(count)
        if len(parts) == 1:
            return decode_value(header + parts[0], self._types)
        inner = [nodes.parse_node(part) for part in parts[1::2]]
        standing = (_STAND_IN + number.to_bytes(4, "big") for number in range(len(inner)))
        pieces = chain.from_iterable(zip_longest(parts[::2], standing, fillvalue=b""))

        def answer(code: int, payload: bytes) -> Any:
            if code == _STAND_IN_CODE:
                return inner[int.from_bytes(payload, "big")]
            return decode_value(msgpack.extension_header(code, len(payload)) + payload, self._types)

        try:
            return ormsgpack.unpackb(header + b"".join(pieces), ext_hook=answer)
        except (ValueError, IndexError) as error:
            raise MalformedNodeError(str(error)) from error


_STAND_IN_CODE: Final = 127
"""An extension that never is in a state: it holds the place of a node while the run around it is decoded."""
_STAND_IN: Final = msgpack.extension_header(_STAND_IN_CODE, 4)


def parts_of(chunk: bytes) -> Parts:
    """The parts of a leaf."""
    kind = chunk[0] if chunk else 0
    if kind == nodes.LEAF:
        return [chunk[1:]]
    if kind == nodes.MIXED:
        return nodes.parse_parts(memoryview(chunk)[1:])
    raise MalformedNodeError(f"a chunk of kind {kind} where a leaf should be")


def _taken(value: Any, step: Step, steps: list[Step], number: int) -> Any:
    """One step into a decoded value."""
    if isinstance(value, Opaque):
        value = value.data
    try:
        if isinstance(step, str):
            # A mapping is asked for its key; any other object only for what it holds, never for its methods.
            return value[step] if isinstance(value, Mapping) else _field(value, step)
        if isinstance(value, Sequence):
            return value[step]
    except (LookupError, AttributeError):
        pass
    raise missing(steps, number, f"there is a {type(value).__name__}")


def _field(value: Any, name: str) -> Any:
    if name.startswith("_") or callable(getattr(type(value), name, None)):
        raise AttributeError(name)
    return getattr(value, name)


def missing(steps: list[Step], number: int, why: str) -> NotFoundError:
    """The error for a path that leads nowhere from step `number` on."""
    where = paths.render([_text(step) for step in steps[: number + 1]])
    return NotFoundError(
        f"there is no {where}: {why}",
        code=ErrorCode.PATH_MISSING,
        hint="load the part above it to see what there is",
        path=where,
    )


def _text(step: Step) -> str:
    if isinstance(step, slice):
        return f"[{'' if step.start is None else step.start}:{'' if step.stop is None else step.stop}]"
    return paths.key_step(step)
