"""Reading chunks without trusting the place they come from.

Every chunk is hashed again on its way in and compared with the name it was asked by. What does not match is damage, and
is reported as such; it never reaches a decoder.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from operator import itemgetter
from typing import Final

from holdfast.errors import ErrorCode, IntegrityError, StateError, UnsupportedError
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.tree import nodes
from holdfast.objects.tree.chunk_cache import FoundChunks
from holdfast.objects.tree.nodes import Entry, MalformedNodeError, Node, Parts, refers
from holdfast.record import Record
from holdfast.storage.records import ChunkHash

Read = Callable[[Iterable[ChunkHash]], Mapping[ChunkHash, bytes]]
"""How chunks are fetched: `Reader.chunks` of a store."""


def read_chunks(hashes: Iterable[ChunkHash], read: Read) -> dict[ChunkHash, bytes]:
    """The plain bytes of all these chunks, each checked against its hash.

    Raises:
        IntegrityError: A chunk is not there (`chunk-missing`), or is not what its name says (`chunk-damaged`).
    """
    wanted = list(dict.fromkeys(hashes))
    found = read(wanted)
    return {name: checked(name, found) for name in wanted}


def read_chunk(name: ChunkHash, read: Read) -> bytes:
    """The plain bytes of one chunk, checked against its hash."""
    return checked(name, read([name]))


def fetch(names: Iterable[ChunkHash], read: Read) -> None:
    """Have chunks at hand for who reads each of them next: one question to the store instead of one for each.

    What is wrong with one of them shows when that is read for itself.
    """
    wanted = list(dict.fromkeys(names))
    found = read(wanted)
    for name in wanted:
        with suppress(IntegrityError):
            checked(name, found)


def checked(name: ChunkHash, found: Mapping[ChunkHash, bytes]) -> bytes:
    """The plain bytes of one of the chunks that were found, checked against its hash; see `read_chunks`."""
    if type(found) is not FoundChunks:
        return _as_named(name, found.get(name))
    known = found.known.get(name)
    if known is not None:
        # It was checked when it came in.
        return known
    data = _as_named(name, found.from_store(name))
    found.keep(name, data)
    return data


def _as_named(name: ChunkHash, data: bytes | None) -> bytes:
    if data is None:
        raise IntegrityError.chunk_missing(name)
    if hash_chunk(data) != name:
        raise IntegrityError.chunk_damaged(name, why="its bytes do not have this hash")
    return data


MAX_NODE_DEPTH: Final = 64
"""Nodes lie at most 32 deep in each other; what is read may be a little more."""
_FEW_PIECES: Final = 10_000
_PIECE_BYTES: Final = 16
_MAX_ROUNDS: Final = 200
"""Nodes lie at most 64 deep in each other, and an index over 4 GiB has few levels."""
_AT_ONCE: Final = 256
"""Chunks that are asked for together: one trip to a server for a few megabytes, and no more than that is held while it
is expanded."""
_UNDER_WAY: Final = 2
"""Questions that are asked before the first of them is looked at."""


class _Ref(Record):
    """A part that has not been fetched: the chunk, and how many levels of index lie under it."""

    entry: Entry
    level: int


_Piece = bytes | memoryview | _Ref

_Gap = tuple[int, int, _Ref]
"""Where a part that has not been fetched goes, how many were opened on the way to it, and the part."""

_Gaps = dict[ChunkHash, list[_Gap]]
"""By chunk: one that is missing in several places is asked for once."""


def join_state(root: ChunkHash, read: Read) -> list[bytes | memoryview]:
    """The encoded state under `root`, in pieces from left to right: who decodes it puts them together, once.

    Raises:
        IntegrityError: A chunk is missing or damaged.
        StateError: The chunks are what their hashes say, but no state (`decode-failed`).
        UnsupportedError: A newer version of holdfast wrote it.
    """
    try:
        start = open_root(root, read)
        return node_pieces(start, read) if isinstance(start, Node) else [start]
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
    return b"".join(node_pieces(node, read))


def node_pieces(node: Node, read: Read) -> list[bytes | memoryview]:
    """The same in pieces, from left to right.

    Raises:
        IntegrityError: A chunk is missing or damaged.
        MalformedNodeError: The parts do not fit together.
    """
    return _Placing(node, read).pieces()


def not_a_state(root: ChunkHash, error: Exception) -> StateError:
    """The error for chunks that hash right and say nothing."""
    return StateError(
        f"the chunks under {root.hex()} are no state: {error}",
        code=ErrorCode.DECODE_FAILED,
        hint="the store was written by something else than holdfast; load another checkpoint",
        chunk=root.hex(),
    )


def _parts_of(node: Node, depth: int = 0) -> list[_Piece]:
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
            pieces += _parts_of(nodes.parse_node(part), depth + 1)
        else:
            pieces.append(part)
    return pieces


class _Placing:
    """Puts the parts of one value where they belong."""

    def __init__(self, node: Node, read: Read) -> None:
        self._read = read
        self._placed: list[tuple[int, bytes | memoryview]] = []
        self._nodes: _Gaps = {}
        self._leaves: _Gaps = {}
        self._size = node.size
        self._parts = 0
        self._place(_parts_of(node), 0, 0)

    def pieces(self) -> list[bytes | memoryview]:
        """Fetch until nothing is left to fetch."""
        asked: deque[tuple[_Gaps, Mapping[ChunkHash, bytes]]] = deque()
        while self._nodes or self._leaves or asked:
            while len(asked) < _UNDER_WAY and (self._nodes or self._leaves):
                gaps = _some(self._nodes or self._leaves)
                asked.append((gaps, self._read(list(gaps))))
            self._fill(*asked.popleft())
        self._placed.sort(key=itemgetter(0))
        return [piece for _, piece in self._placed]

    def _fill(self, gaps: _Gaps, found: Mapping[ChunkHash, bytes]) -> None:
        """Put chunks where they belong, in the order in which they come."""
        for name in found:
            if name not in gaps:
                continue
            chunk = checked(name, found)
            for at, steps, ref in gaps.pop(name):
                if not ref.level and len(chunk) == 1 + ref.entry.size and chunk[0] == nodes.LEAF:
                    # Nearly all of them are this.
                    self._placed.append((at, memoryview(chunk)[1:]))
                else:
                    self._place(_opened(ref, chunk), at, steps)
        for name in gaps:
            # It did not come.
            checked(name, found)

    def _place(self, pieces: list[_Piece], at: int, steps: int) -> None:
        """Put these one after the other, from `at` on; their sizes have been checked."""
        _check(steps <= _MAX_ROUNDS, "a tree that does not end")
        # A run has many bytes: a state with nearly as many parts as bytes was made to fill the memory.
        self._parts += len(pieces) - 1
        if self._parts > _FEW_PIECES + self._size // _PIECE_BYTES:
            raise MalformedNodeError(f"{self._parts} parts in {self._size} bytes")
        for piece in pieces:
            if isinstance(piece, _Ref):
                gaps = self._nodes if piece.level else self._leaves
                gaps.setdefault(piece.entry.hash, []).append((at, steps + 1, piece))
                at += piece.entry.size
            else:
                self._placed.append((at, piece))
                at += len(piece)


def _some(gaps: _Gaps) -> _Gaps:
    """Some of them, which are taken out. All places of each: a chunk that is in a state over and over is read once."""
    return {key: gaps.pop(key) for key in list(islice(gaps, _AT_ONCE))}


def _opened(ref: _Ref, chunk: bytes) -> list[_Piece]:
    level, expected = ref.level, ref.entry.size
    kind, body = (chunk[0] if chunk else 0), memoryview(chunk)[1:]
    pieces: list[_Piece]
    if level == 0 and kind == nodes.LEAF:
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


def links(name: ChunkHash, data: bytes) -> list[ChunkHash]:
    """The chunks that this one refers to, each once.

    Raises:
        IntegrityError: These bytes are no chunk of a tree.
    """
    try:
        return list(dict.fromkeys(_links(data)))
    except MalformedNodeError as error:
        raise IntegrityError.chunk_damaged(name, why=str(error)) from error


def reachable(root: ChunkHash, read: Read) -> Iterator[ChunkHash]:
    """All chunks of the state with this root, each once, itself first; those that refer to others are read.

    Raises:
        IntegrityError: A chunk is missing or damaged.
    """
    seen = {root}
    to_do = [root]
    while to_do:
        name = to_do.pop()
        yield name
        found = [each for each in links(name, read_chunk(name, read)) if each not in seen]
        seen.update(found)
        to_do += found


def _links(chunk: bytes) -> Iterator[ChunkHash]:
    if not refers(chunk):
        return
    body = memoryview(chunk)[1:]
    inside: list[tuple[bytes | memoryview, int]] = []
    if chunk[0] == nodes.INDEX:
        yield from (entry.hash for entry in nodes.parse_entries(body))
    elif chunk[0] == nodes.MIXED:
        inside += [(part, 1) for part in nodes.parse_parts(body)[1::2]]
    elif chunk[0] == nodes.TREE:
        inside.append((body, 1))
    else:
        raise MalformedNodeError(f"a chunk of kind {chunk[0]}")
    while inside:
        data, depth = inside.pop()
        # Each level is a copy of what is in it: hostile bytes could hold nodes in nodes without end.
        if depth > MAX_NODE_DEPTH:
            raise MalformedNodeError("nodes in nodes without end")
        node = nodes.parse_node(data)
        yield from (entry.hash for level in node.levels for entry in level)
        inside += [(part, depth + 1) for part in node.tail[1::2]]
