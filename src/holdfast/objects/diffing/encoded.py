"""A value as it is encoded, opened one level at a time.

Nothing is decoded to be compared: the encoding is canonical, so two values are the same, types and order included, if
their bytes are. `open_value` gives the parts of a container as encoded values of their own; what two containers must
have in common to be compared part by part is their `frame`.

Opening is C, which is ten times as fast as scanning, but looks at everything below each time. So what lies deep is
scanned: then its lists and dicts are places in the bytes of one value, and nothing is copied to open or compare them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import ormsgpack

from holdfast.objects.codec import msgpack
from holdfast.objects.diffing.scanning import ARRAY, EXTENSION, MAP, Scan, children, head, scan
from holdfast.objects.tree.nodes import MalformedNodeError, Node, parse_node
from holdfast.record import Record

# What an opened value is; also how its parts are addressed.
LIST: Final = "list"
DICT: Final = "dict"
PAIRS: Final = "pairs"
SET: Final = "set"
RECORD: Final = "record"

_MAPPINGS: Final = {msgpack.PAIRS: 0, msgpack.ORDEREDDICT: 0, msgpack.COUNTER: 0, msgpack.DEFAULTDICT: 1}
_ROWS: Final = {msgpack.TUPLE: 0, msgpack.DEQUE: 1}
_SETS: Final = (msgpack.SET, msgpack.FROZENSET)
_TEXT_MARKS: Final = frozenset((*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB))
_BYTES_MARKS: Final = frozenset((0xC4, 0xC5, 0xC6))
_NAMED_MARKS: Final = frozenset((*range(0x80, 0x90), 0xDE, 0xDF, *range(0xC7, 0xCA), *range(0xD4, 0xD9)))

_C_FAILED: Final = (ValueError, TypeError, RecursionError)
"""What ormsgpack raises where a value is too deep for it, or is none."""

_LEVELS_IN_C: Final = 16
"""How often all that lies deeper is taken apart in C. By then scanning it once would have cost as much."""


class Encoded:
    """The bytes of one value."""

    __slots__ = ("_inside", "data", "level")

    def __init__(self, data: bytes, level: int = 0) -> None:
        self.data = data
        self.level = level
        """How many values around it were opened to get to it."""
        self._inside: Inside | None = None

    @property
    def token(self) -> Hashable:
        """What is equal exactly where values are, if both or neither are scanned (see `open_alike`)."""
        return self.data

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return len(self.data)

    @property
    def mark(self) -> int:
        """Its first byte, which says what it is."""
        return self.data[0]

    def head(self) -> tuple[str, int, int]:
        """Its kind, how many values or bytes it holds, and where in it these begin."""
        return head(self.data, 0)

    def inside(self, *, scanned: bool = False) -> Inside:
        """What is in an array or map; not to be changed. With `scanned`, the lists and dicts in it are scanned."""
        # Asked for twice by nearly everyone: who it is, and what is in it.
        found = self._inside
        if found is None or (scanned and not found.scanned):
            found = self._inside = self._open(scanned=scanned)
        return found

    def _open(self, *, scanned: bool) -> Inside:
        if self.head()[0] not in (ARRAY, MAP):
            raise MalformedNodeError("no list or dict where one should be")
        if not scanned and self.level < _LEVELS_IN_C:
            try:
                return _open_in_c(self.data, self.level + 1)
            except _C_FAILED:
                # Scanning can take it apart, or says what is wrong with it.
                pass
        return Scanned(scan(self.data), 0).inside()


class Scanned(Encoded):
    """A list or dict in a value that was scanned: a place in its bytes, which are copied only if they are asked for."""

    __slots__ = ("_scan", "_start", "_stop")

    def __init__(self, found: Scan, start: int) -> None:
        self._scan = found
        self._start = start
        self._stop = found.ends[start]
        self.level = _LEVELS_IN_C
        self._inside = None

    @property
    def data(self) -> bytes:  # type: ignore[override]  # never set from outside
        """Its bytes."""
        return self._scan.body[self._start : self._stop]

    @property
    def token(self) -> Hashable:
        """See `Encoded`."""
        digest = self._scan.digests.get(self._start)
        return self.data if digest is None else ("scanned", digest)

    @property
    def size(self) -> int:
        """See `Encoded`."""
        return self._stop - self._start

    @property
    def mark(self) -> int:
        """See `Encoded`."""
        return self._scan.body[self._start]

    def head(self) -> tuple[str, int, int]:
        """See `Encoded`."""
        kind, count, content = head(self._scan.body, self._start)
        return kind, count, content - self._start

    def _open(self, *, scanned: bool) -> Inside:  # noqa: ARG002 - it always is
        body, ends = self._scan.body, self._scan.ends
        parts = [
            Scanned(self._scan, start) if start in ends else Encoded(body[start:stop], _LEVELS_IN_C)
            for start, stop in children(self._scan, self._start)
        ]
        if self.head()[0] == ARRAY:
            return Inside(parts, scanned=True)
        return Inside(parts[1::2], [text_of(key) for key in parts[::2]], scanned=True)


class Large:
    """A value that is a tree of its own: the bytes of its node, which are equal exactly where values are."""

    __slots__ = ("_node", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._node: Node | None = None

    @property
    def token(self) -> Hashable:
        """What is equal exactly where values are."""
        return "node", self.data

    @property
    def size(self) -> int:
        """How many bytes the value has."""
        return self.node.size

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
    scanned: bool = False


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
    scanned: bool = False


def open_value(value: Encoded, *, scanned: bool = False) -> Opened | None:
    """The parts of a container; None for everything that is compared as a whole."""
    kind, _, content = value.head()
    if kind == EXTENSION:
        return _open_extension(value, content, scanned=scanned)
    if kind not in (ARRAY, MAP):
        return None
    inside = value.inside(scanned=scanned)
    shape = LIST if kind == ARRAY else DICT
    return Opened(shape, (shape,), inside.values, inside.keys, scanned=inside.scanned)


def open_alike(*values: Encoded) -> list[Opened | None]:
    """Several values opened so that their parts can be compared: where one has to be scanned, all are."""
    opened = [open_value(value) for value in values]
    if len({each.scanned for each in opened if each is not None}) > 1:
        return [open_value(value, scanned=True) for value in values]
    return opened


def _open_extension(value: Encoded, content: int, *, scanned: bool) -> Opened | None:
    data = value.data
    code = int.from_bytes(data[content - 1 : content], "big", signed=True)
    # Some have an item that belongs to none of their parts: the factory of a defaultdict, the limit of a deque.
    skip = _MAPPINGS.get(code, _ROWS.get(code))
    if skip is None and code != msgpack.RECORD and code not in _SETS:
        return None
    payload = Encoded(data[content:], value.level)
    if payload.head()[0] != ARRAY:
        raise MalformedNodeError("an extension that holds no array")
    if code == msgpack.RECORD:
        return _open_record(payload, scanned=scanned)
    inside = payload.inside(scanned=scanned)
    if code in _SETS:
        return Opened(SET, (code,), inside.values, scanned=inside.scanned)
    frame, items = (code, *(each.data for each in inside.values[:skip])), inside.values[skip:]
    if code in _ROWS:
        return Opened(LIST, frame, items, scanned=inside.scanned)
    keys = [each.data for each in items[::2]]
    return Opened(PAIRS, frame, items[1::2], keys, scanned=inside.scanned)


def _open_record(payload: Encoded, *, scanned: bool) -> Opened | None:
    items = payload.inside(scanned=scanned)
    if len(items.values) != 4:
        raise MalformedNodeError("a record without name and version")
    name, version, data, extra = items.values
    if data.head()[0] != MAP:
        return None
    inside = data.inside(scanned=items.scanned)
    if inside.scanned and not items.scanned:
        # What it keeps beside its fields is compared, too.
        return _open_record(payload, scanned=True)
    frame = (msgpack.RECORD, name.data, version.data)
    return Opened(RECORD, frame, inside.values, inside.keys, extra, inside.scanned)


def text_of(key: Encoded) -> str:
    """The text that a key is."""
    kind, size, content = key.head()
    if not is_text(key) or content + size != key.size:
        raise MalformedNodeError(f"a map key that is no text, but {kind}")
    try:
        return str(key.data[content:], "utf-8")
    except UnicodeDecodeError as error:
        raise MalformedNodeError("text that is not UTF-8") from error


def is_text(value: Encoded) -> bool:
    """Whether it is a text, without half a surrogate pair in it."""
    return value.mark in _TEXT_MARKS


def is_bytes(value: Encoded) -> bool:
    """Whether it is bytes."""
    return value.mark in _BYTES_MARKS


def may_have_id(value: Encoded) -> bool:
    """Whether it is a dict, or may be an object: told by its first byte, without opening it."""
    return value.mark in _NAMED_MARKS


def _open_in_c(data: bytes, level: int) -> Inside:
    """An array or map taken apart in C, but for extensions, and its parts packed again."""
    found = ormsgpack.unpackb(data, ext_hook=ormsgpack.Ext)
    if type(found) is list:
        parts = list(map(ormsgpack.packb, found))
        # Bytes after the end, a number that is longer than it need be: not ours.
        if len(msgpack.array_header(len(parts))) + sum(map(len, parts)) != len(data):
            raise ValueError("not canonical")
        return Inside([Encoded(part, level) for part in parts])
    # A key that is there twice would be lost, too.
    if type(found) is not dict or ormsgpack.packb(found) != data:
        raise ValueError("not canonical")
    return Inside([Encoded(part, level) for part in map(ormsgpack.packb, found.values())], list(found))
