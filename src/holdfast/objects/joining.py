"""A tree of chunks back to the encoded state: parts are fetched level by level and put where they were cut out.

Every chunk is checked against its hash, and every part against the size its parent says it has, before anything is
put together: bytes made for the purpose cannot make a small store unfold into an endless state.
"""

from __future__ import annotations

from typing import Final, cast

from holdfast.errors import ErrorCode, StateError, UnsupportedError
from holdfast.objects import nodes
from holdfast.objects.nodes import Entry, MalformedNodeError, Node, Parts
from holdfast.objects.verified import Read, read_chunk, read_chunks
from holdfast.record import Record
from holdfast.storage.records import ChunkHash

MAX_NODE_DEPTH: Final = 64
"""Nodes lie at most 32 deep in each other; what is read may be a little more."""
_FEW_PIECES: Final = 10_000
_PIECE_BYTES: Final = 16
_MAX_ROUNDS: Final = 200
"""Nodes lie at most 64 deep in each other, and an index over 4 GiB has few levels."""


class _Ref(Record):
    """A part that has not been fetched: the chunk, and how many levels of index lie under it."""

    entry: Entry
    level: int


_Piece = bytes | memoryview | _Ref


def join_state(root: ChunkHash, read: Read) -> list[bytes | memoryview]:
    """The encoded state under `root`, in pieces from left to right: who decodes it puts them together, once.

    Raises:
        IntegrityError: A chunk is missing or damaged.
        StateError: The chunks are what their hashes say, but no state (`decode-failed`).
        UnsupportedError: A newer version of holdfast wrote it.
    """
    try:
        start = open_root(root, read)
        return _node_bytes(start, read) if isinstance(start, Node) else [start]
    except MalformedNodeError as error:
        raise not_a_state(root, error) from error


def open_root(root: ChunkHash, read: Read) -> Node | memoryview:
    """The node that a state is, or its encoded bytes where it is small."""
    data = memoryview(read_chunk(root, read))
    kind = data[0] if data else 0
    if kind == nodes.WHOLE:
        return data[1:]
    if kind != nodes.TREE:
        raise UnsupportedError(
            f"chunk {root.hex()} is of a kind that this version does not know",
            code=ErrorCode.FORMAT_TOO_NEW,
            hint="upgrade holdfast: the state was saved by a newer version",
            chunk=root.hex(),
        )
    return nodes.parse_node(data[1:])


def join_node(node: Node, read: Read) -> bytes:
    """The encoded bytes of the value that a node stands for."""
    return b"".join(_node_bytes(node, read))


def _node_bytes(node: Node, read: Read) -> list[bytes | memoryview]:
    return _fetched(node_pieces(node), node.size, read)


def not_a_state(root: ChunkHash, error: Exception) -> StateError:
    """The error for chunks that hash right and say nothing."""
    return StateError(
        f"the chunks under {root.hex()} are no state: {error}",
        code=ErrorCode.DECODE_FAILED,
        hint="the store was written by something else than holdfast; load another checkpoint",
        chunk=root.hex(),
    )


def node_pieces(node: Node, depth: int = 0) -> list[_Piece]:
    """The parts of a node from left to right, fetched or not, with the sizes checked."""
    _check(depth <= MAX_NODE_DEPTH, "nodes in nodes without end")
    pieces: list[_Piece] = [node.header()]
    level = len(node.levels)
    for entries in node.levels:
        level -= 1
        pieces += [_Ref(entry, level) for entry in entries]
    pieces += _part_pieces(node.tail, depth)
    size = _size_of(pieces)
    _check(size == node.size, f"parts of {size} bytes in a node of {node.size}")
    return pieces


def _size_of(pieces: list[_Piece]) -> int:
    return sum([piece.entry.size if type(piece) is _Ref else len(piece) for piece in pieces])


def _check(fits: bool, why: str) -> None:  # noqa: FBT001 - reads as what it is
    if not fits:
        raise MalformedNodeError(why)


def _part_pieces(parts: Parts, depth: int) -> list[_Piece]:
    pieces: list[_Piece] = []
    for position, part in enumerate(parts):
        if position % 2:
            pieces += node_pieces(nodes.parse_node(part), depth + 1)
        else:
            pieces.append(part)
    return pieces


def _fetched(pieces: list[_Piece], size: int, read: Read) -> list[bytes | memoryview]:
    for _ in range(_MAX_ROUNDS):
        names = [piece.entry.hash for piece in pieces if type(piece) is _Ref]
        if not names:
            return cast("list[bytes | memoryview]", pieces)
        found = read_chunks(names, read)
        opened: list[_Piece] = []
        for piece in pieces:
            if type(piece) is _Ref:
                opened += _opened(piece, found[piece.entry.hash])
            else:
                opened.append(piece)
        pieces = opened
        # A run has many bytes: a state with nearly as many parts as bytes was made to fill the memory.
        _check(len(pieces) <= _FEW_PIECES + size // _PIECE_BYTES, f"{len(pieces)} parts in {size} bytes")
    raise MalformedNodeError("a tree that does not end")


def _opened(ref: _Ref, chunk: bytes) -> list[_Piece]:
    level, expected = ref.level, ref.entry.size
    kind, body = (chunk[0] if chunk else 0), memoryview(chunk)[1:]
    pieces: list[_Piece]
    if level == 0 and kind == nodes.LEAF:
        # Nearly all of them are this.
        pieces, size = [body], len(body)
    else:
        if level == 0 and kind == nodes.MIXED:
            pieces = _part_pieces(nodes.parse_parts(body), 0)
        elif level > 0 and kind == nodes.INDEX:
            pieces = [_Ref(entry, level - 1) for entry in nodes.parse_entries(body)]
        else:
            raise MalformedNodeError(f"a chunk of kind {kind} at level {level}")
        size = _size_of(pieces)
    if size != expected:
        # Not through `_check`: the words alone would take a tenth of the time.
        raise MalformedNodeError(f"{size} bytes under an entry of {expected}")
    return pieces
