"""The bytes of a tree: what chunks hold, and how a large value stands in its parent.

An encoded state is one long byte string. Where a part of it is large, the part is cut out and a *node* stands in its
place: the kind of value, its size, and its content as a sequence of runs. A full run is a chunk of its own; the runs
at the right edge, which the next save is likely to change, stay inside the node (unless they are too large for it, see
`spilling`), one for each level of the index:

    [ kind, count, size, [ entries of level n, ..., entries of level 1 ], tail ]

Read from left to right that is the whole sequence: what lies under the highest entries comes first, the tail last. An
entry is 44 bytes: the hash of a chunk, and the items and encoded bytes under it. Putting the parts back in place gives
the encoded state again, byte for byte, so nothing above this needs to know that it was ever cut.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

import ormsgpack

from holdfast.objects.codec import msgpack
from holdfast.storage.records import ChunkHash

# The first byte of a chunk. Numbers are never reused.
WHOLE: Final = 1
"""A whole encoded state."""
TREE: Final = 2
"""A state that is a node."""
LEAF: Final = 3
"""A run of encoded items."""
MIXED: Final = 4
"""A run in which nodes stand for large items: literal bytes and nodes in turn."""
INDEX: Final = 5
"""Entries of the level below."""

LIST: Final = 0
DICT: Final = 1
RAW: Final = 2
"""A text, bytes or any other value, cut without regard to what is in it; its items are bytes."""

_ENTRY: Final = struct.Struct(">32sIQ")
ENTRY_SIZE: Final = _ENTRY.size

MAX_STATE_BYTES: Final = 1 << 30
"""The largest state, encoded: 1 GiB. A claim of more is damage or an attack."""

_MAX_LEVELS: Final = 40
"""Each level holds at least two of the one below, and a count has 32 bits."""

Parts = list[bytes]
"""Literal bytes and nodes in turn, beginning with literal bytes."""


class MalformedNodeError(Exception):
    """These bytes are no node or no chunk of a tree."""


# Not frozen, though nothing changes one: that would take three times as long to make, for each run of a state.
@dataclass(slots=True)
class Entry:
    """A chunk as its parent knows it."""

    hash: ChunkHash
    count: int
    """Items under it; for RAW, bytes."""
    size: int
    """Encoded bytes under it."""


@dataclass(slots=True)
class Node:
    """A large value, taken apart."""

    kind: int
    count: int
    size: int
    levels: list[list[Entry]]
    """The highest level first; the last one has the entries of leaves."""
    tail: Parts

    def pack(self) -> bytes:
        """The node as it stands in its parent."""
        levels = [pack_entries(level) for level in self.levels]
        return ormsgpack.packb([self.kind, self.count, self.size, levels, self.tail])

    def header(self) -> bytes:
        """The bytes that open the value, before its items."""
        return header(self.kind, self.count)


def header(kind: int, count: int) -> bytes:
    """The bytes that open a value of that kind, before its items."""
    if kind == LIST:
        return msgpack.array_header(count)
    return msgpack.map_header(count) if kind == DICT else b""


def parse_node(data: bytes | memoryview) -> Node:
    """The node that `Node.pack` made these bytes of.

    Raises:
        MalformedNodeError: They are none.
    """
    match _unpack(data):
        case [int(kind), int(count), int(size), list(levels), list(tail)] if kind in (LIST, DICT, RAW):
            pass
        case _:
            raise MalformedNodeError("no node")
    if len(levels) > _MAX_LEVELS:
        raise MalformedNodeError(f"an index of {len(levels)} levels")
    if not all(type(part) is bytes for part in tail) or not 0 <= count <= size <= MAX_STATE_BYTES:
        raise MalformedNodeError("a node with odd parts")
    return Node(kind, count, size, [parse_entries(level) for level in levels], tail)


def parse_entries(data: Any) -> list[Entry]:
    """The entries of a level, or of an index chunk."""
    if not isinstance(data, bytes | memoryview) or len(data) % ENTRY_SIZE:
        raise MalformedNodeError("an index of odd size")
    entries = [Entry(ChunkHash(name), count, size) for name, count, size in _ENTRY.iter_unpack(data)]
    # Entries of nothing could be piled up without end, and every sum would still be right.
    if not all(0 < entry.count <= entry.size for entry in entries):
        raise MalformedNodeError("an entry of nothing")
    return entries


def parse_parts(data: bytes | memoryview) -> Parts:
    """The literal bytes and nodes of a mixed leaf."""
    parts = _unpack(data)
    if type(parts) is not list or not all(type(part) is bytes for part in parts):
        raise MalformedNodeError("a mixed leaf with odd parts")
    return parts


def parse_leaf(chunk: bytes) -> Parts:
    """The parts of a leaf."""
    kind = chunk[0] if chunk else 0
    if kind == LEAF:
        return [chunk[1:]]
    if kind == MIXED:
        return parse_parts(memoryview(chunk)[1:])
    raise MalformedNodeError(f"a chunk of kind {kind} where a leaf should be")


def leaf_chunk(parts: Parts) -> bytes:
    """The chunk of a run: plain where no node stands in it."""
    if len(parts) == 1:
        return bytes((LEAF,)) + parts[0]
    return bytes((MIXED,)) + ormsgpack.packb(parts)


def index_chunk(entries: list[Entry]) -> bytes:
    """The chunk of a full index."""
    return bytes((INDEX,)) + pack_entries(entries)


def pack_entries(entries: list[Entry]) -> bytes:
    """The entries of a level as they stand in a node or an index."""
    pack = _ENTRY.pack
    return b"".join([pack(entry.hash, entry.count, entry.size) for entry in entries])


def _unpack(data: bytes | memoryview) -> Any:
    try:
        return ormsgpack.unpackb(data)
    except ValueError as error:
        raise MalformedNodeError(str(error)) from error


_ALONE = (WHOLE, LEAF)


def refers(data: bytes) -> bool:
    """Whether a chunk may refer to others."""
    return bool(data) and data[0] not in _ALONE
