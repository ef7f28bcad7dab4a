"""The sides of a merge taken apart: trees item by item, everything else from its bytes.

What is a tree on one side may stand whole on another. Both are opened to the same parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeGuard

from holdfast.objects.codec import msgpack
from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.diffing.encoded import (
    DICT,
    LIST,
    PAIRS,
    RECORD,
    Encoded,
    Large,
    Opened,
    Value,
    is_text,
    may_have_id,
    open_alike,
    open_value,
)
from holdfast.objects.diffing.excerpts import first_piece
from holdfast.objects.diffing.scanning import ARRAY, EXTENSION, MAP
from holdfast.objects.diffing.stretches import all_items, items_at_hand
from holdfast.objects.merging import building
from holdfast.objects.tree import nodes
from holdfast.objects.tree.read import Read
from holdfast.record import Record

_NO_TYPES: Final = TypeRegistry()
_DICTS: Final = ((DICT,), (msgpack.PAIRS,))


class Parts(Record):
    """The three sides of a place, taken apart; a base that is not there has no parts."""

    base: Opened
    ours: Opened
    theirs: Opened


class Opening:
    """How values are opened.

    Args:
        read: How chunks are fetched.
    """

    def __init__(self, read: Read) -> None:
        self._read = read

    def three(self, base: Value | None, ours: Value, theirs: Value) -> Parts | None:
        """The three taken apart; None where they are not containers of one kind."""
        three = self.open([each for each in (base, ours, theirs) if each is not None])
        if all(each is not None and each.frame in _DICTS for each in three) and len({*_frames(three)}) > 1:
            # With one key that is no text, a dict is encoded in another way; it is still a dict.
            three = [each and _by_encoded_keys(each) for each in three]
        opened = [each for each in three if each is not None]
        if len(opened) < len(three) or len({*_frames(opened)}) > 1:
            return None
        first = opened[0]
        return Parts(*([] if base is not None else [Opened(first.shape, first.frame, [])]), *opened)

    def open(self, values: list[Value]) -> list[Opened | None]:
        """Each of them, opened so that their parts can be compared."""
        wholes = {at: self.whole(value) for at, value in enumerate(values) if not _is_tree(value)}
        opened = dict(zip(wholes, open_alike(*wholes.values()), strict=True))
        return [
            opened[at] if not _is_tree(value) else self._open_tree(value) for at, value in enumerate(values)
        ]

    def _open_tree(self, value: Large) -> Opened:
        items = all_items(value, value.node.kind, self._read)
        values: list[Any] = [item.value for item in items]
        if value.node.kind == nodes.LIST:
            return Opened(LIST, (LIST,), values)
        return Opened(DICT, (DICT,), values, [item.key for item in items])

    def whole(self, value: Value) -> Encoded:
        """The value with all its bytes."""
        # The same object where there is one: it knows what was found out when something around it was opened.
        return value if isinstance(value, Encoded) else Encoded(building.whole(value, self._read))

    def identity(self, value: Value) -> bytes | None:
        """The `id` of an item, where it has one that can tell it from others."""
        if isinstance(value, Large):
            # The end of a large dict is at hand, and is looked at before the rest is read.
            is_dict = value.node.kind == nodes.DICT
            found = [item.value for item in items_at_hand(value) if item.key == "id"] if is_dict else []
            if found:
                return _as_name(found[0])
        if not self._may_have_id(value):
            return None
        (opened,) = self.open([value])
        if opened is None or opened.shape not in (DICT, RECORD) or "id" not in opened.keys:
            return None
        return _as_name(opened.values[opened.keys.index("id")])

    def _may_have_id(self, value: Value) -> bool:
        """Whether it is worth reading; most long values are texts."""
        if _is_tree(value):
            return value.node.kind == nodes.DICT
        return may_have_id(value if isinstance(value, Encoded) else first_piece(value, self._read))

    def sort(self, value: Value) -> Any:
        """What a value is, as far as it matters to whoever looks at a conflict: its type."""
        if _is_tree(value):
            return list if value.node.kind == nodes.LIST else dict
        whole = self.whole(value)
        kind, _, content = whole.head()
        if kind == EXTENSION:
            opened = open_value(whole)
            return whole.data[content - 1], opened and opened.frame[:2]
        return list if kind == ARRAY else dict if kind == MAP else type(decode_value(whole.data, _NO_TYPES))


def _is_tree(value: Value) -> TypeGuard[Large]:
    """Whether it is a list or dict of which not all is at hand."""
    return isinstance(value, Large) and value.node.kind != nodes.RAW


def _frames(opened: Iterable[Opened | None]) -> Iterator[tuple[Any, ...]]:
    return (each.frame for each in opened if each is not None)


def _by_encoded_keys(opened: Opened) -> Opened:
    if opened.shape == PAIRS:
        return opened
    keys = [building.text_of(key).data for key in opened.keys]
    return Opened(PAIRS, (msgpack.PAIRS,), opened.values, keys)


def _as_name(value: Value) -> bytes | None:
    if not isinstance(value, Encoded):
        return None
    mark = value.mark
    is_number = mark < 0x80 or 0xCA <= mark <= 0xD3 or mark >= 0xE0
    return value.data if is_number or is_text(value) else None
