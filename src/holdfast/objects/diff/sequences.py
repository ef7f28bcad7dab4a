"""Where two lists or dicts differ, item by item, reading only what does.

A list or dict is a sequence of pieces: the entries of its node, highest level first, and the run at its end. Entries
that both sides have in the same order are dropped; of those that are left, the highest are replaced by what they stand
for, and so on down, until only runs are left that differ. Each round is one read for both sides and all places at once.
In those runs equal items are dropped, too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import chain, repeat, zip_longest
from typing import Any, Final

from holdfast.objects.codec import msgpack
from holdfast.objects.diff.alignment import unlike
from holdfast.objects.diff.encoded_value import Encoded, Large, Value, open_value
from holdfast.objects.tree import nodes
from holdfast.objects.tree.nodes import MalformedNodeError, Parts
from holdfast.objects.tree.read import Read, read_chunks
from holdfast.record import Record
from holdfast.storage.records import ChunkHash

_AT_HAND: Final = -1
_STAND_IN: Final = msgpack.extension_header(127, 4)
"""An extension that never is in a state: it holds the place of a node while the run around it is opened."""


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
    """The value that a run is all of, where it was never cut: it may have been opened before."""


_Pieces = list[_Piece]


def differing(old: Value, new: Value, kind: int, read: Read) -> list[Stretch]:
    """The stretches in which two lists (or two dicts, by `kind`) differ, in order."""
    if isinstance(old, Encoded) and isinstance(new, Encoded):
        before, after = open_value(old), open_value(new)
        assert before is not None
        assert after is not None
        return unequal(before.values, after.values, before.keys, after.keys)
    windows = _unmatched(_sequence(old), _sequence(new))
    while any(_is_unread(side) for window in windows for side in window):
        tops = [_top(chain(*window)) for window in windows]
        chunks = _read(
            (
                piece
                for window, top in zip(windows, tops, strict=True)
                for piece in chain(*window)
                if piece.level == top
            ),
            read,
        )
        windows = [
            each
            for (before, after), top in zip(windows, tops, strict=True)
            for each in _unmatched(_opened(before, top, chunks), _opened(after, top, chunks))
        ]
    return [
        stretch
        for before, after in windows
        for stretch in _Row.of(before, kind).stretches(_Row.of(after, kind))
    ]


def unequal(
    old: Sequence[Value], new: Sequence[Value], old_keys: Sequence[Any] = (), new_keys: Sequence[Any] = ()
) -> list[Stretch]:
    """The stretches in which two rows of values differ that are all at hand; of mappings, with their keys."""
    before, after = (
        _Row(values, keys or None, range(len(values))) for values, keys in ((old, old_keys), (new, new_keys))
    )
    return list(before.stretches(after))


def all_items(value: Value, kind: int, read: Read) -> list[Item]:
    """Every item of a list, or every pair of a dict."""
    return items_between(value, 0, 1 << 62, read, kind)


def items_between(value: Value, start: int, stop: int, read: Read, kind: int = nodes.LIST) -> list[Item]:
    """The items from one position to another; runs beside them are not read."""

    def within(pieces: _Pieces) -> _Pieces:
        return [piece for piece in pieces if piece.at < stop and piece.at + piece.length > start]

    pieces = within(_sequence(value))
    while _is_unread(pieces):
        top = _top(pieces)
        chunks = _read((piece for piece in pieces if piece.level == top), read)
        pieces = within(_opened(pieces, top, chunks))
    return [item for item in _Row.of(pieces, kind).items() if start <= item.at < stop]


def items_at_hand(value: Large) -> list[Item]:
    """The items at the end of a list or dict, which stand in its node and need no reading."""
    last = _sequence(value)[-1:]
    return [] if _is_unread(last) else _Row.of(last, value.node.kind).items()


def _is_unread(pieces: _Pieces) -> bool:
    return any(piece.level != _AT_HAND for piece in pieces)


def _sequence(value: Value) -> _Pieces:
    if isinstance(value, Encoded):
        # Small, so it stands whole; the bytes after its header are a run like any other.
        _, count, content = value.head()
        return [_run([value.data[content:]], count, 0)._replace(whole=value)]
    pieces: _Pieces = []
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


def _unmatched(old: _Pieces, new: _Pieces) -> list[tuple[_Pieces, _Pieces]]:
    """What is left of both sides between the pieces that they have in common."""
    return [
        (old[old_start:old_stop], new[new_start:new_stop])
        for old_start, old_stop, new_start, new_stop in unlike(
            [piece.token for piece in old], [piece.token for piece in new]
        )
    ]


def _top(pieces: Iterable[_Piece]) -> int:
    """The level of the highest; they are what is opened next."""
    return max((piece.level for piece in pieces), default=_AT_HAND)


def _read(pieces: Iterable[_Piece], read: Read) -> Any:
    return read_chunks([ChunkHash(p.token) for p in pieces if p.level != _AT_HAND], read)  # type: ignore[arg-type]


def _opened(pieces: _Pieces, top: int, chunks: Any) -> _Pieces:
    """The same, with what is at that level replaced by what is under it."""
    found: _Pieces = []
    for piece in pieces:
        if piece.level != top or top == _AT_HAND:
            found.append(piece)
        elif top:
            found += _entries(piece, chunks[piece.token])
        else:
            found.append(_run(nodes.parse_leaf(chunks[piece.token]), piece.length, piece.at))
    return found


def _entries(index: _Piece, chunk: bytes) -> Iterator[_Piece]:
    if chunk[:1] != bytes((nodes.INDEX,)):
        raise MalformedNodeError(f"no index at level {index.level}")
    at = index.at
    for entry in nodes.parse_entries(memoryview(chunk)[1:]):
        yield _Piece(entry.hash, entry.count, at, index.level - 1, [])
        at += entry.count
    if at - index.at != index.length:
        raise MalformedNodeError("an index that does not hold what it says")


class _Row:
    """Items that follow each other, each as a token until it is asked for."""

    def __init__(self, values: Sequence[Value], keys: Sequence[Any] | None, starts: Sequence[int]) -> None:
        self._values = values
        self._keys = keys
        self._starts = starts
        self.tokens: list[Hashable] = [value.token for value in values]
        if keys is not None:
            self.tokens = list(zip(keys, self.tokens, strict=True))

    @classmethod
    def of(cls, runs: _Pieces, kind: int) -> _Row:
        """The items of runs that follow each other."""
        values: list[Value] = []
        keys: list[str] | None = None if kind == nodes.LIST else []
        starts: list[int] = []
        for run in runs:
            inside = _run_value(run, kind).inside()
            values += [_placed(value, run.parts) for value in inside.values]
            starts += range(run.at, run.at + len(inside.values))
            if keys is not None:
                keys += inside.keys
        return cls(values, keys, starts)

    def items(self, start: int = 0, stop: int | None = None) -> list[Item]:
        """Some of the items."""
        keys = repeat(None) if self._keys is None else self._keys[start:stop]
        values = self._values[start:stop]
        return [Item(*each) for each in zip(self._starts[start:stop], values, keys, strict=False)]

    def stretches(self, new: _Row) -> Iterator[Stretch]:
        """Where another one has other items."""
        for old_start, old_stop, new_start, new_stop in unlike(self.tokens, new.tokens):
            yield Stretch(self.items(old_start, old_stop), new.items(new_start, new_stop))


def _run_value(run: _Piece, kind: int) -> Encoded:
    """A run as a list or dict of its own, with a number in the place of each node."""
    if run.whole is not None:
        return run.whole
    standing = (_STAND_IN + number.to_bytes(4, "big") for number in range(len(run.parts) // 2))
    literal = b"".join(chain.from_iterable(zip_longest(run.parts[::2], standing, fillvalue=b"")))
    return Encoded(nodes.header(kind, run.length) + literal)


def _placed(value: Encoded, parts: Parts) -> Value:
    """The value, or the node that it holds the place of."""
    if len(parts) == 1 or not value.data.startswith(_STAND_IN):
        return value
    number = 2 * int.from_bytes(value.data[len(_STAND_IN) :], "big") + 1
    if number >= len(parts):
        raise MalformedNodeError("a mark that is not for states")
    return Large(parts[number])
