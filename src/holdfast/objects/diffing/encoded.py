"""A value as it is encoded, opened one level at a time.

Nothing is decoded to be compared: the encoding is canonical, so two values are the same, types and order included, if
their bytes are. `open_value` gives the parts of a container as encoded values of their own; what two containers must
have in common to be compared part by part is their `frame`.
"""

from __future__ import annotations

from typing import Any, Final

import ormsgpack

from holdfast.objects import wire
from holdfast.objects.diffing.scanning import ARRAY, EXTENSION, MAP, Ends, children, head, scan
from holdfast.objects.nodes import MalformedNodeError, Node, parse_node
from holdfast.record import Record

# What an opened value is; also how its parts are addressed.
LIST: Final = "list"
DICT: Final = "dict"
PAIRS: Final = "pairs"
SET: Final = "set"
RECORD: Final = "record"

_MAPPINGS: Final = {wire.PAIRS: 0, wire.ORDEREDDICT: 0, wire.COUNTER: 0, wire.DEFAULTDICT: 1}
_ROWS: Final = {wire.TUPLE: 0, wire.DEQUE: 1}
_SETS: Final = (wire.SET, wire.FROZENSET)
_TEXT_MARKS: Final = frozenset((*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB))
_BYTES_MARKS: Final = frozenset((0xC4, 0xC5, 0xC6))

_C_FAILED: Final = (ValueError, TypeError, RecursionError)
"""What ormsgpack raises where a value is too deep for it, or is none."""


class Encoded:
    """The bytes of one value."""

    __slots__ = ("_ends", "_offset", "_pairs", "data")

    def __init__(self, data: bytes, ends: Ends | None = None, offset: int = 0) -> None:
        self.data = data
        # Known once the value, or one around it, was scanned: the table of that one, and where this one is in it.
        self._ends = ends
        self._offset = offset
        self._pairs: tuple[list[str], list[Encoded]] | None = None

    @property
    def token(self) -> bytes:
        """What is equal exactly where values are."""
        return self.data

    def parts(self) -> list[Encoded]:
        """The values in an array."""
        if self._ends is None:
            try:
                return [Encoded(part) for part in _list_in_c(self.data)]
            except _C_FAILED:
                self._ends, self._offset = scan(self.data), 0
        return self._scanned(self._ends)

    def pairs(self) -> tuple[list[str], list[Encoded]]:
        """The keys and the values of a map; not to be changed."""
        # Asked for twice by nearly everyone: who it is, and what is in it.
        if self._pairs is None:
            self._pairs = self._opened_pairs()
        return self._pairs

    def _opened_pairs(self) -> tuple[list[str], list[Encoded]]:
        if self._ends is None:
            try:
                keys, values = _map_in_c(self.data)
                return keys, [Encoded(part) for part in values]
            except _C_FAILED:
                self._ends, self._offset = scan(self.data), 0
        parts = self._scanned(self._ends)
        return [text_of(key) for key in parts[::2]], parts[1::2]

    def _scanned(self, ends: Ends) -> list[Encoded]:
        offset, data = self._offset, self.data
        return [
            Encoded(data[start:stop], ends, offset + start) for start, stop in children(data, ends, offset)
        ]


class Large:
    """A value that is a tree of its own: the bytes of its node, which are equal exactly where values are."""

    __slots__ = ("_node", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._node: Node | None = None

    @property
    def token(self) -> tuple[str, bytes]:
        """What is equal exactly where values are."""
        return "node", self.data

    @property
    def node(self) -> Node:
        """The node, taken apart."""
        if self._node is None:
            self._node = parse_node(self.data)
        return self._node


Value = Encoded | Large


class Opened(Record):
    """One level of a container."""

    shape: str
    frame: tuple[Any, ...]
    """What must be the same for two of them to be compared part by part: the code, and what is no part."""
    values: list[Encoded]
    keys: list[Any] = []  # noqa: RUF012 - never changed
    """Of a dict or record: texts. Of other mappings: encoded keys."""
    extra: Encoded | None = None
    """Of a record: what its class keeps beside the fields."""


def open_value(value: Encoded) -> Opened | None:
    """The parts of a container; None for everything that is compared as a whole."""
    data = value.data
    kind, _, content = head(data, 0)
    if kind == ARRAY:
        return Opened(LIST, (LIST,), value.parts())
    if kind == MAP:
        keys, values = value.pairs()
        return Opened(DICT, (DICT,), values, keys)
    return _open_extension(data, content) if kind == EXTENSION else None


def _open_extension(data: bytes, content: int) -> Opened | None:
    code = int.from_bytes(data[content - 1 : content], "big", signed=True)
    if code == wire.RECORD:
        return _open_record(data[content:])
    if code in _SETS:
        return Opened(SET, (code,), _items(data[content:]))
    # Some have an item that belongs to none of their parts: the factory of a defaultdict, the limit of a deque.
    skip = _MAPPINGS.get(code, _ROWS.get(code))
    if skip is None:
        return None
    items = _items(data[content:])
    frame, items = (code, *(each.data for each in items[:skip])), items[skip:]
    if code in _ROWS:
        return Opened(LIST, frame, items)
    return Opened(PAIRS, frame, items[1::2], [each.data for each in items[::2]])


def _open_record(payload: bytes) -> Opened | None:
    items = _items(payload)
    if len(items) != 4:
        raise MalformedNodeError("a record without name and version")
    name, version, data, extra = items
    if head(data.data, 0)[0] != MAP:
        return None
    keys, values = data.pairs()
    return Opened(RECORD, (wire.RECORD, name.data, version.data), values, keys, extra)


def _items(payload: bytes) -> list[Encoded]:
    if head(payload, 0)[0] != ARRAY:
        raise MalformedNodeError("an extension that holds no array")
    return Encoded(payload).parts()


def text_of(key: Encoded) -> str:
    """The text that a key is."""
    kind, size, content = head(key.data, 0)
    if not is_text(key) or content + size != len(key.data):
        raise MalformedNodeError(f"a map key that is no text, but {kind}")
    try:
        return str(key.data[content:], "utf-8")
    except UnicodeDecodeError as error:
        raise MalformedNodeError("text that is not UTF-8") from error


def is_text(value: Encoded) -> bool:
    """Whether it is a text, without half a surrogate pair in it."""
    return value.data[0] in _TEXT_MARKS


def is_bytes(value: Encoded) -> bool:
    """Whether it is bytes."""
    return value.data[0] in _BYTES_MARKS


# Taken apart in C, but for extensions, and the parts packed again: ten times as fast as scanning.


def _list_in_c(data: bytes) -> list[bytes]:
    found = ormsgpack.unpackb(data, ext_hook=ormsgpack.Ext)
    if type(found) is not list:
        raise ValueError("no array")
    parts = list(map(ormsgpack.packb, found))
    if len(wire.array_header(len(parts))) + sum(map(len, parts)) != len(data):
        # Bytes after the end, a number that is longer than it need be: not ours.
        raise ValueError("not canonical")
    return parts


def _map_in_c(data: bytes) -> tuple[list[str], list[bytes]]:
    found = ormsgpack.unpackb(data, ext_hook=ormsgpack.Ext)
    # A key that is there twice would be lost, too.
    if type(found) is not dict or ormsgpack.packb(found) != data:
        raise ValueError("not canonical")
    return list(found), list(map(ormsgpack.packb, found.values()))
