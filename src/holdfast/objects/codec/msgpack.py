"""The numbers of the encoding: extension codes, limits, MessagePack headers.

A state is plain MessagePack. What MessagePack has no type for is an extension: a code from the list below and a
payload, which is either fixed bytes or one MessagePack array of further values. docs/spec/encoding.md has them all.
A code is never reused or changed once released: stored states live longer than programs.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import ormsgpack

MAX_DEPTH: Final = 254
"""How deep containers may lie in each other, counted as on the wire: a registered object is two levels."""

FREE_LEVELS: Final = 8
"""So deep extensions may lie in each other whatever is in them: each level is a call in C, and some in Python."""

MOST_LEVELS: Final = 1_000
"""How deep lists and dicts may lie in the extensions below those, all added up: each takes half a kilobyte of the
stack of the thread that decodes it."""

_CHECKED_DEPTH: Final = 253
"""How deep lists and dicts may lie in each other for `ormsgpack.Fragment`, which checks bytes and builds nothing."""

READ_DEPTH: Final = 1_022
"""How deep lists and dicts may lie in what is read. Parts of a large state are encoded on their own, each within the
limit, some dozens of levels down; what was saved must always load."""

MAX_COLLISIONS: Final = 4096
"""How many members of one set or mapping may have a hash that another member has: past this, building it again takes
quadratic time, and bytes could be made that keep a reader busy for years."""

BIG_INT: Final = 1
TUPLE: Final = 2
SET: Final = 3
FROZENSET: Final = 4
PAIRS: Final = 5
SURROGATES: Final = 6
BYTEARRAY: Final = 7
COMPLEX: Final = 8
RECORD: Final = 9
DATETIME: Final = 10
DATE: Final = 11
TIME: Final = 12
TIMEDELTA: Final = 13
TIMEZONE: Final = 14
ZONEINFO: Final = 15
DECIMAL: Final = 16
FRACTION: Final = 17
UUID: Final = 18
RANGE: Final = 19
SLICE: Final = 20
ELLIPSIS: Final = 21
DEQUE: Final = 22
DEFAULTDICT: Final = 23
ORDEREDDICT: Final = 24
COUNTER: Final = 25
PATH: Final = 26
IPADDRESS: Final = 27

# Without these ormsgpack would flatten tuples, subclasses, enums, dates and the like into plain values on its own.
PACK_OPTIONS: Final = (
    ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)

_FIXED_EXTENSIONS: Final = {1: b"\xd4", 2: b"\xd5", 4: b"\xd6", 8: b"\xd7", 16: b"\xd8"}


def array_header(count: int) -> bytes:
    """The bytes that open an array of that many values."""
    if count < 16:
        return bytes((0x90 | count,))
    if count < 1 << 16:
        return struct.pack(">BH", 0xDC, count)
    return struct.pack(">BI", 0xDD, count)


def map_header(count: int) -> bytes:
    """The bytes that open a map of that many pairs."""
    if count < 16:
        return bytes((0x80 | count,))
    if count < 1 << 16:
        return struct.pack(">BH", 0xDE, count)
    return struct.pack(">BI", 0xDF, count)


def extension_header(code: int, size: int) -> bytes:
    """The bytes that open an extension whose payload has that many bytes."""
    if size in _FIXED_EXTENSIONS:
        return _FIXED_EXTENSIONS[size] + bytes((code,))
    if size < 1 << 8:
        return struct.pack(">BBB", 0xC7, size, code)
    if size < 1 << 16:
        return struct.pack(">BHB", 0xC8, size, code)
    return struct.pack(">BIB", 0xC9, size, code)


def array(parts: Sequence[bytes]) -> bytes:
    """An array of encoded values."""
    return array_header(len(parts)) + b"".join(parts)


def extension(code: int, payload: bytes) -> bytes:
    """An extension with that payload."""
    return extension_header(code, len(payload)) + payload


def depth_of(encoded: bytes) -> int:
    """How deep lists and dicts lie in each other in an encoded value; what is in extensions does not count.

    Raises:
        ValueError: They lie too deep to say, or these are not the bytes of one value.
    """
    ormsgpack.Fragment(encoded)
    low, high = 0, _CHECKED_DEPTH
    while low < high:
        middle = (low + high) // 2
        try:
            ormsgpack.Fragment(b"\x91" * (_CHECKED_DEPTH - middle) + encoded)
            high = middle
        except ValueError:
            low = middle + 1
    return low


def held_limit(size: int, times: int) -> int:
    """How many bytes may be copied for extensions in each other, in a value of so many bytes.

    Each level holds a copy of its payload while it is decoded: bytes made for it would otherwise take hundreds of times
    their size. What is saved keeps within less, so that it can be loaded.
    """
    return max(times * size, times << 20)
