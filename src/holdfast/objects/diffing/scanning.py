"""MessagePack scanned in Python: where each value ends, to any depth, in one pass.

The fast way is C, which takes apart all that lies deeper each time a level is opened, and gives up some hundred levels
down. What is scanned is looked at once; from then on every list and dict in it can be opened without looking at what
lies deeper, and the large ones can be compared without it, too: each has a digest, made of those of the large ones in
it.
"""

from __future__ import annotations

from typing import Final

from holdfast.objects.codec import msgpack
from holdfast.objects.hashing import digest
from holdfast.objects.tree.nodes import MalformedNodeError

ARRAY: Final = "array"
MAP: Final = "map"
EXTENSION: Final = "extension"
SCALAR: Final = "scalar"

# Mark -> bytes of content after it, for what has a fixed size.
_FIXED: Final = {
    **dict.fromkeys((0xC0, 0xC2, 0xC3), 0),
    0xCA: 4,
    0xCB: 8,
    0xCC: 1,
    0xCD: 2,
    0xCE: 4,
    0xCF: 8,
    0xD0: 1,
    0xD1: 2,
    0xD2: 4,
    0xD3: 8,
}
# Mark -> what it is, and how many bytes its length takes.
_SIZED: Final = {
    0xC4: (SCALAR, 1),
    0xC5: (SCALAR, 2),
    0xC6: (SCALAR, 4),
    0xC7: (EXTENSION, 1),
    0xC8: (EXTENSION, 2),
    0xC9: (EXTENSION, 4),
    0xD9: (SCALAR, 1),
    0xDA: (SCALAR, 2),
    0xDB: (SCALAR, 4),
    0xDC: (ARRAY, 2),
    0xDD: (ARRAY, 4),
    0xDE: (MAP, 2),
    0xDF: (MAP, 4),
}
_FIXED_EXTENSIONS: Final = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}


def _width(mark: int) -> int:
    """How many bytes a value has that begins with this mark, where nothing else says so; otherwise 0."""
    if mark < 0x80 or mark >= 0xE0:
        return 1
    return 1 + (mark & 0x1F) if 0xA0 <= mark < 0xC0 else 1 + _FIXED.get(mark, -1)


_WIDTHS: Final = [_width(mark) for mark in range(256)]

_LARGE: Final = 16_384
"""Bytes up to which a list or dict is compared as it is. An item of a list that is a tree is no larger, so that two of
them are always compared in the same way, whether the runs around them were scanned or not."""
_DIGEST_FOLLOWS: Final = b"\xc1"
"""A mark that MessagePack does not use."""


class Scan:
    """What a scan found out about a value."""

    __slots__ = ("body", "digests", "ends")

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.ends: dict[int, int] = {}
        """Where each array and map ends, by where it begins."""
        self.digests: dict[int, bytes] = {}
        """The digest of each of those that are large, by where it begins: equal exactly where they are."""


def head(body: bytes, at: int) -> tuple[str, int, int]:
    """What begins at `at`: its kind, how many values or bytes it holds, and where these begin."""
    if at >= len(body):
        raise MalformedNodeError("a value that ends too early")
    mark = body[at]
    if mark < 0x80 or mark >= 0xE0:
        return SCALAR, 0, at + 1
    if mark < 0xC0:
        return _short_head(mark, at)
    if mark in _SIZED:
        kind, width = _SIZED[mark]
        start = at + 1 + width
        return kind, int.from_bytes(body[at + 1 : start], "big"), start + (kind == EXTENSION)
    if mark in _FIXED:
        return SCALAR, _FIXED[mark], at + 1
    if mark in _FIXED_EXTENSIONS:
        return EXTENSION, _FIXED_EXTENSIONS[mark], at + 2
    raise MalformedNodeError("a mark that MessagePack does not use")


def _short_head(mark: int, at: int) -> tuple[str, int, int]:
    if mark < 0x90:
        return MAP, mark & 0x0F, at + 1
    if mark < 0xA0:
        return ARRAY, mark & 0x0F, at + 1
    return SCALAR, mark & 0x1F, at + 1


class _Open:
    """A container that is being scanned."""

    __slots__ = ("large", "left", "start")

    def __init__(self, start: int, left: int) -> None:
        self.start = start
        self.left = left
        """How many values are to come in it; of a map, keys and values."""
        self.large: list[int] = []
        """Where the large ones in it begin."""


def scan(body: bytes) -> Scan:
    """Look at all of the value that `body` holds.

    Raises:
        MalformedNodeError: It is not one value, from its first byte to its last, or goes deeper than any that is saved.
    """
    found = Scan(body)
    opened: list[_Open] = []
    at, size = 0, len(body)
    while True:
        width = _WIDTHS[body[at]] if at < size else 0
        kind, count, content = (SCALAR, width, at) if width else head(body, at)
        if kind in (ARRAY, MAP):
            if len(opened) >= msgpack.READ_DEPTH:
                raise MalformedNodeError(f"more than {msgpack.READ_DEPTH:,} containers in each other")
            opened.append(_Open(at, count * 2 if kind == MAP else count))
            at = content
        else:
            at = content + count
            if at > size:
                raise MalformedNodeError("a value that ends too early")
            if opened:
                opened[-1].left -= 1
        while opened and not opened[-1].left:
            _close(found, opened, at)
        if not opened:
            break
    if at != size:
        raise MalformedNodeError("bytes after the end of a value")
    return found


def _close(found: Scan, opened: list[_Open], at: int) -> None:
    """The innermost container ends."""
    done = opened.pop()
    found.ends[done.start] = at
    if at - done.start > _LARGE:
        found.digests[done.start] = _digest(found, done, at)
        if opened:
            opened[-1].large.append(done.start)
    if opened:
        opened[-1].left -= 1


def _digest(found: Scan, done: _Open, stop: int) -> bytes:
    """Of its bytes, with the digests of large ones in their place: each byte is hashed once, however deep it lies."""
    body = memoryview(found.body)
    pieces: list[bytes | memoryview] = []
    at = done.start
    for start in done.large:
        pieces += [body[at:start], _DIGEST_FOLLOWS, found.digests[start]]
        at = found.ends[start]
    return digest(b"".join([*pieces, body[at:stop]]))


def children(found: Scan, start: int) -> list[tuple[int, int]]:
    """Where each value in the array or map at `start` begins and ends; of a map, keys and values in turn."""
    body, ends = found.body, found.ends
    kind, count, at = head(body, start)
    spans = []
    for _ in range(count * 2 if kind == MAP else count):
        stop = ends.get(at)
        if stop is None:
            _, size, content = head(body, at)
            stop = content + size
        spans.append((at, stop))
        at = stop
    return spans
