"""MessagePack scanned in Python: where each value ends, to any depth, in one pass.

The fast way is C, which gives up some hundred levels down. What it cannot take is scanned once; from then on every
value of it can be opened without looking at what lies deeper.
"""

from __future__ import annotations

from typing import Final

from holdfast.objects.nodes import MalformedNodeError

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
# Mark -> bytes that its length takes.
_SIZED: Final = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_ARRAYS: Final = {0xDC: 2, 0xDD: 4}
_MAPS: Final = {0xDE: 2, 0xDF: 4}
_EXTENSIONS: Final = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_FIXED_EXTENSIONS: Final = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}

Ends = dict[int, int]
"""Where each array and map ends, by where it begins."""


def head(body: bytes, at: int) -> tuple[str, int, int]:
    """What begins at `at`: its kind, how many values or bytes it holds, and where these begin."""
    if at >= len(body):
        raise MalformedNodeError("a value that ends too early")
    mark = body[at]
    if mark < 0x80 or mark >= 0xE0:
        return SCALAR, 0, at + 1
    if mark < 0xC0:
        return _short_head(mark, at)
    if mark in _FIXED:
        return SCALAR, _FIXED[mark], at + 1
    if mark in _FIXED_EXTENSIONS:
        return EXTENSION, _FIXED_EXTENSIONS[mark], at + 2
    for kind, widths in ((SCALAR, _SIZED), (ARRAY, _ARRAYS), (MAP, _MAPS), (EXTENSION, _EXTENSIONS)):
        if mark in widths:
            start = at + 1 + widths[mark]
            count = int.from_bytes(body[at + 1 : start], "big")
            return kind, count, start + (kind == EXTENSION)
    raise MalformedNodeError("a mark that MessagePack does not use")


def _short_head(mark: int, at: int) -> tuple[str, int, int]:
    if mark < 0x90:
        return MAP, mark & 0x0F, at + 1
    if mark < 0xA0:
        return ARRAY, mark & 0x0F, at + 1
    return SCALAR, mark & 0x1F, at + 1


def scan(body: bytes) -> Ends:
    """Where each array and map in the value ends that `body` holds.

    Raises:
        MalformedNodeError: It is not one value, from its first byte to its last.
    """
    ends: Ends = {}
    # Containers that are open: where each began, and how many values are to come in it.
    opened: list[list[int]] = []
    at = 0
    while True:
        kind, count, content = head(body, at)
        if kind in (ARRAY, MAP):
            opened.append([at, count * 2 if kind == MAP else count])
            at = content
        else:
            at = content + count
            if at > len(body):
                raise MalformedNodeError("a value that ends too early")
            if opened:
                opened[-1][1] -= 1
        while opened and not opened[-1][1]:
            ends[opened.pop()[0]] = at
            if opened:
                opened[-1][1] -= 1
        if not opened:
            break
    if at != len(body):
        raise MalformedNodeError("bytes after the end of a value")
    return ends


def children(body: bytes, ends: Ends, offset: int) -> list[tuple[int, int]]:
    """Where each value in an array or map begins and ends in it; of a map, keys and values in turn.

    `ends` is the table of a value that this one lies in, at `offset`.
    """
    kind, count, at = head(body, 0)
    found = []
    for _ in range(count * 2 if kind == MAP else count):
        end = ends.get(at + offset)
        if end is None:
            _, size, content = head(body, at)
            stop = content + size
        else:
            stop = end - offset
        found.append((at, stop))
        at = stop
    return found
