"""The chunks of one save while they wait for the store: plain at first, compressed from a few megabytes on.

Nearly every save makes some kilobytes, and compressing those is left to the backend. The first save of a large state
makes all of it: held plain, until a backend holds it compressed as well, that would be the state twice over. So what
comes late is compressed as it is made, quickly. A backend keeps those bytes, and need not do it again.
"""

from __future__ import annotations

from typing import Final

from holdfast.objects.compression import compress, compress_for_reading, expand
from holdfast.objects.tree.nodes import refers
from holdfast.storage.records import Chunk, ChunkHash, NewChunk

HELD_PLAIN: Final = 4 << 20
"""Bytes. A state of this size may be saved whole again by each writer that starts anew; compressing what the store has
already is done for nothing, and takes 4 ms a megabyte."""


def squeeze(data: bytes, base: ChunkHash | None, *, quickly: bool) -> tuple[int, bytes]:
    """The codec and the bytes of a whole chunk. One with a base is a part that changes: few versions are ever read."""
    return compress_for_reading(data, quickly=quickly) if base is None else compress(data)


class SqueezedChunk:
    """A chunk that is held compressed; see `Chunk`."""

    __slots__ = ("base", "codec", "hash", "packed", "refers", "size_bytes")

    def __init__(self, name: ChunkHash, data: bytes, base: ChunkHash | None) -> None:
        self.hash = name
        self.base = base
        self.size_bytes = len(data)
        self.refers = refers(data)
        self.codec, self.packed = squeeze(data, base, quickly=True)

    @property
    def data(self) -> bytes:
        """The plain bytes, made anew each time."""
        return expand(self.codec, self.packed, self.size_bytes)


class HeldChunks:
    """Makes the chunks of one save."""

    __slots__ = ("_room",)

    def __init__(self) -> None:
        self._room = HELD_PLAIN

    def make(self, name: ChunkHash, data: bytes, base: ChunkHash | None) -> NewChunk:
        """A chunk to hold until the save is done."""
        self._room -= len(data)
        return Chunk(name, data, base) if self._room >= 0 else SqueezedChunk(name, data, base)
