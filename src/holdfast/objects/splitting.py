"""A state into a tree of chunks: large lists and dicts are cut into runs of items, other large values into pieces.

The tree is a function of the encoded state alone. What the memo of the last save adds is speed: runs that are the same
as before are found by fingerprint and taken over, and only what lies between them is looked at item by item.

A container is encoded first and cut after, and items that are encoded on their own must be the bytes that stand in the
whole: where they are not (another thread changed them, or an encode function never says the same thing twice), the
whole is cut as plain bytes instead. Slower to compare, never wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.objects import nodes, wire
from holdfast.objects.bulk import BulkPacker, UnaskedError, has_binary
from holdfast.objects.codec import encode_value
from holdfast.objects.cutting import FORMAT_0, Cuts, token
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.memo import NodeMemo, StateMemo
from holdfast.objects.nodes import MAX_STATE_BYTES
from holdfast.objects.registry import TypeRegistry
from holdfast.objects.sequence import ChunkSink, Sequence
from holdfast.objects.tracked import encoded_type

_MAP_MARKS: Final = frozenset((*range(0x80, 0x90), 0xDE, 0xDF))
_TEXT_MARKS: Final = frozenset((*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB))


class _DriftError(Exception):
    """An item encoded on its own is not what stands in the whole."""


@dataclass(frozen=True, slots=True)
class _Built:
    """A value as it stands in its parent: literally, or as a node with the memo of it."""

    part: bytes
    size: int
    """Encoded bytes; more than the part has where that is a node."""
    memo: NodeMemo | None


class Splitter:
    """Cuts one state; the chunks go into `sink`."""

    def __init__(self, types: TypeRegistry, memo: StateMemo | None, cuts: Cuts = FORMAT_0) -> None:
        self._types = types
        self._memo = memo
        self.cuts = cuts
        self._stored = memo.chunks if memo else frozenset()
        self.sink = ChunkSink(self._stored)
        self.encode: Callable[[Any], bytes] = BulkPacker(types).pack
        self.exact = False
        """Whether `encode` can be trusted with every value; see `bulk`."""

    def split(self, value: Any) -> tuple[StateMemo, int]:
        """Cut the state; return what to remember of it, and its encoded size.

        Raises:
            InvalidInputError: The state holds something that cannot be saved; the message has its path.
        """
        old = self._memo.node if self._memo else None
        try:
            try:
                built = self._build(value, old, 0)
            except (UnaskedError, _DriftError):
                # A container of a document is always encoded exactly; where it lies in a plain state, its items must
                # be too.
                self.sink, self.exact, self.encode = ChunkSink(self._stored), True, self._encode_exactly
                built = self._build(value, old, 0)
        except (_DriftError, InvalidInputError):
            # Parts do not know where they stand in the state: the whole does, and says what is wrong with it.
            self.sink = ChunkSink(self._stored)
            data = self._encode_exactly(value)
            _check_size(len(data))
            built = _Built(data, len(data), None) if len(data) <= self.cuts.item_limit else self._pieces(data)
        _check_size(built.size)
        kind = nodes.TREE if built.memo else nodes.WHOLE
        data = bytes((kind,)) + built.part
        root = hash_chunk(data)
        self.sink.put(root, data, self._memo.root if self._memo else None)
        return StateMemo(root, built.memo, frozenset(self.sink.seen)), built.size

    def placed(self, value: Any, data: bytes, old: NodeMemo | None, depth: int) -> _Built:
        """A value whose encoded bytes are known: literally where it is small, else as a node."""
        _check_size(len(data))
        if len(data) > self.cuts.item_limit and depth < self.cuts.node_depth:
            if encoded_type(value) is list:
                return _Container(self, nodes.LIST, value, data, old, depth).cut()
            if encoded_type(value) is dict and data[0] in _MAP_MARKS:
                return _Container(self, nodes.DICT, list(value.items()), data, old, depth).cut()
        self.has_binary([value], data)
        return _Built(data, len(data), None) if len(data) <= self.cuts.item_limit else self._pieces(data)

    def has_binary(self, values: list[Any], data: bytes | memoryview) -> bool:
        """Whether there are bytes among these values, which are encoded as `data`."""
        return self.exact or has_binary(values, data)

    def _encode_exactly(self, value: Any) -> bytes:
        return encode_value(value, self._types)

    def _build(self, value: Any, old: NodeMemo | None, depth: int) -> _Built:
        if old is not None and encoded_type(value) is dict and old.kind == nodes.DICT and old.children:
            built = self._by_pairs(value, old, depth)
            if built is not None:
                return built
        return self.placed(value, self.encode(value), old, depth)

    def _by_pairs(self, value: dict[Any, Any], old: NodeMemo, depth: int) -> _Built | None:
        """A dict that holds nodes, without encoding it as a whole first; None where that cannot be done."""
        sequence = Sequence(nodes.DICT, self.cuts, self.sink, old)
        for key, item in list(value.items()):
            name = self.encode(key)
            if type(key) is not str or name[0] not in _TEXT_MARKS:
                return None
            built = self._build(item, old.children.get(key), depth + 1)
            if _add(sequence, name, built, key):
                sequence.cut(None, binary=True)
        node = sequence.finish()
        return _Built(node.pack(), node.size, sequence.memo) if node.size > self.cuts.item_limit else None

    def _pieces(self, data: bytes) -> _Built:
        sequence = Sequence(nodes.RAW, self.cuts, self.sink, None)
        *full, last = self.cuts.pieces(data)
        for piece in full:
            sequence.add_run(piece)
        sequence.add_tail(last)
        node = sequence.finish()
        return _Built(node.pack(), node.size, sequence.memo)


class _Container:
    """A list, or a dict as a list of pairs, and its encoded bytes, on their way through `Sequence`."""

    def __init__(
        self, splitter: Splitter, kind: int, items: list[Any], data: bytes, old: NodeMemo | None, depth: int
    ) -> None:
        self._splitter = splitter
        self._kind = kind
        self._items = items
        self._data = data
        self._old = old if old is not None and old.kind == kind else None
        self._depth = depth
        self._sequence = Sequence(kind, splitter.cuts, splitter.sink, self._old)
        self._count = len(items)
        header = wire.array_header(self._count) if kind == nodes.LIST else wire.map_header(self._count)
        # Where the next item is, in the list and in the bytes; and where the run that it goes into began.
        self._index = self._first = 0
        self._position = self._start = len(header)

    def cut(self) -> _Built:
        """Go through all items."""
        while self._index < self._count:
            if not self._take_over() and self._add_next():
                self._sequence.cut(self._run(), binary=self._has_binary())
                self._first, self._start = self._index, self._position
        if self._position != len(self._data):
            raise _DriftError
        node = self._sequence.finish(self._run(), binary=self._has_binary())
        return _Built(node.pack(), node.size, self._sequence.memo)

    def _run(self) -> memoryview:
        return memoryview(self._data)[self._start : self._position]

    def _has_binary(self) -> bool:
        items = self._items[self._first : self._index]
        values = items if self._kind == nodes.LIST else [value for _, value in items]
        return self._splitter.has_binary(values, self._run())

    def _take_over(self) -> bool:
        known = self._sequence.take_over(self._data, self._position, self._count - self._index)
        if known is None:
            return False
        self._index += known.count
        self._position += known.size
        if known.binary:
            self._has_binary()
        if known.entry is not None:
            self._first, self._start = self._index, self._position
        return True

    def _add_next(self) -> bool:
        """Add the next item; whether it ends the run."""
        try:
            item = self._items[self._index]
        except IndexError:
            # Another thread shortened the list after it was encoded.
            raise _DriftError from None
        name, key, value = b"", self._index, item
        if self._kind == nodes.DICT:
            key, value = item
            name = self._splitter.encode(key)
        encoded = self._splitter.encode(value)
        if not self._data.startswith(name + encoded, self._position):
            raise _DriftError
        self._index += 1
        self._position += len(name) + len(encoded)
        if len(encoded) <= self._splitter.cuts.item_limit:
            return self._sequence.add(name + encoded, token(name or encoded))
        old = self._old.children.get(key) if self._old else None
        return _add(self._sequence, name, self._splitter.placed(value, encoded, old, self._depth + 1), key)


def _check_size(size: int) -> None:
    if size > MAX_STATE_BYTES:
        raise InvalidInputError(
            f"the state takes {size:,} bytes encoded, and {MAX_STATE_BYTES:,} is the most that can be saved",
            code=ErrorCode.VALUE_TOO_LARGE,
            hint="keep large data in files of its own, and their paths in the state",
            size_bytes=size,
        )


def _add(sequence: Sequence, name: bytes, built: _Built, key: object) -> bool:
    """Add a value, or a pair of a name and a value; whether it ends the run."""
    # Of a pair the name alone decides about the cut: a new value of about the same size moves none.
    number = token(name or built.part)
    if built.memo is None:
        return sequence.add(name + built.part, number)
    sequence.memo.children[key] = built.memo
    return sequence.add_node(name, built.part, len(name) + built.size, number)
