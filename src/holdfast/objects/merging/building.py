"""Encoded values put together from their parts: the other way round than `diffing.encoded`.

What is put together knows its size, and joins its bytes when somebody asks for them. Nobody does while values are put
into each other, so that however deep something lies, it is copied once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import ormsgpack

from holdfast.objects.codec import msgpack
from holdfast.objects.diffing.encoded import DICT, LIST, Encoded, Value, is_text
from holdfast.objects.tree.read import Read, join_node, node_pieces

_Piece = bytes | Value


class Built(Encoded):
    """A value that was put together: bytes and other values, in their order."""

    __slots__ = ("_joined", "_pieces", "_read", "_size")

    def __init__(self, pieces: list[_Piece], read: Read) -> None:
        self._pieces = pieces
        self._read = read
        self._size = sum([len(each) if isinstance(each, bytes) else each.size for each in pieces])
        self._joined: bytes | None = None
        self._inside = None
        self.level = 0

    @property
    def data(self) -> bytes:  # type: ignore[override]  # never set from outside
        """Its bytes; of a tree in it, the chunks are read."""
        if self._joined is None:
            self._joined = b"".join(self._leaves())
            self._pieces = [self._joined]
        return self._joined

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self._size

    def _leaves(self) -> Iterator[bytes | memoryview]:
        """All bytes in it from left to right, with a stack of our own."""
        waiting: list[Iterator[_Piece]] = [iter(self._pieces)]
        while waiting:
            piece = next(waiting[-1], None)
            if piece is None:
                waiting.pop()
            elif isinstance(piece, bytes):
                yield piece
            elif isinstance(piece, Built):
                waiting.append(iter(piece._pieces))  # noqa: SLF001 - of the same class
            elif isinstance(piece, Encoded):
                yield piece.data
            else:
                yield from node_pieces(piece.node, self._read)


def whole(value: Value, read: Read) -> bytes:
    """All bytes of a value; of a tree, its chunks are read."""
    return value.data if isinstance(value, Encoded) else join_node(value.node, read)


def list_of(values: Sequence[Value], read: Read) -> Encoded:
    """A list with these items."""
    return Built([msgpack.array_header(len(values)), *values], read)


def row_of(frame: tuple[Any, ...], values: Sequence[Value], read: Read) -> Encoded:
    """A list, tuple or deque with these items, of the same kind as what was opened with that frame."""
    if frame == (LIST,):
        return list_of(values, read)
    return _extension(frame, values, read)


def mapping_of(frame: tuple[Any, ...], pairs: Mapping[Any, Value], read: Read) -> Encoded:
    """A dict, or a mapping of another kind, with these pairs."""
    if frame == (DICT,):
        return map_of(pairs, read)
    parts = [part for pair in pairs.items() for part in pair]
    if frame == (msgpack.PAIRS,) and all(is_text(Encoded(key)) for key in pairs):
        # Such a dict has one encoding, and this is it.
        return Built([msgpack.map_header(len(pairs)), *parts], read)
    return _extension(frame, parts, read)


def set_of(frame: tuple[Any, ...], members: Iterable[bytes], read: Read) -> Encoded:
    """A set or frozenset with these members."""
    return _extension(frame, sorted(members), read)


def record_of(frame: tuple[Any, ...], fields: Mapping[str, Value], extra: Value, read: Read) -> Encoded:
    """An object with these fields, and what its class keeps beside them."""
    code, name, version = frame
    return _extension((code,), [name, version, map_of(fields, read), extra], read)


def map_of(pairs: Mapping[str, Value], read: Read) -> Encoded:
    """A dict whose keys are texts."""
    parts = [part for key, value in pairs.items() for part in (ormsgpack.packb(key), value)]
    return Built([msgpack.map_header(len(pairs)), *parts], read)


def text_of(text: str) -> Encoded:
    """A text."""
    return Encoded(ormsgpack.packb(text))


def _extension(frame: tuple[Any, ...], items: Sequence[_Piece], read: Read) -> Encoded:
    code, *first = frame
    payload = Built([msgpack.array_header(len(first) + len(items)), *first, *items], read)
    return Built([msgpack.extension_header(code, payload.size), payload], read)
