"""The frame in which an encoded value is put together and decoded, and the memory for it.

ormsgpack does not mind bytes after the end of a value. Each value is therefore read as the first of a pair whose second
is a number that nobody can have known when the bytes were made.

The frame of a large state is made and dropped with each load. The system takes such memory back each time, and gives it
out again page by page, cleared: a tenth of the time of a load. So a process keeps one frame, of a few megabytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

NONCE: Final = int.from_bytes(os.urandom(8), "big") | 1 << 63
OPENING: Final = b"\x92"
CLOSING: Final = b"\xcf" + NONCE.to_bytes(8, "big")

MOST_KEPT: Final = 4 << 20
"""Bytes of the frame that is kept."""
_LEAST_MADE: Final = 64 << 10

_kept: list[bytearray] = []
"""The frame that nobody uses just now. Taking the last item of a list is one step, whatever threads there are."""


def frame(pieces: Iterable[bytes | memoryview]) -> bytes:
    """The pieces of an encoded value, one after the other, in their frame."""
    return b"".join((OPENING, *pieces, CLOSING))


def unframe(framed: bytes | memoryview) -> bytes:
    """The encoded value in a frame."""
    return bytes(framed[len(OPENING) : -len(CLOSING)])


class Frame:
    """A frame of a size that is known before, to be filled in any order. Every byte of it has to be put."""

    __slots__ = ("_memory", "_view")

    def __init__(self, size: int) -> None:
        whole = len(OPENING) + size + len(CLOSING)
        self._memory = _taken(whole)
        self._view = memoryview(self._memory)[:whole]
        self._view[: len(OPENING)] = OPENING
        self._view[-len(CLOSING) :] = CLOSING

    def put(self, at: int, piece: bytes | memoryview) -> None:
        """Put a part of the value in its place."""
        start = at + len(OPENING)
        self._view[start : start + len(piece)] = piece

    @property
    def framed(self) -> memoryview:
        """All of it, until `leave`."""
        return self._view

    def leave(self) -> None:
        """End its use; the memory goes to the next one."""
        self._view = memoryview(b"")
        if not _kept and len(self._memory) <= MOST_KEPT:
            _kept.append(self._memory)
        self._memory = bytearray()


def _taken(size: int) -> bytearray:
    try:
        kept = _kept.pop()
    except IndexError:
        kept = bytearray()
    if len(kept) >= size:
        return kept
    # A little more than is needed: a state that grows with each step has room for a while.
    return bytearray(max(size + size // 4, _LEAST_MADE))
