"""Encoded values put together from their parts: the other way round than `diffing.encoded`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import ormsgpack

from holdfast.objects import wire
from holdfast.objects.diffing.encoded import DICT, LIST, Encoded, Value, is_text
from holdfast.objects.joining import join_node
from holdfast.objects.verified import Read


def whole(value: Value, read: Read) -> bytes:
    """All bytes of a value; of a tree, its chunks are read."""
    return value.data if isinstance(value, Encoded) else join_node(value.node, read)


def list_of(values: Sequence[Value], read: Read) -> Encoded:
    """A list with these items."""
    return Encoded(_array([whole(value, read) for value in values]))


def row_of(frame: tuple[Any, ...], values: Sequence[Value], read: Read) -> Encoded:
    """A list, tuple or deque with these items, of the same kind as what was opened with that frame."""
    if frame == (LIST,):
        return list_of(values, read)
    return _extension(frame, [whole(value, read) for value in values])


def mapping_of(frame: tuple[Any, ...], pairs: Mapping[Any, Value], read: Read) -> Encoded:
    """A dict, or a mapping of another kind, with these pairs."""
    if frame == (DICT,):
        return Encoded(map_of(pairs, read))
    parts = [part for key, value in pairs.items() for part in (key, whole(value, read))]
    if frame == (wire.PAIRS,) and all(is_text(Encoded(key)) for key in pairs):
        # Such a dict has one encoding, and this is it.
        return Encoded(wire.map_header(len(pairs)) + b"".join(parts))
    return _extension(frame, parts)


def set_of(frame: tuple[Any, ...], members: Iterable[bytes]) -> Encoded:
    """A set or frozenset with these members."""
    return _extension(frame, sorted(members))


def record_of(frame: tuple[Any, ...], fields: Mapping[str, Value], extra: Value, read: Read) -> Encoded:
    """An object with these fields, and what its class keeps beside them."""
    code, name, version = frame
    return _extension((code,), [name, version, map_of(fields, read), whole(extra, read)])


def map_of(pairs: Mapping[str, Value], read: Read) -> bytes:
    """A dict whose keys are texts."""
    parts = [part for key, value in pairs.items() for part in (ormsgpack.packb(key), whole(value, read))]
    return wire.map_header(len(pairs)) + b"".join(parts)


def text_of(text: str) -> Encoded:
    """A text."""
    return Encoded(ormsgpack.packb(text))


def _extension(frame: tuple[Any, ...], items: list[bytes]) -> Encoded:
    code, *first = frame
    payload = _array([*first, *items])
    return Encoded(wire.extension_header(code, len(payload)) + payload)


def _array(items: list[bytes]) -> bytes:
    return wire.array_header(len(items)) + b"".join(items)
