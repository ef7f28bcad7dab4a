"""gzip for many states that are much alike: what large ones share is compressed once.

A gzip stream is made of blocks that follow each other, and each may repeat what is at most 32 KB before it. So a block
that follows the same 32 KB as before is the same compressed bytes as before: those are at hand, and most of a state
that grew by a line is copied. Where a block ends is said by the text itself, so that the blocks of two states meet
again after a difference. A state that comes after a large one begins without looking back: the one before is out of
reach anyway, and its envelope, which is always another, would make every block after it another. Small states look back
to each other, as in any gzip file, and are small for it. What comes out is one plain gzip file.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.objects.tree.memo import fingerprint

_WINDOW: Final = 32 << 10
"""Bytes that the format looks back."""
_FAR: Final = 2 * _WINDOW
"""Characters from one state to the next, from which on nothing is lost by not looking back."""
_LEAST: Final = 12 << 10
"""Characters of a block: each costs the preparation of what it looks back to."""
_MOST: Final = 64 << 10
_MASK: Final = 31
"""One piece of text in so many ends a block."""
_WORTH_A_LOOK: Final = 16
"""Characters; brackets and commas come by the thousand, and are all alike."""
_REMEMBERED: Final = 4 << 20
"""Compressed bytes that are kept: all of a state before, as long as that is no larger than some 15 MB of text."""
_BEFORE_STATE: Final = '"skipped": '
_STATE: Final = '"state": '
"""With what the text of a state begins, and that of the field before it."""

# No time, no name, no system: the same checkpoints are the same file.
_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_LAST_BLOCK: Final = b"\x03\x00"
"""One that is empty, and says that it is the last."""


def gzipped(text: Iterable[str]) -> Iterator[bytes]:
    """Lines of checkpoints in UTF-8 as a gzip file, in pieces."""
    packed = _Blocks()
    check = size = 0
    yield _HEADER
    for block, alone in _cut(text):
        check = zlib.crc32(block, check)
        size += len(block)
        yield packed.of(block, alone=alone)
    yield _LAST_BLOCK
    yield check.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little")


def _cut(text: Iterable[str]) -> Iterator[tuple[bytes, bool]]:
    """Blocks that end where a piece of text says so, and whether each does not look back."""
    some: list[str] = []
    size = since = 0
    alone, last = True, ""
    for piece in text:
        if piece.startswith(_STATE) and last.startswith(_BEFORE_STATE):
            if since >= _FAR and some:
                yield "".join(some).encode(), alone
                some, size, alone = [], 0, True
            since = 0
        if len(piece) > 1:
            last = piece
        some.append(piece)
        size += len(piece)
        since += len(piece)
        if size >= _LEAST and (size >= _MOST or _ends_block(piece)):
            yield "".join(some).encode(), alone
            some, size, alone = [], 0, False
    if some:
        yield "".join(some).encode(), alone


def _ends_block(piece: str) -> bool:
    # Its end is enough, and is not long. A number that is the same in every process, unlike `hash`.
    return len(piece) >= _WORTH_A_LOOK and not zlib.crc32(piece[-64:].encode()) & _MASK


class _Blocks:
    """Compressed blocks, remembered by what is in them and before them."""

    def __init__(self) -> None:
        self._known: dict[bytes, bytes] = {}
        self._size = 0
        self._before = b""

    def of(self, block: bytes, *, alone: bool) -> bytes:
        """The block that comes next, compressed."""
        before = b"" if alone else self._before
        self._before = (before + block)[-_WINDOW:]
        mark = fingerprint(before) + fingerprint(block)
        packed = self._known.pop(mark, None)
        if packed is None:
            packed = _compressed(block, before)
            self._size += len(packed)
        # Behind all others: the first to go is the one that nobody asked for longest.
        self._known[mark] = packed
        while self._size > _REMEMBERED:
            self._size -= len(self._known.pop(next(iter(self._known))))
        return packed


def _compressed(block: bytes, before: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=before)
    # To a whole number of bytes, so that the next one can be put behind it.
    return packer.compress(block) + packer.flush(zlib.Z_SYNC_FLUSH)
