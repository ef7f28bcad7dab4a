"""Where two sequences of runs differ: what has the same hash on both sides is never read.

A sequence begins as the entries of its node, highest level first, and the run at its end. Entries that both sides have
in the same order are dropped; of those that are left, the highest are replaced by what they stand for, and so on down,
until only runs are left that differ. Each round is one read for both sides and all places at once. In the end equal
items are dropped, too: a stretch has only items of which the other side has none like it in the same place.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable
from itertools import accumulate, chain, repeat, zip_longest
from operator import gt
from typing import Any, Final

from holdfast.objects import nodes, wire
from holdfast.objects.diffing.aligning import align, common_start, windows_between
from holdfast.objects.diffing.encoded import Encoded, Large, Value
from holdfast.objects.diffing.scanning import head
from holdfast.objects.nodes import MalformedNodeError, Parts
from holdfast.objects.selection import parts_of
from holdfast.objects.verified import Read, read_chunks
from holdfast.record import Record
from holdfast.storage.records import ChunkHash

_STAND_IN_CODE: Final = 127
"""An extension that never is in a state: it holds the place of a node while the run around it is opened."""
_STAND_IN: Final = wire.extension_header(_STAND_IN_CODE, 4)

# The same as in `nodes`, read without making an object of each entry: an index has dozens, and most are dropped.
_ENTRY: Final = struct.Struct(">32sIQ")

_AT_HAND: Final = -1


class Item(Record):
    """An item of a list, or a pair of a dict."""

    at: int
    value: Value
    key: Any = None


class Stretch(Record):
    """Items that stand between two parts which both sides have."""

    old: list[Item]
    new: list[Item]


class _Piece(Record):
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
    """The value that a run is all of, where it was never cut; what is known of its inside is known there."""


_Window = tuple[list[_Piece], list[_Piece]]


def differing(old: Value, new: Value, kind: int, read: Read) -> list[Stretch]:
    """The stretches in which two lists (or two dicts, by `kind`) differ, in order."""
    found: list[Stretch] = []
    for before, after in _differing_pieces(old, new, read):
        left, right = _Row(before, kind), _Row(after, kind)
        whole = (0, len(left.tokens), 0, len(right.tokens))
        for old_start, old_stop, new_start, new_stop in windows_between(
            align(left.tokens, right.tokens), whole
        ):
            found.append(Stretch(left.items(old_start, old_stop), right.items(new_start, new_stop)))
    return found


def unequal(old: list[Item], new: list[Item]) -> list[Stretch]:
    """The stretches in which two rows of items differ that are all at hand."""
    pairs = align(
        [(item.key, item.value.token) for item in old], [(item.key, item.value.token) for item in new]
    )
    return [
        Stretch(old[old_start:old_stop], new[new_start:new_stop])
        for old_start, old_stop, new_start, new_stop in windows_between(pairs, (0, len(old), 0, len(new)))
    ]


def differing_bytes(old: Large, new: Large, read: Read) -> list[tuple[int, bytes, int, bytes]]:
    """Where two values differ that are cut without regard to what is in them: offset and bytes of each side."""
    found = []
    # Where one side has nothing, it has it at the end of what both have before.
    shift = 0
    for before, after in _differing_pieces(old, new, read):
        lost, gained = _joined(before), _joined(after)
        old_at = before[0].at if before else after[0].at - shift
        new_at = after[0].at if after else old_at + shift
        shift += len(gained) - len(lost)
        found.append((old_at, lost, new_at, gained))
    return found


def all_items(value: Value, kind: int, read: Read) -> list[Item]:
    """Every item of a list, or every pair of a dict."""
    return _Row(_read_all(_sequence(value), read), kind).items()


def items_between(value: Value, start: int, stop: int, read: Read) -> list[Item]:
    """The items of a list from one position to another; runs beside them are not read."""

    def within(pieces: list[_Piece]) -> list[_Piece]:
        return [piece for piece in pieces if piece.at < stop and piece.at + piece.length > start]

    pieces = within(_sequence(value))
    while _is_unread(pieces):
        pieces = within(_expanded([(pieces, [])], read)[0][0])
    return [item for item in _Row(pieces, nodes.LIST).items() if start <= item.at < stop]


def items_at_hand(value: Large) -> list[Item]:
    """The items at the end of a list or dict, which stand in its node and need no reading."""
    last = _sequence(value)[-1:]
    return [] if _is_unread(last) else _Row(last, value.node.kind).items()


def _differing_pieces(old: Value, new: Value, read: Read) -> list[_Window]:
    both = (_sequence(old), _sequence(new))
    if isinstance(old, Encoded) and isinstance(new, Encoded):
        # One run against one; who asks knows that they differ.
        return [both]
    windows = _unmatched(both)
    while any(_is_unread(side) for window in windows for side in window):
        windows = [each for window in _expanded(windows, read) for each in _unmatched(window)]
    return windows


def _read_all(pieces: list[_Piece], read: Read) -> list[_Piece]:
    while _is_unread(pieces):
        pieces = _expanded([(pieces, [])], read)[0][0]
    return pieces


def _is_unread(pieces: list[_Piece]) -> bool:
    return any(piece.level != _AT_HAND for piece in pieces)


def _sequence(value: Value) -> list[_Piece]:
    if isinstance(value, Encoded):
        # Small, so it stands whole; the bytes after its header are a run like any other.
        _, count, content = head(value.data, 0)
        return [_run([value.data[content:]], count, 0)._replace(whole=value)]
    pieces: list[_Piece] = []
    node = value.node
    at, level = 0, len(node.levels)
    for entries in node.levels:
        level -= 1
        for entry in entries:
            pieces.append(_Piece(entry.hash, entry.count, at, level, []))
            at += entry.count
    size = len(node.header()) + sum(entry.size for entries in node.levels for entry in entries)
    if len(node.tail) == 1 and size + len(node.tail[0]) != node.size:
        raise MalformedNodeError(f"parts of {size + len(node.tail[0])} bytes in a node of {node.size}")
    if any(node.tail):
        pieces.append(_run(node.tail, node.count - at, at))
    elif at != node.count:
        raise MalformedNodeError(f"{at} items in a node of {node.count}")
    return pieces


def _run(parts: Parts, length: int, at: int) -> _Piece:
    return _Piece(parts[0] if len(parts) == 1 else tuple(parts), length, at, _AT_HAND, parts)


def _unmatched(window: _Window) -> list[_Window]:
    """What is left of both sides between the pieces that they have in common."""
    old, new = window
    pairs = align([piece.token for piece in old], [piece.token for piece in new])
    return [
        (old[old_start:old_stop], new[new_start:new_stop])
        for old_start, old_stop, new_start, new_stop in windows_between(pairs, (0, len(old), 0, len(new)))
    ]


def _expanded(windows: list[_Window], read: Read) -> list[_Window]:
    """The same with the highest entries of each window replaced by what is under them."""
    tops = [max((piece.level for side in window for piece in side), default=_AT_HAND) for window in windows]
    names = [
        ChunkHash(piece.token)  # type: ignore[arg-type]
        for window, top in zip(windows, tops, strict=True)
        for piece in chain(*window)
        if piece.level == top != _AT_HAND
    ]
    chunks = read_chunks(names, read)

    def opened(pieces: list[_Piece], top: int) -> list[_Piece]:
        found: list[_Piece] = []
        for piece in pieces:
            if piece.level == top != _AT_HAND:
                found += _under(piece, chunks[piece.token])  # type: ignore[index]
            else:
                found.append(piece)
        return found

    return [
        _two_indexes(old[0], new[0], chunks)
        if len(old) == len(new) == 1 and old[0].level == new[0].level > 0
        else (opened(old, top), opened(new, top))
        for (old, new), top in zip(windows, tops, strict=True)
    ]


def _two_indexes(old: _Piece, new: _Piece, chunks: dict[ChunkHash, bytes]) -> _Window:
    """What an edit makes of an index: all entries but a few are the same, and need not even be looked at."""
    before, after = chunks[old.token], chunks[new.token]  # type: ignore[index]
    front = common_start(before[1:], after[1:]) // _ENTRY.size
    rest = front * _ENTRY.size + 1
    back = common_start(before[rest:][::-1], after[rest:][::-1]) // _ENTRY.size
    return _under(old, before, front, back), _under(new, after, front, back)


def _under(piece: _Piece, chunk: bytes, front: int = 0, back: int = 0) -> list[_Piece]:
    """The pieces of a chunk; of an index without so many entries at its beginning and end."""
    if piece.level == 0:
        return [_run(parts_of(chunk), piece.length, piece.at)]
    if not chunk or chunk[0] != nodes.INDEX or (len(chunk) - 1) % _ENTRY.size:
        raise MalformedNodeError(f"no index at level {piece.level}")
    names, counts, sizes = zip(*_ENTRY.iter_unpack(memoryview(chunk)[1:]), strict=True)
    if min(counts) <= 0 or any(map(gt, counts, sizes)):
        raise MalformedNodeError("an entry of nothing")
    *starts, end = accumulate(counts, initial=piece.at)
    if end - piece.at != piece.length:
        raise MalformedNodeError("an index that does not hold what it says")
    empty: Parts = []
    some = slice(front, len(names) - back)
    below = zip(names[some], counts[some], starts[some], repeat(piece.level - 1), repeat(empty), repeat(None))
    return list(map(_Piece._make, below))


class _Row:
    """The items of runs that follow each other."""

    def __init__(self, runs: list[_Piece], kind: int) -> None:
        self.values: list[Value] = []
        self.keys: list[str] | None = None if kind == nodes.LIST else []
        self._starts: list[int] = []
        for run in runs:
            values = self._opened(run, kind)
            self.values += values
            self._starts += range(run.at, run.at + len(values))
        self.tokens: list[Hashable] = [value.token for value in self.values]
        if self.keys is not None:
            self.tokens = list(zip(self.keys, self.tokens, strict=True))

    def items(self, start: int = 0, stop: int | None = None) -> list[Item]:
        """Some of the items."""
        keys = repeat(None) if self.keys is None else self.keys[start:stop]
        values = self.values[start:stop]
        return [Item(*each) for each in zip(self._starts[start:stop], values, keys, strict=False)]

    def _opened(self, run: _Piece, kind: int) -> list[Value]:
        standing = (_STAND_IN + number.to_bytes(4, "big") for number in range(len(run.parts) // 2))
        literal = b"".join(chain.from_iterable(zip_longest(run.parts[::2], standing, fillvalue=b"")))
        whole = run.whole or Encoded(nodes.header(kind, run.length) + literal)
        if self.keys is None:
            values = whole.parts()
        else:
            keys, values = whole.pairs()
            self.keys += keys
        return [_placed(value, run.parts) for value in values] if len(run.parts) > 1 else [*values]


def _placed(value: Encoded, parts: Parts) -> Value:
    """The value, or the node that it holds the place of."""
    if not value.data.startswith(_STAND_IN):
        return value
    number = 2 * int.from_bytes(value.data[len(_STAND_IN) :], "big") + 1
    if number >= len(parts):
        raise MalformedNodeError("a mark that is not for states")
    return Large(parts[number])


def _joined(pieces: list[_Piece]) -> bytes:
    return b"".join([part for piece in pieces for part in piece.parts])
