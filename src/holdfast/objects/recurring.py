"""Many states that share most of their chunks: what recurs in them is decoded once, and copied into each.

States that follow each other have the same long lists, with a little more at the end. So of a list that is cut into
runs, whole groups of runs are taken: decoded when they are met, made into a mold when they are met again, and from then
on copied from it. Groups end where the hash of a run says so: a list from which something was taken at the front has
the same groups a few runs later.

To the decoder, a list with groups is an object of a class that nobody else has, whose data names the groups and holds
the items between them, as objects of another such class: each is as long as it says, so that bytes made for it cannot
pass an item off for a group. Where that fails, for whatever reason, the state is decoded like any other, and that says
why.

Nothing is read under a node before its sizes add up, and no chunk is kept that is not as large as its entry says.
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
from holdfast.objects.molds import Mold, NoRoomError, UnlikeError, Watched
from holdfast.objects.nodes import Entry, MalformedNodeError, Node, Parts
from holdfast.objects.registry import TypeRegistry
from holdfast.objects.state import decode_joined
from holdfast.objects.verified import Read, checked
from holdfast.storage.records import ChunkHash

_REMEMBERED_BYTES: Final = 16 << 20
"""Of groups, each counted as what it is encoded and what it takes as a mold."""
_ROOM: Final = 4
"""The part of it that is free before a page is built, for the molds that are made of what is in it."""
_VALUE_BYTES: Final = 200
"""What a value in a mold takes at most, about, beside what its encoded bytes stand for."""

_GROUP_MASK: Final = 0x07
"""One run in eight ends a group: a hundred messages of 1 KB or so, for which a mold is worth its calls."""

_MOST_RUNS: Final = 32

_FEW_PARTS: Final = 10_000
_PART_BYTES: Final = 16
"""As when joining: a state with nearly as many parts as bytes was made to fill the memory."""

_AT_ONCE: Final = 256
"""Chunks that are asked for together, as when joining."""

# Nobody can have known them when the bytes of a state were made.
_LIST_NAME: Final = os.urandom(16).hex()
_BETWEEN_NAME: Final = os.urandom(16).hex()
_LIST_OPENING: Final = b"\x94" + ormsgpack.packb(_LIST_NAME) + b"\x01"
_BETWEEN_OPENING: Final = b"\x94" + ormsgpack.packb(_BETWEEN_NAME) + b"\x01"
_CLOSING: Final = b"\xc0"

_Bytes = bytes | memoryview


class _Recurring:
    """Stands for a list, while it is decoded."""


class _Between:
    """Stands for the items between two groups of it."""


class _Room:
    """How many bytes may still be remembered."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = _REMEMBERED_BYTES


class _Group:
    """Runs that follow each other in a list."""

    __slots__ = ("_is_unlike", "_least_room", "_met", "_mold", "bodies", "count", "size")

    def __init__(self, bodies: list[_Bytes], count: int) -> None:
        self.bodies = bodies
        self.count = count
        self.size = sum(map(len, bodies))
        """What it takes in memory; more, once there is a mold."""
        self._met = False
        self._is_unlike = False
        self._least_room = 0
        self._mold: Mold | None = None

    def make(self, types: TypeRegistry, room: _Room) -> list[Any]:
        """The items, which nobody else has."""
        # Threads that come here at once may do the same work twice, which is all.
        if self._mold is not None:
            return self._mold.make()
        is_due = self._met and not self._is_unlike and room.left >= self._least_room
        self._met = True
        if not is_due:
            return self._decoded(types)
        watched = Watched(types)
        items = self._decoded(watched)
        if watched.ran_code:
            self._is_unlike = True
            return items
        try:
            mold = Mold(items, types, room.left // _VALUE_BYTES)
        except NoRoomError:
            # Tried again where there is more room than this was too little of.
            self._least_room = room.left + _VALUE_BYTES
            return items
        except UnlikeError:
            self._is_unlike = True
            return items
        room.left -= mold.count * _VALUE_BYTES
        self.size += mold.count * _VALUE_BYTES
        self._mold = mold
        return mold.make()

    def _decoded(self, types: TypeRegistry) -> list[Any]:
        return cast("list[Any]", decode_pieces([wire.array_header(self.count), *self.bodies], types))


class _List:
    """A list of groups, and of what stands between them."""

    __slots__ = ("count", "segments")

    def __init__(self, count: int) -> None:
        self.count = count
        self.segments: list[_Group | tuple[int, list[_Piece]]] = []
        """Groups, and how many items stand there otherwise, with their pieces."""


_Piece = _Bytes | _List


class _Opened:
    """A node whose own sizes add up, with what stands in its tail."""

    __slots__ = ("node", "tail")

    def __init__(self, node: Node, tail: list[_Part]) -> None:
        self.node = node
        self.tail = tail


_Part = bytes | _Opened


class RecurringState:
    """A state that was read, and is decoded when its turn comes."""

    __slots__ = ("_pieces", "_room", "_types")

    def __init__(self, pieces: list[_Piece], types: TypeRegistry, room: _Room) -> None:
        self._pieces = pieces
        self._types = types
        self._room = room

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
        types, room = self._types, self._room

        def listed(segments: Any) -> list[Any]:
            # All of it was written by `_marked`; nothing that is stored is on this level.
            count, *rest = segments
            items: list[Any] = []
            for segment in rest:
                items += groups[segment].make(types, room) if type(segment) is int else segment
            if len(items) != count:
                raise ValueError("runs that belie their list")
            return items

        over = types.child()
        over.on_missing(types.finder)
        over.register(_Recurring, name=_LIST_NAME, encode=_not_stored, decode=listed)
        over.register(_Between, name=_BETWEEN_NAME, encode=_not_stored, decode=lambda items: items)
        return over


class RecurringRuns:
    """What states read one after the other have in common. One thread reads at a time; any may build."""

    def __init__(self, types: TypeRegistry) -> None:
        self._types = types
        self._groups: OrderedDict[bytes, _Group] = OrderedDict()
        self._room = _Room()

    def state(self, root: ChunkHash, read: Read) -> RecurringState:
        """Read a state, but for what is known of it already.

        Args:
            root: Of the state.
            read: How chunks are fetched.

        Raises:
            IntegrityError: A chunk is missing or damaged.
            StateError: The chunks are what their hashes say, but no state (`decode-failed`).
            UnsupportedError: A newer version of holdfast wrote it.
        """
        try:
            start = open_root(root, read)
            pieces: list[_Piece] = (
                _Walk(self._groups, read, start.size).root(start) if isinstance(start, Node) else [start]
            )
        except MalformedNodeError:
            # That says what is wrong with it.
            pieces = list(join_state(root, read))
        self._forget()
        return RecurringState(pieces, self._types, self._room)

    def _forget(self) -> None:
        size = sum([group.size for group in self._groups.values()])
        # Some room is left for molds: they are made while states are built, when nothing can be forgotten.
        while size > _REMEMBERED_BYTES - _REMEMBERED_BYTES // _ROOM:
            size -= self._groups.popitem(last=False)[1].size
        self._room.left = _REMEMBERED_BYTES - size


class _Walk:
    """Goes through one state, and checks what `joining` checks."""

    def __init__(self, groups: OrderedDict[bytes, _Group], read: Read, size: int) -> None:
        self._groups = groups
        self._read = read
        self._parts_left = _FEW_PARTS + size // _PART_BYTES

    def root(self, node: Node) -> list[_Piece]:
        """The pieces of the value that a node stands for."""
        return self._pieces(self._open(node, 0), 0)

    def _open(self, node: Node, depth: int) -> _Opened:
        """Compare what a node says with itself, before anything under it is read."""
        _check(depth <= MAX_NODE_DEPTH)
        tail, size = self._open_parts(node.tail, depth)
        size += len(node.header()) + sum([entry.size for level in node.levels for entry in level])
        _check(size == node.size)
        return _Opened(node, tail)

    def _open_parts(self, parts: Parts, depth: int) -> tuple[list[_Part], int]:
        """Literal bytes and nodes in turn, and what they take encoded."""
        _check(len(parts) <= self._parts_left)
        opened: list[_Part] = []
        size = 0
        for position, part in enumerate(parts):
            if position % 2:
                node = nodes.parse_node(part)
                opened.append(self._open(node, depth + 1))
                size += node.size
            else:
                opened.append(part)
                size += len(part)
        return opened, size

    def _pieces(self, opened: _Opened, depth: int) -> list[_Piece]:
        node = opened.node
        leaves = self._leaves(node)
        if node.kind != nodes.LIST or not leaves:
            between = self._between(leaves, self._runs(leaves, depth), depth)
            return [node.header(), *between, *self._placed(opened.tail, depth)]
        left = node.count - sum([leaf.count for leaf in leaves])
        _check(left >= 0)
        found = _List(node.count)
        found.segments += self._segments(leaves, depth)
        found.segments.append((left, self._placed(opened.tail, depth)))
        return [found]

    def _placed(self, parts: list[_Part], depth: int) -> list[_Piece]:
        # Each time that they are met: the same chunk may be there a thousand times.
        self._count(len(parts))
        pieces: list[_Piece] = []
        for part in parts:
            if type(part) is _Opened:
                pieces += self._pieces(part, depth + 1)
            else:
                pieces.append(cast("bytes", part))
        return pieces

    def _segments(self, leaves: list[Entry], depth: int) -> Iterator[_Group | tuple[int, list[_Piece]]]:
        # With what is said of each run, not only its hash: it was compared with the run when that was read.
        groups = [(nodes.pack_entries(group), group) for group in _grouped(leaves)]
        # All that is missing is one question.
        runs = self._runs(
            [leaf for name, group in groups if name not in self._groups for leaf in group], depth
        )
        for name, group in groups:
            known = self._groups.get(name)
            if known is None:
                count, pieces = sum([leaf.count for leaf in group]), self._between(group, runs, depth)
                if any(type(runs[leaf.hash]) is list for leaf in group):
                    yield count, pieces
                    continue
                known = self._groups[name] = _Group(cast("list[_Bytes]", pieces), count)
            self._groups.move_to_end(name)
            yield known

    def _between(
        self, leaves: list[Entry], runs: Mapping[ChunkHash, memoryview | list[_Part]], depth: int
    ) -> list[_Piece]:
        """The items of runs, as they are."""
        pieces: list[_Piece] = []
        for leaf in leaves:
            run = runs[leaf.hash]
            if isinstance(run, memoryview):
                pieces.append(run)
            else:
                pieces += self._placed(run, depth)
        return pieces

    def _runs(self, leaves: list[Entry], depth: int) -> dict[ChunkHash, memoryview | list[_Part]]:
        """What is in these runs, each of which is as large as its entry says."""
        runs: dict[ChunkHash, memoryview | list[_Part]] = {}
        sizes: dict[ChunkHash, int] = {}
        for leaf, chunk in self._chunks(leaves):
            if chunk is not None:
                kind, body = (chunk[0] if chunk else 0), memoryview(chunk)[1:]
                _check(kind in (nodes.LEAF, nodes.MIXED))
                if kind == nodes.LEAF:
                    runs[leaf.hash], sizes[leaf.hash] = body, len(body)
                else:
                    runs[leaf.hash], sizes[leaf.hash] = self._open_parts(nodes.parse_parts(body), depth)
            _check(sizes[leaf.hash] == leaf.size)
        return runs

    def _leaves(self, node: Node) -> list[Entry]:
        """The runs of a node, from left to right."""
        leaves: list[Entry] = []
        height = len(node.levels)
        for above, level in enumerate(node.levels):
            entries = level
            self._count(len(entries))
            for _ in range(height - 1 - above):
                entries = self._under(entries)
            leaves += entries
        return leaves

    def _under(self, entries: list[Entry]) -> list[Entry]:
        under: list[Entry] = []
        known: dict[ChunkHash, list[Entry]] = {}
        for entry, chunk in self._chunks(entries):
            if chunk is not None:
                _check(bool(chunk) and chunk[0] == nodes.INDEX)
                known[entry.hash] = nodes.parse_entries(memoryview(chunk)[1:])
            held = known[entry.hash]
            _check(sum([each.size for each in held]) == entry.size)
            # One index after the other: the same one may be there a thousand times.
            self._count(len(held))
            under += held
        return under

    def _chunks(self, entries: list[Entry]) -> Iterator[tuple[Entry, bytes | None]]:
        """Entries with their chunks, one at a time; None for a chunk that was given before."""
        given: set[ChunkHash] = set()
        names = list(dict.fromkeys([entry.hash for entry in entries]))
        windows = (names[start : start + _AT_ONCE] for start in range(0, len(names), _AT_ONCE))
        found: Mapping[ChunkHash, bytes] = {}
        ahead: set[ChunkHash] = set()
        for entry in entries:
            name = entry.hash
            if name in given:
                yield entry, None
                continue
            if name not in ahead:
                window = next(windows)
                ahead, found = set(window), self._read(window)
            given.add(name)
            yield entry, checked(name, found)

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
        held: list[_Bytes] = [wire.array_header(1 + len(piece.segments)), ormsgpack.packb(piece.count)]
        for segment in piece.segments:
            if type(segment) is _Group:
                held.append(ormsgpack.packb(len(groups)))
                groups.append(segment)
            else:
                count, between = cast("tuple[int, list[_Piece]]", segment)
                items = [wire.array_header(count), *_marked(between, groups)]
                held += _record(_BETWEEN_OPENING, items)
        yield from _record(_LIST_OPENING, held)


def _record(opening: bytes, data: list[_Bytes]) -> list[_Bytes]:
    size = len(opening) + sum(map(len, data)) + len(_CLOSING)
    return [wire.extension_header(wire.RECORD, size), opening, *data, _CLOSING]


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
