"""Three states to merge: stored ones by their roots, or values at hand."""

from __future__ import annotations

from typing import Any

from holdfast.objects import nodes
from holdfast.objects.codec import decode_value, encode_value
from holdfast.objects.diffing.encoded import Encoded, Large, Value
from holdfast.objects.joining import not_a_state, open_root
from holdfast.objects.merging.building import whole
from holdfast.objects.merging.conflict import MergeConflict, MergeResolution
from holdfast.objects.merging.resolving import Resolve, Resolver
from holdfast.objects.merging.values import Merge
from holdfast.objects.nodes import MalformedNodeError
from holdfast.objects.registry import TypeRegistry
from holdfast.objects.verified import Read, read_chunks
from holdfast.record import Record
from holdfast.storage.records import ChunkHash


class MergedState(Record):
    """What came of a merge."""

    root: ChunkHash | None
    """Of the merged state, where it is one of both sides; then nothing has to be encoded."""
    data: bytes
    """The merged state as it is encoded; empty where there is a root."""
    conflicts: tuple[MergeConflict, ...] = ()
    """What nobody decided on; in the data our side stands in its place."""
    resolved: tuple[MergeResolution, ...] = ()


class MergedValue(Record):
    """What came of a merge of values at hand."""

    value: Any
    conflicts: tuple[MergeConflict, ...]
    resolved: tuple[MergeResolution, ...]


def merge_roots(
    base: ChunkHash, ours: ChunkHash, theirs: ChunkHash, read: Read, types: TypeRegistry, resolver: Resolver
) -> MergedState:
    """Merge two stored states that come from one.

    What has the same hash on two sides is taken from one of them without being looked into; only to write the merged
    state is it read once.

    Raises:
        IntegrityError: A chunk is missing or damaged.
        StateError: The chunks are no state (`decode-failed`).
    """
    if theirs in (ours, base):
        return MergedState(ours, b"")
    if ours == base:
        return MergedState(theirs, b"")
    chunks = read_chunks([base, ours, theirs], read)
    merge = Merge(read, types, resolver)
    try:
        was, mine, other = (_opened(root, chunks[root], read) for root in (base, ours, theirs))
        merged = merge.run(was, mine, other)
        root = next(
            (name for name, side in ((ours, mine), (theirs, other)) if side.token == merged.token), None
        )
        data = b"" if root is not None else whole(merged, read)
    except MalformedNodeError as error:
        raise not_a_state(ours, error) from error
    return MergedState(root, data, tuple(merge.conflicts), tuple(merge.resolved))


def merge_values(
    base: Any, ours: Any, theirs: Any, types: TypeRegistry, resolve: Resolve = None
) -> MergedValue:
    """Merge two values at hand that come from one.

    Raises:
        InvalidInputError: One of them cannot be kept, or `resolve` cannot decide.
    """
    resolver = Resolver(resolve, types)
    sides = [Encoded(encode_value(each, types)) for each in (base, ours, theirs)]
    while True:
        resolver.begin()
        merge = Merge(_no_chunks, types, resolver)
        merged = merge.run(*sides)
        if not resolver.ask():
            break
    value = decode_value(whole(merged, _no_chunks), types)
    return MergedValue(value, tuple(merge.conflicts), tuple(merge.resolved))


def _opened(root: ChunkHash, chunk: bytes, read: Read) -> Value:
    kind = chunk[0] if chunk else 0
    if kind == nodes.TREE:
        return Large(chunk[1:])
    if kind != nodes.WHOLE:
        # Says what is wrong with it.
        open_root(root, read)
    return Encoded(chunk[1:])


def _no_chunks(names: Any) -> dict[ChunkHash, bytes]:
    raise AssertionError(f"values at hand have no chunks: {list(names)}")
