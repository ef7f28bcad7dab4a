"""A value as it is encoded, opened one level at a time.

Nothing is decoded to be compared: the encoding is canonical, so two values are the same, types and order included, if
their bytes are. `open_value` gives the parts of a container as encoded values of their own; what two containers must
have in common to be compared part by part is their `frame`. `rebuild` is the way back.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final

import ormsgpack

from holdfast.objects.codec import msgpack
from holdfast.objects.tree.nodes import MalformedNodeError, Node, parse_node
from holdfast.record import Record

ARRAY: Final = "array"
MAP: Final = "map"
EXTENSION: Final = "extension"
SCALAR: Final = "scalar"

# What an opened value is; also how its parts are addressed.
LIST: Final = "list"
DICT: Final = "dict"
PAIRS: Final = "pairs"
SET: Final = "set"
RECORD: Final = "record"

NIL: Final = b"\xc0"
_ID: Final = b"\xa2id"
"""The key `id`, as it is encoded."""

_MAPPINGS: Final = {msgpack.PAIRS: 0, msgpack.ORDEREDDICT: 0, msgpack.COUNTER: 0, msgpack.DEFAULTDICT: 1}
_ROWS: Final = {msgpack.TUPLE: 0, msgpack.DEQUE: 1}
_SETS: Final = (msgpack.SET, msgpack.FROZENSET)

# First byte -> what it is, and how many bytes its length takes.
_SIZED: Final = {
    **{0xC4 + at: (SCALAR, 1 << at) for at in range(3)},
    **{0xC7 + at: (EXTENSION, 1 << at) for at in range(3)},
    **{0xD9 + at: (SCALAR, 1 << at) for at in range(3)},
    **{0xDC + at: (ARRAY, 2 << at) for at in range(2)},
    **{0xDE + at: (MAP, 2 << at) for at in range(2)},
}
_FIXED_EXTENSIONS: Final = {0xD4 + at: 1 << at for at in range(5)}
_TEXT_MARKS: Final = frozenset((*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB))
_BYTES_MARKS: Final = frozenset((0xC4, 0xC5, 0xC6))
_NUMBER_MARKS: Final = frozenset((*range(0x80), *range(0xCA, 0xD4), *range(0xE0, 0x100)))
_NAMED_MARKS: Final = frozenset((*range(0x80, 0x90), 0xDE, 0xDF, *range(0xC7, 0xCA), *range(0xD4, 0xD9)))


class Encoded:
    """The bytes of one value."""

    __slots__ = ("_inside", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._inside: Inside | None = None

    @property
    def token(self) -> Hashable:
        """Equal exactly where values are."""
        return self.data

    @property
    def mark(self) -> int:
        """Its first byte, which says what it is."""
        return self.data[0]

    @property
    def sort(self) -> str:
        """What it is, as far as likeness goes."""
        if self.mark in _TEXT_MARKS:
            return "text"
        if self.mark in _BYTES_MARKS:
            return "bytes"
        return "number" if self.mark in _NUMBER_MARKS else "other"

    @property
    def may_have_id(self) -> bool:
        """Whether it is a dict, or may be an object: told by its first byte, without opening it."""
        return self.mark in _NAMED_MARKS

    def head(self) -> tuple[str, int, int]:
        """Its kind, how many values or bytes it holds, and where in it these begin."""
        data = self.data
        if not data:
            raise MalformedNodeError("a value without bytes")
        mark = data[0]
        if mark in _SIZED:
            kind, width = _SIZED[mark]
            start = 1 + width
            return kind, int.from_bytes(data[1:start], "big"), start + (kind == EXTENSION)
        if mark in _FIXED_EXTENSIONS:
            return EXTENSION, _FIXED_EXTENSIONS[mark], 2
        if 0x80 <= mark < 0xA0:
            return (MAP if mark < 0x90 else ARRAY), mark & 0x0F, 1
        return SCALAR, len(data) - 1, 1

    def inside(self) -> Inside:
        """What is in an array or map, not to be changed."""
        if self._inside is None:
            self._inside = _open(self.data)
        return self._inside


class Large:
    """A value that is a tree of its own: the bytes of its node, which are equal exactly where values are."""

    __slots__ = ("_node", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._node: Node | None = None

    @property
    def token(self) -> Hashable:
        """Equal exactly where values are."""
        return "node", self.data

    @property
    def node(self) -> Node:
        """The node, taken apart."""
        if self._node is None:
            self._node = parse_node(self.data)
        return self._node


Value = Encoded | Large


class Inside(Record):
    """What is in an array or map."""

    values: list[Encoded]
    keys: list[str] = []  # noqa: RUF012 - never changed
    """Of a map."""


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
    kind, _, content = value.head()
    if kind == EXTENSION:
        return _open_extension(value.data, content)
    if kind not in (ARRAY, MAP):
        return None
    inside = value.inside()
    shape = LIST if kind == ARRAY else DICT
    return Opened(shape, (shape,), inside.values, inside.keys)


def rebuild(
    frame: tuple[Any, ...], values: Iterable[bytes], keys: Sequence[Any] = (), extra: bytes = NIL
) -> Encoded:
    """A container of the kind that was opened with that frame, from encoded parts."""
    parts = list(values)
    if frame == (LIST,):
        return Encoded(msgpack.array_header(len(parts)) + b"".join(parts))
    if frame[0] == msgpack.RECORD:
        code, name, version = frame
        fields = rebuild((DICT,), parts, keys)
        return _extension(code, [name, version, fields.data, extra])
    if frame[0] == msgpack.PAIRS and all(Encoded(key).mark in _TEXT_MARKS for key in keys):
        # A dict with text keys only has one encoding, and this is it.
        return Encoded(msgpack.map_header(len(parts)) + _joined(keys, parts))
    if frame == (DICT,):
        return Encoded(msgpack.map_header(len(parts)) + _joined(map(ormsgpack.packb, keys), parts))
    code, *first = frame
    if code in _MAPPINGS:
        parts = [part for pair in zip(keys, parts, strict=True) for part in pair]
    return _extension(code, [*first, *(sorted(parts) if code in _SETS else parts)])


def text_of(value: Encoded) -> str | None:
    """The text that a value is; None where it is something else, or holds half a surrogate pair."""
    return ormsgpack.unpackb(value.data) if value.mark in _TEXT_MARKS else None


def identity_of(value: Encoded) -> bytes | None:
    """The `id` of a dict or an object, where it has one that can tell it from others: a text or a number."""
    opened = open_value(value) if value.may_have_id and _ID in value.data else None
    return None if opened is None else identity_in(opened)


def identity_in(opened: Opened) -> bytes | None:
    """The same for a value that is open."""
    if opened.shape not in (DICT, RECORD) or "id" not in opened.keys:
        return None
    value = opened.values[opened.keys.index("id")]
    return value.data if value.sort in ("text", "number") else None


def _open_extension(data: bytes, content: int) -> Opened | None:
    code = int.from_bytes(data[content - 1 : content], "big", signed=True)
    # Some have an item that belongs to none of their parts: the factory of a defaultdict, the limit of a deque.
    skip = _MAPPINGS.get(code, _ROWS.get(code))
    if skip is None and code != msgpack.RECORD and code not in _SETS:
        return None
    payload = Encoded(data[content:])
    if payload.head()[0] != ARRAY:
        raise MalformedNodeError("an extension that holds no array")
    items = payload.inside().values
    if code == msgpack.RECORD:
        return _open_record(items)
    if code in _SETS:
        return Opened(SET, (code,), items)
    frame, items = (code, *(each.data for each in items[:skip])), items[skip:]
    if code in _ROWS:
        return Opened(LIST, frame, items)
    return Opened(PAIRS, frame, items[1::2], [each.data for each in items[::2]])


def _open_record(items: list[Encoded]) -> Opened | None:
    if len(items) != 4:
        raise MalformedNodeError("a record without name and version")
    name, version, data, extra = items
    if data.head()[0] != MAP:
        return None
    inside = data.inside()
    return Opened(RECORD, (msgpack.RECORD, name.data, version.data), inside.values, inside.keys, extra)


def _open(data: bytes) -> Inside:
    """An array or map taken apart in C, but for extensions, and its parts packed again."""
    try:
        found = ormsgpack.unpackb(data, ext_hook=ormsgpack.Ext)
        if type(found) is list:
            parts = list(map(ormsgpack.packb, found))
            # Bytes after the end, or a number that is longer than it need be: not ours.
            if len(msgpack.array_header(len(parts))) + sum(map(len, parts)) == len(data):
                return Inside([Encoded(part) for part in parts])
        elif type(found) is dict and ormsgpack.packb(found) == data:
            return Inside([Encoded(part) for part in map(ormsgpack.packb, found.values())], list(found))
    except (ValueError, TypeError, RecursionError) as error:
        raise MalformedNodeError(f"no list or dict that was saved: {error}") from error
    raise MalformedNodeError("no list or dict in its one encoding")


def _joined(keys: Iterable[bytes], values: Iterable[bytes]) -> bytes:
    return b"".join([part for pair in zip(keys, values, strict=True) for part in pair])


def _extension(code: int, items: Sequence[bytes]) -> Encoded:
    payload = msgpack.array_header(len(items)) + b"".join(items)
    return Encoded(msgpack.extension_header(code, len(payload)) + payload)
