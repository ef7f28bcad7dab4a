"""What becomes of chunks when one that they stand on goes: each is written anew without it.

Where the chunk that goes stood on a needed one, what stood on it stands on that one now, as a difference; otherwise it
stands alone. The versions of a stream cannot be read without what came before them, so that all that follow are written
anew as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.backends.chunk_rows import MAX_DEPTH
from holdfast.objects.compression import DELTA, compress, shrink
from holdfast.record import Record
from holdfast.storage.records import ChunkHash


class Standing(Record):
    """A needed chunk that cannot be read without the one that goes."""

    number: int
    name: ChunkHash
    base: int


class Below(Record):
    """The needed chunk that the one that goes stands on."""

    number: int
    name: ChunkHash
    depth: int


class Restacked(Record):
    """The new columns of a chunk."""

    number: int
    codec: int
    data: bytes
    base: int | None
    depth: int


def restack(
    gone: int, standing: Sequence[Standing], below: Below | None, read: Callable[[ChunkHash], bytes]
) -> tuple[list[Restacked], int]:
    """New rows for what stands on the chunk of the number `gone`, and how many plain bytes were read for them.

    Args:
        gone: The chunk that goes.
        standing: In order of their numbers: what a chunk stands on comes before it.
        below: What the chunk that goes stands on, if that is needed.
        read: The plain bytes of a chunk, verified. All of it is read before any of it is written.
    """
    known: Sequence[Standing | Below] = [*standing, *([below] if below else [])]
    plain = {each.number: read(each.name) for each in known}
    depths = {below.number: below.depth} if below else {}
    restacked: list[Restacked] = []
    for each in standing:
        base = below.number if below and each.base == gone else each.base
        delta = None
        if base in depths and depths[base] < MAX_DEPTH:
            delta = shrink(plain[each.number], plain[base])
        if delta is None:
            new = Restacked(each.number, *compress(plain[each.number]), None, 0)
        else:
            new = Restacked(each.number, DELTA, delta, base, depths[base] + 1)
        depths[each.number] = new.depth
        restacked.append(new)
    return restacked, sum(map(len, plain.values()))
