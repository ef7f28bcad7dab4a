"""Many states that share most of their chunks: what recurs in them is decoded once, and copied into each.

States that follow each other have the same long lists, with a little more at the end. So of a list that is cut into
runs, whole groups of runs are taken: decoded when they are met, made into a mold when they are met again, and from then
on copied from it. Groups end where the hash of a run says so: a list from which something was taken at the front has
the same groups a few runs later.

To the decoder, a list with groups is an object of a class that nobody else has, whose data names the groups and holds
the items between them. Where that fails, for whatever reason, the state is decoded like any other, and that says why.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import ormsgpack

from holdfast.errors import StateError, UnsupportedError
from holdfast.objects import nodes, wire
from holdfast.objects.codec import decode_pieces
from holdfast.objects.joining import MAX_NODE_DEPTH, join_state, open_root
from holdfast.objects.molds import Mold, UnlikeError
from holdfast.objects.nodes import Entry, MalformedNodeError, Node, Parts
from holdfast.objects.registry import TypeRegistry
from holdfast.objects.state import decode_joined
from holdfast.objects.verified import Read, read_chunks
from holdfast.storage.records import ChunkHash

_REMEMBERED_BYTES: Final = 16 << 20
"""Of groups, each counted as what it is encoded and what it takes as a mold."""
_VALUE_BYTES: Final = 64
"""What a value in a mold takes, about, beside what its encoded bytes stand for."""

_GROUP_MASK: Final = 0x07
"""One run in eight ends a group: a hundred messages of 1 KB or so, for which a mold is worth its calls."""

_MOST_RUNS: Final = 32

_FEW_PARTS: Final = 10_000
_PART_BYTES: Final = 16
"""As when joining: a state with nearly as many parts as bytes was made to fill the memory."""

# Nobody can have known it when the bytes of a state were made.
_NAME: Final = os.urandom(16).hex()
_OPENING: Final = b"\x94" + ormsgpack.packb(_NAME) + b"\x01"
_CLOSING: Final = b"\xc0"

_Bytes = bytes | memoryview


class _Recurring:
    """Stands for a list, while it is decoded."""


class _Group:
    """Runs that follow each other in a list."""

    __slots__ = ("_is_unlike", "_met", "_mold", "bodies", "count", "size")

    def __init__(self, bodies: list[_Bytes], count: int) -> None:
        self.bodies = bodies
        self.count = count
        self.size = sum(map(len, bodies))
        """What it takes in memory; more, once there is a mold."""
        self._met = False
        self._is_unlike = False
        self._mold: Mold | None = None

    def make(self, types: TypeRegistry) -> list[Any]:
        """The items, which nobody else has."""
        # Threads that come here at once may do the same work twice, which is all.
        if self._mold is not None:
            return self._mold.make()
        items = decode_pieces([wire.array_header(self.count), *self.bodies], types)
        if self._met and not self._is_unlike:
            try:
                mold = Mold(items, types)
            except UnlikeError:
                self._is_unlike = True
            else:
                self.size += mold.count * _VALUE_BYTES
                self._mold = mold
                return mold.make()
        self._met = True
        return cast("list[Any]", items)


class _List:
    """A list of groups, and of what stands between them."""

    __slots__ = ("count", "segments")

    def __init__(self, count: int) -> None:
        self.count = count
        self.segments: list[_Group | tuple[int, list[_Piece]]] = []
        """Groups, and how many items stand there otherwise, with their pieces."""


_Piece = _Bytes | _List


class RecurringState:
    """A state that was read, and is decoded when its turn comes."""

    __slots__ = ("_pieces", "_types")

    def __init__(self, pieces: list[_Piece], types: TypeRegistry) -> None:
        self._pieces = pieces
        self._types = types

    def build(self) -> Any:
        """The state.

        Raises:
            StateError: It does not fit the program, or is none.
            UnsupportedError: A newer version of holdfast wrote it.
        """
        groups: list[_Group] = []
        marked = list(_marked(self._pieces, groups))
        if groups:
            try:
                return decode_joined(marked, self._registry(groups))
            except (StateError, UnsupportedError):
                # Whatever it is, decoding all of it in one finds it again, with its place, or finds nothing wrong.
                pass
        return decode_joined(list(_plain(self._pieces)), self._types)

    def _registry(self, groups: list[_Group]) -> TypeRegistry:
        types = self._types

        def listed(segments: Any) -> list[Any]:
            items: list[Any] = []
            for segment in segments:
                items += groups[segment].make(types) if type(segment) is int else segment
            return items

        over = types.child()
        over.on_missing(types.finder)
        over.register(_Recurring, name=_NAME, encode=_not_stored, decode=listed)
        return over


class RecurringRuns:
    """What states read one after the other have in common. One thread reads at a time; any may build."""

    def __init__(self, types: TypeRegistry) -> None:
        self._types = types
        self._groups: OrderedDict[bytes, _Group] = OrderedDict()

    def state(self, root: ChunkHash, read: Read) -> RecurringState:
        """Read a state, but for what is known of it already.

        Raises:
            IntegrityError: A chunk is missing or damaged.
            StateError: The chunks are what their hashes say, but no state (`decode-failed`).
            UnsupportedError: A newer version of holdfast wrote it.
        """
        try:
            start = open_root(root, read)
            pieces: list[_Piece] = (
                _Walk(self._groups, read, start.size).node(start) if isinstance(start, Node) else [start]
            )
        except MalformedNodeError:
            # That says what is wrong with it.
            pieces = list(join_state(root, read))
        self._forget()
        return RecurringState(pieces, self._types)

    def _forget(self) -> None:
        size = sum([group.size for group in self._groups.values()])
        while size > _REMEMBERED_BYTES:
            size -= self._groups.popitem(last=False)[1].size


class _Walk:
    """Goes through one state, and checks what `joining` checks."""

    def __init__(self, groups: OrderedDict[bytes, _Group], read: Read, size: int) -> None:
        self._groups = groups
        self._read = read
        self._parts_left = _FEW_PARTS + size // _PART_BYTES

    def node(self, node: Node, depth: int = 0) -> list[_Piece]:
        """The pieces of the value that a node stands for."""
        _check(depth <= MAX_NODE_DEPTH)
        leaves = self._leaves(node)
        tail, size = self._parts(node.tail, depth)
        header = node.header()
        size += len(header) + sum([leaf.size for leaf in leaves])
        _check(size == node.size)
        if node.kind != nodes.LIST or not leaves:
            return [header, *self._between(leaves, self._chunks(leaves), depth), *tail]
        left = node.count - sum([leaf.count for leaf in leaves])
        _check(left >= 0)
        found = _List(node.count)
        found.segments += self._segments(leaves, depth)
        found.segments.append((left, tail))
        return [found]

    def _segments(self, leaves: list[Entry], depth: int) -> Iterator[_Group | tuple[int, list[_Piece]]]:
        # With what is said of each run, not only its hash: it was compared with the run when that was read.
        groups = [(nodes.pack_entries(group), group) for group in _grouped(leaves)]
        # All that is missing is one question.
        chunks = self._chunks([leaf for name, group in groups if name not in self._groups for leaf in group])
        for name, group in groups:
            known = self._groups.get(name)
            if known is None:
                count, pieces = sum([leaf.count for leaf in group]), self._between(group, chunks, depth)
                if any(chunks[leaf.hash][0] != nodes.LEAF for leaf in group):
                    yield count, pieces
                    continue
                known = self._groups[name] = _Group(cast("list[_Bytes]", pieces), count)
            self._groups.move_to_end(name)
            yield known

    def _between(self, leaves: list[Entry], chunks: Mapping[ChunkHash, bytes], depth: int) -> list[_Piece]:
        """The items of runs, as they are."""
        pieces: list[_Piece] = []
        for leaf in leaves:
            chunk = chunks[leaf.hash]
            kind, body = (chunk[0] if chunk else 0), memoryview(chunk)[1:]
            _check(kind in (nodes.LEAF, nodes.MIXED))
            if kind == nodes.LEAF:
                pieces.append(body)
                size = len(body)
            else:
                parts, size = self._parts(nodes.parse_parts(body), depth)
                pieces += parts
            _check(size == leaf.size)
        return pieces

    def _parts(self, parts: Parts, depth: int) -> tuple[list[_Piece], int]:
        """Literal bytes and nodes in turn, and what they take encoded."""
        self._count(len(parts))
        pieces: list[_Piece] = []
        size = 0
        for position, part in enumerate(parts):
            if position % 2:
                node = nodes.parse_node(part)
                pieces += self.node(node, depth + 1)
                size += node.size
            else:
                pieces.append(part)
                size += len(part)
        return pieces, size

    def _leaves(self, node: Node) -> list[Entry]:
        """The runs of a node, from left to right."""
        leaves: list[Entry] = []
        height = len(node.levels)
        for above, level in enumerate(node.levels):
            entries = level
            self._count(len(entries))
            for _ in range(height - 1 - above):
                entries = self._under(entries)
                self._count(len(entries))
            leaves += entries
        return leaves

    def _under(self, entries: list[Entry]) -> list[Entry]:
        chunks = self._chunks(entries)
        under: list[Entry] = []
        for entry in entries:
            chunk = chunks[entry.hash]
            _check(bool(chunk) and chunk[0] == nodes.INDEX)
            held = nodes.parse_entries(memoryview(chunk)[1:])
            _check(sum([each.size for each in held]) == entry.size)
            under += held
        return under

    def _chunks(self, entries: list[Entry]) -> Mapping[ChunkHash, bytes]:
        return read_chunks([entry.hash for entry in entries], self._read) if entries else {}

    def _count(self, parts: int) -> None:
        self._parts_left -= parts
        _check(self._parts_left >= 0)


def _grouped(leaves: list[Entry]) -> Iterator[list[Entry]]:
    """Groups that a later state is likely to have as well: those that ended, and single runs where none did."""
    group: list[Entry] = []
    for leaf in leaves:
        group.append(leaf)
        if not leaf.hash[0] & _GROUP_MASK or len(group) == _MOST_RUNS:
            yield group
            group = []
    yield from ([leaf] for leaf in group)


def _marked(pieces: list[_Piece], groups: list[_Group]) -> Iterator[_Bytes]:
    """Encoded bytes in which objects stand for lists, which refer to groups by their number."""
    for piece in pieces:
        if type(piece) is not _List:
            yield cast("_Bytes", piece)
            continue
        held: list[_Bytes] = [_OPENING, wire.array_header(len(piece.segments))]
        for segment in piece.segments:
            if type(segment) is _Group:
                held.append(ormsgpack.packb(len(groups)))
                groups.append(segment)
            else:
                count, between = cast("tuple[int, list[_Piece]]", segment)
                held.append(wire.array_header(count))
                held += _marked(between, groups)
        held.append(_CLOSING)
        yield wire.extension_header(wire.RECORD, sum(map(len, held)))
        yield from held


def _plain(pieces: list[_Piece]) -> Iterator[_Bytes]:
    """The encoded bytes as they are."""
    for piece in pieces:
        if type(piece) is not _List:
            yield cast("_Bytes", piece)
            continue
        yield wire.array_header(piece.count)
        for segment in piece.segments:
            if type(segment) is _Group:
                yield from segment.bodies
            else:
                yield from _plain(cast("tuple[int, list[_Piece]]", segment)[1])


def _check(fits: bool) -> None:  # noqa: FBT001 - reads as what it is
    if not fits:
        raise MalformedNodeError


def _not_stored(_value: Any) -> Any:
    raise TypeError("no state has one")
