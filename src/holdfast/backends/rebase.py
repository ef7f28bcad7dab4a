"""Rebasing: what becomes of chunks whose base is deleted; each is written anew without it.

If the deleted chunk had a needed base of its own, its dependents become deltas against that; otherwise they stand
alone. The versions of a stream cannot be read without what came before them, so all that follow are written anew too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.backends.chunk_codec import MAX_DEPTH
from holdfast.objects.compression import DELTA, compress, shrink
from holdfast.record import Record
from holdfast.storage.records import ChunkHash


class Dependent(Record):
    """A needed chunk that cannot be read without the deleted one."""

    number: int
    name: ChunkHash
    base: int


class Parent(Record):
    """The needed chunk that is the base of the deleted one."""

    number: int
    name: ChunkHash
    depth: int


class Rebased(Record):
    """The new columns of a chunk."""

    number: int
    codec: int
    data: bytes
    base: int | None
    depth: int


def rebase(
    deleted: int, dependents: Sequence[Dependent], parent: Parent | None, read: Callable[[ChunkHash], bytes]
) -> tuple[list[Rebased], int]:
    """New rows for the dependents of the chunk with the number `deleted`, and how many plain bytes were read for them.

    Args:
        deleted: The chunk that goes.
        dependents: In order of their numbers, so that a base comes before what stands on it.
        parent: The base of the deleted chunk, if that is needed.
        read: The plain bytes of a chunk, verified. All of it is read before any of it is written.
    """
    known: Sequence[Dependent | Parent] = [*dependents, *([parent] if parent else [])]
    plain = {each.number: read(each.name) for each in known}
    depths = {parent.number: parent.depth} if parent else {}
    rebased: list[Rebased] = []
    for each in dependents:
        base = parent.number if parent and each.base == deleted else each.base
        delta = None
        if base in depths and depths[base] < MAX_DEPTH:
            delta = shrink(plain[each.number], plain[base])
        if delta is None:
            new = Rebased(each.number, *compress(plain[each.number]), None, 0)
        else:
            new = Rebased(each.number, DELTA, delta, base, depths[base] + 1)
        depths[each.number] = new.depth
        rebased.append(new)
    return rebased, sum(map(len, plain.values()))
