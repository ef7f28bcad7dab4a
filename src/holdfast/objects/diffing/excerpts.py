"""Long texts and bytes: the parts that differ, without reading the rest.

Such a value is cut by its content, so that an edit changes the pieces around it and no others. What those pieces hold
is compared from both ends, and what differs is an excerpt; where a character lies across two pieces, the half of it
that was not read is left out.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.objects.diffing.aligning import common_start
from holdfast.objects.diffing.change import Excerpt
from holdfast.objects.diffing.encoded import Encoded, Large, is_bytes, is_text
from holdfast.objects.diffing.scanning import head
from holdfast.objects.diffing.stretches import differing_bytes
from holdfast.objects.tree.nodes import INDEX, LEAF, RAW, MalformedNodeError, parse_entries
from holdfast.objects.tree.read import MAX_NODE_DEPTH, Read, read_chunk

_CONTEXT: Final = 48
"""Bytes before and after a difference that are shown with it, where they are at hand."""


def excerpts(old: Large, new: Large, read: Read) -> tuple[Excerpt, Excerpt] | None:
    """What differs of two long texts, or of two values of bytes.

    None where they are something else, or have nothing in common: then they are read as a whole.
    """
    if old.node.kind != RAW or new.node.kind != RAW:
        return None
    found = differing_bytes(old, new, read)
    if any(len(before) == old.node.size or len(after) == new.node.size for _, before, _, after in found):
        return None
    first = next(((before, after) for at, before, new_at, after in found if at == new_at == 0), None)
    starts = [Encoded(data) for data in first] if first else [first_piece(old, read)] * 2
    kind = str if all(map(is_text, starts)) else bytes if all(map(is_bytes, starts)) else None
    if kind is None:
        return None
    cuts = [head(start.data, 0)[2] for start in starts]
    lefts: list[tuple[int, Any]] = []
    rights: list[tuple[int, Any]] = []
    for old_at, before, new_at, after in found:
        # The first bytes say how long the value is, and are no part of it.
        old_cut, new_cut = (cut if at == 0 else 0 for cut, at in zip(cuts, (old_at, new_at), strict=True))
        left, right, skipped = _differing_part(before[old_cut:], after[new_cut:])
        if left or right:
            lefts.append((old_at + old_cut + skipped, _shown(left, kind)))
            rights.append((new_at + new_cut + skipped, _shown(right, kind)))
    return _excerpt(lefts, old), _excerpt(rights, new)


def _differing_part(old: bytes, new: bytes) -> tuple[bytes, bytes, int]:
    """Both without their equal ends, but for a little of them; and how much was left out at the beginning."""
    front = common_start(old, new)
    back = common_start(old[front:][::-1], new[front:][::-1])
    if front == len(old) == len(new):
        return b"", b"", 0
    start, rest = max(0, front - _CONTEXT), max(0, back - _CONTEXT)
    return old[start : len(old) - rest], new[start : len(new) - rest], start


def _shown(data: bytes, kind: type) -> Any:
    # Half a character at an end, or a piece that begins within one.
    return data.decode("utf-8", "ignore") if kind is str else data


def _excerpt(parts: list[tuple[int, Any]], value: Large) -> Excerpt:
    return Excerpt(tuple(part for _, part in parts), tuple(at for at, _ in parts), value.node.size)


def first_piece(value: Large, read: Read) -> Encoded:
    """The beginning of a value, which says what it is."""
    levels = [level for level in value.node.levels if level]
    if not levels:
        return Encoded(b"".join(value.node.tail))
    name, depth = levels[0][0].hash, 0
    while depth <= MAX_NODE_DEPTH:
        chunk = read_chunk(name, read)
        if chunk[:1] == bytes((LEAF,)):
            return Encoded(chunk[1:])
        if chunk[:1] != bytes((INDEX,)):
            break
        name, depth = parse_entries(memoryview(chunk)[1:])[0].hash, depth + 1
    raise MalformedNodeError("no pieces where a long value should begin")
