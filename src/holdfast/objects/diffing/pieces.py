"""Two sequences of chunks side by side: what has the same hash on both sides is never read.

A sequence begins as the entries of its node, highest level first, and the run at its end. Entries that both sides have
in the same order are dropped; of those that are left, the highest are replaced by what they stand for, and so on down,
until only runs are left that differ. Each round is one read for both sides and all places at once.

So what is read is what one of both sides has and the other has not. Nobody could do with less: a hash says nothing of
what is under it.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterable, Mapping
from itertools import accumulate, chain
from operator import gt
from typing import Final

from holdfast.objects.diffing.aligning import unlike
from holdfast.objects.diffing.encoded import Encoded, Large, Value
from holdfast.objects.tree import nodes
from holdfast.objects.tree.nodes import MalformedNodeError, Parts
from holdfast.objects.tree.read import Read, read_chunks
from holdfast.objects.tree.select import parts_of
from holdfast.record import Record
from holdfast.storage.records import ChunkHash

# The same as in `nodes`, read without making an object of each entry: an index has dozens, and most are dropped.
_ENTRY: Final = struct.Struct(">32sIQ")

_AT_HAND: Final = -1


class Piece(Record):
    """A chunk that was not read, or a run of items that is at hand."""

    token: Hashable
    """Equal where pieces are: the hash of the chunk, or the bytes of the run."""
    length: int
    at: int
    """Where its items begin."""
    level: int
    """How many levels of index lie under it."""
    parts: Parts
    """Of a run; a chunk has none."""
    whole: Encoded | None = None
    """The value that a run is all of, where it was never cut: it may have been opened before."""


Window = tuple[list[Piece], list[Piece]]
"""Pieces of both sides, between two that both have."""

_Chunks = Mapping[ChunkHash, bytes]


def differing_pieces(old: Value, new: Value, read: Read) -> list[Window]:
    """The runs in which two values of one kind differ."""
    windows = _unmatched((_sequence(old), _sequence(new)))
    while any(_is_unread(side) for window in windows for side in window):
        chunks = _read_tops(windows, read)
        windows = [each for window in windows for each in _narrowed(window, chunks)]
    return windows


def all_pieces(value: Value, read: Read) -> list[Piece]:
    """All runs of a value."""
    pieces = _sequence(value)
    while _is_unread(pieces):
        pieces = _one_level_down(pieces, read)
    return pieces


def pieces_between(value: Value, start: int, stop: int, read: Read) -> list[Piece]:
    """The runs that have the items from one position to another; those beside them are not read."""

    def within(pieces: list[Piece]) -> list[Piece]:
        return [piece for piece in pieces if piece.at < stop and piece.at + piece.length > start]

    pieces = within(_sequence(value))
    while _is_unread(pieces):
        pieces = within(_one_level_down(pieces, read))
    return pieces


def last_at_hand(value: Large) -> list[Piece]:
    """The run at the end of a value, which stands in its node and needs no reading; nothing where there is none."""
    last = _sequence(value)[-1:]
    return [] if _is_unread(last) else last


def _is_unread(pieces: list[Piece]) -> bool:
    return any(piece.level != _AT_HAND for piece in pieces)


def _sequence(value: Value) -> list[Piece]:
    if isinstance(value, Encoded):
        # Small, so it stands whole; the bytes after its header are a run like any other.
        _, count, content = value.head()
        return [_run([value.data[content:]], count, 0)._replace(whole=value)]
    pieces: list[Piece] = []
    node = value.node
    at, level = 0, len(node.levels)
    for entries in node.levels:
        level -= 1
        for entry in entries:
            pieces.append(Piece(entry.hash, entry.count, at, level, []))
            at += entry.count
    size = len(node.header()) + sum(entry.size for entries in node.levels for entry in entries)
    if len(node.tail) == 1 and size + len(node.tail[0]) != node.size:
        raise MalformedNodeError(f"parts of {size + len(node.tail[0])} bytes in a node of {node.size}")
    if any(node.tail):
        pieces.append(_run(node.tail, node.count - at, at))
    elif at != node.count:
        raise MalformedNodeError(f"{at} items in a node of {node.count}")
    return pieces


def _run(parts: Parts, length: int, at: int) -> Piece:
    return Piece(parts[0] if len(parts) == 1 else tuple(parts), length, at, _AT_HAND, parts)


def _unmatched(window: Window) -> list[Window]:
    """What is left of both sides between the pieces that they have in common."""
    old, new = window
    return [
        (old[old_start:old_stop], new[new_start:new_stop])
        for old_start, old_stop, new_start, new_stop in unlike(
            [piece.token for piece in old], [piece.token for piece in new]
        )
    ]


def _top(pieces: Iterable[Piece]) -> int:
    """The level of the highest; they are what is opened next."""
    return max((piece.level for piece in pieces), default=_AT_HAND)


def _read_tops(windows: list[Window], read: Read) -> _Chunks:
    names: list[ChunkHash] = []
    for window in windows:
        top = _top(chain(*window))
        if top != _AT_HAND:
            names += [ChunkHash(piece.token) for piece in chain(*window) if piece.level == top]  # type: ignore[arg-type]
    return read_chunks(names, read)


def _narrowed(window: Window, chunks: _Chunks) -> list[Window]:
    """What is left of a window when its highest entries are replaced by what is under them."""
    old, new = window
    top = _top(chain(old, new))
    if top > 0 and all(piece.level == top for piece in chain(old, new)):
        # What edits make of indexes: most of what is under them is the same, and no piece has to be made of it.
        before, after = _Entries(old, chunks), _Entries(new, chunks)
        return [
            (before.pieces(old_start, old_stop), after.pieces(new_start, new_stop))
            for old_start, old_stop, new_start, new_stop in unlike(before.names, after.names)
        ]
    return _unmatched((_opened(old, top, chunks), _opened(new, top, chunks)))


def _one_level_down(pieces: list[Piece], read: Read) -> list[Piece]:
    return _opened(pieces, _top(pieces), _read_tops([(pieces, [])], read))


def _opened(pieces: list[Piece], top: int, chunks: _Chunks) -> list[Piece]:
    """The same, with what is at that level replaced by what is under it."""
    found: list[Piece] = []
    for piece in pieces:
        if piece.level != top or top == _AT_HAND:
            found.append(piece)
        elif top:
            found += _Entries([piece], chunks).pieces(0, None)
        else:
            found.append(_run(parts_of(chunks[piece.token]), piece.length, piece.at))  # type: ignore[index]
    return found


class _Entries:
    """The entries of indexes of one level that follow each other."""

    def __init__(self, indexes: list[Piece], chunks: _Chunks) -> None:
        self.names: list[bytes] = []
        self._counts: list[int] = []
        self._starts: list[int] = []
        self._level = indexes[0].level - 1 if indexes else _AT_HAND
        for piece in indexes:
            self._add(piece, chunks[piece.token])  # type: ignore[index]

    def pieces(self, start: int, stop: int | None) -> list[Piece]:
        """Some of them as pieces."""
        some = slice(start, stop)
        columns = zip(self.names[some], self._counts[some], self._starts[some], strict=True)
        return [Piece(name, count, at, self._level, []) for name, count, at in columns]

    def _add(self, index: Piece, chunk: bytes) -> None:
        if len(chunk) <= 1 or chunk[0] != nodes.INDEX or (len(chunk) - 1) % _ENTRY.size:
            raise MalformedNodeError(f"no index at level {index.level}")
        names, counts, sizes = zip(*_ENTRY.iter_unpack(memoryview(chunk)[1:]), strict=True)
        if min(counts) <= 0 or any(map(gt, counts, sizes)):
            raise MalformedNodeError("an entry of nothing")
        *starts, end = accumulate(counts, initial=index.at)
        if end - index.at != index.length:
            raise MalformedNodeError("an index that does not hold what it says")
        self.names += names
        self._counts += counts
        self._starts += starts
