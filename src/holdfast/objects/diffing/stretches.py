"""Where two lists or dicts differ, item by item.

Runs that both sides have were never read (see `pieces`). In those that are left equal items are dropped, too: a stretch
has only items of which the other side has none like it in the same place.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import chain, repeat, zip_longest
from typing import Any, Final

from holdfast.objects.codec import msgpack
from holdfast.objects.diffing.aligning import unlike
from holdfast.objects.diffing.encoded import Encoded, Large, Value, open_alike
from holdfast.objects.diffing.pieces import (
    Piece,
    all_pieces,
    differing_pieces,
    last_at_hand,
    pieces_between,
)
from holdfast.objects.tree import nodes
from holdfast.objects.tree.nodes import MalformedNodeError, Parts
from holdfast.objects.tree.read import Read
from holdfast.record import Record

_STAND_IN_CODE: Final = 127
"""An extension that never is in a state: it holds the place of a node while the run around it is opened."""
_STAND_IN: Final = msgpack.extension_header(_STAND_IN_CODE, 4)


class Item(Record):
    """An item of a list, or a pair of a dict."""

    at: int
    value: Value
    key: Any = None


class Stretch(Record):
    """Items that stand between two parts which both sides have."""

    old: list[Item]
    new: list[Item]


def differing(old: Value, new: Value, kind: int, read: Read) -> list[Stretch]:
    """The stretches in which two lists (or two dicts, by `kind`) differ, in order."""
    if isinstance(old, Encoded) and isinstance(new, Encoded):
        before, after = open_alike(old, new)
        assert before is not None
        assert after is not None
        return unequal(before.values, after.values, before.keys, after.keys)
    return [
        stretch
        for before, after in differing_pieces(old, new, read)
        for stretch in _Row.of_runs(before, kind).stretches(_Row.of_runs(after, kind))
    ]


def unequal(
    old: Sequence[Value], new: Sequence[Value], old_keys: Sequence[Any] = (), new_keys: Sequence[Any] = ()
) -> list[Stretch]:
    """The stretches in which two rows of values differ that are all at hand; of mappings, with their keys."""
    before, after = (
        _Row(values, keys or None, range(len(values))) for values, keys in ((old, old_keys), (new, new_keys))
    )
    return list(before.stretches(after))


def differing_bytes(old: Large, new: Large, read: Read) -> list[tuple[int, bytes, int, bytes]]:
    """Where two values differ that are cut without regard to what is in them: offset and bytes of each side."""
    found = []
    # Where one side has nothing, it has it at the end of what both have before.
    shift = 0
    for before, after in differing_pieces(old, new, read):
        lost, gained = _joined(before), _joined(after)
        old_at = before[0].at if before else after[0].at - shift
        new_at = after[0].at if after else old_at + shift
        shift += len(gained) - len(lost)
        found.append((old_at, lost, new_at, gained))
    return found


def all_items(value: Value, kind: int, read: Read) -> list[Item]:
    """Every item of a list, or every pair of a dict."""
    return _Row.of_runs(all_pieces(value, read), kind).items()


def items_between(value: Value, start: int, stop: int, read: Read) -> list[Item]:
    """The items of a list from one position to another; runs beside them are not read."""
    pieces = pieces_between(value, start, stop, read)
    return [item for item in _Row.of_runs(pieces, nodes.LIST).items() if start <= item.at < stop]


def items_at_hand(value: Large) -> list[Item]:
    """The items at the end of a list or dict, which stand in its node and need no reading."""
    return _Row.of_runs(last_at_hand(value), value.node.kind).items()


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
    def of_runs(cls, runs: list[Piece], kind: int) -> _Row:
        """The items of runs that follow each other."""
        values: list[Value] = []
        keys: list[str] | None = None if kind == nodes.LIST else []
        starts: list[int] = []
        for run in runs:
            inside = _run_value(run, kind).inside()
            values += (
                [_placed(value, run.parts) for value in inside.values]
                if len(run.parts) > 1
                else inside.values
            )
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


def _run_value(run: Piece, kind: int) -> Encoded:
    """A run as a list or dict of its own, with a number in the place of each node."""
    if run.whole is not None:
        return run.whole
    standing = (_STAND_IN + number.to_bytes(4, "big") for number in range(len(run.parts) // 2))
    literal = b"".join(chain.from_iterable(zip_longest(run.parts[::2], standing, fillvalue=b"")))
    return Encoded(nodes.header(kind, run.length) + literal)


def _placed(value: Encoded, parts: Parts) -> Value:
    """The value, or the node that it holds the place of."""
    if not value.data.startswith(_STAND_IN):
        return value
    number = 2 * int.from_bytes(value.data[len(_STAND_IN) :], "big") + 1
    if number >= len(parts):
        raise MalformedNodeError("a mark that is not for states")
    return Large(parts[number])


def _joined(pieces: list[Piece]) -> bytes:
    return b"".join([part for piece in pieces for part in piece.parts])
