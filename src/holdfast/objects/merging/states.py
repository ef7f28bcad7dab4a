"""Three states to merge: stored ones by their roots, or values at hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.diffing.encoded import Encoded, Large, Value
from holdfast.objects.merging.building import whole
from holdfast.objects.merging.conflict import MergeConflict, MergeResolution
from holdfast.objects.merging.opening import Opening
from holdfast.objects.merging.patterns import Pattern, is_there
from holdfast.objects.merging.resolving import Resolve, Resolver, no_such_place, only_as_a_whole
from holdfast.objects.merging.unsure import UnsureBase, UnsureMerge
from holdfast.objects.merging.values import Merge
from holdfast.objects.tree import nodes
from holdfast.objects.tree.nodes import MalformedNodeError
from holdfast.objects.tree.read import Read, not_a_state, open_root, read_chunks
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
    unused: tuple[str, ...] = ()
    """Plain paths of `resolve` that no conflict was at."""


class MergedValue(Record):
    """What came of a merge of values at hand."""

    value: Any
    conflicts: tuple[MergeConflict, ...]
    resolved: tuple[MergeResolution, ...]


def merge_roots(
    bases: Sequence[ChunkHash],
    ours: ChunkHash,
    theirs: ChunkHash,
    read: Read,
    types: TypeRegistry,
    resolver: Resolver,
    *,
    exact: bool = True,
) -> MergedState:
    """Merge two stored states that come from one, or from several.

    What has the same hash on two sides is taken from one of them without being looked into; only to write the merged
    state is it read once. With several ancestors, what follows from one of them counts only if it follows from all.
    With `exact=False` they are older than the last one that both sides had, and what differs is a conflict.

    Raises:
        IntegrityError: A chunk is missing or damaged.
        StateError: The chunks are no state (`decode-failed`).
        InvalidInputError: `resolver` has a path that is nowhere, while there are conflicts elsewhere.
    """
    bases = [*dict.fromkeys(bases)]
    if theirs == ours or (exact and bases == [theirs]):
        return MergedState(ours, b"", unused=_texts(resolver.unused()))
    if exact and bases == [ours]:
        return MergedState(theirs, b"", unused=_texts(resolver.unused()))
    chunks = read_chunks([*dict.fromkeys([*bases, ours, theirs])], read)
    try:
        *was, mine, other = (_opened(root, chunks[root], read) for root in (*bases, ours, theirs))
        merge = _kind(was, exact=exact)(read, types, resolver)
        merged = merge.run(_ancestor(was, exact=exact), mine, other)
        unused = _checked_rules(resolver, merge, [mine, other, *was], read)
        root = next(
            (name for name, side in ((ours, mine), (theirs, other)) if side.token == merged.token), None
        )
        data = b"" if root is not None else whole(merged, read)
    except MalformedNodeError as error:
        raise not_a_state(ours, error) from error
    return MergedState(root, data, tuple(merge.conflicts), tuple(merge.resolved), unused)


def merge_values(
    base: Any, ours: Any, theirs: Any, types: TypeRegistry, resolve: Resolve = None
) -> MergedValue:
    """Merge two values at hand that come from one.

    Raises:
        InvalidInputError: One of them cannot be kept, or `resolve` cannot decide.
    """
    return merge_unsurely([base], ours, theirs, types, resolve)


def merge_unsurely(
    bases: Sequence[Any],
    ours: Any,
    theirs: Any,
    types: TypeRegistry,
    resolve: Resolve = None,
    *,
    exact: bool = True,
) -> MergedValue:
    """The same with several ancestors, or with one that is not the last; see `merge_roots`."""
    resolver = Resolver(resolve, types)
    *was, mine, other = (Encoded(encode_value(each, types)) for each in (*bases, ours, theirs))
    while True:
        resolver.begin()
        merge = _kind(was, exact=exact)(_no_chunks, types, resolver)
        merged = merge.run(_ancestor(was, exact=exact), mine, other)
        _checked_rules(resolver, merge, [mine, other, *was], _no_chunks)
        if not resolver.ask():
            break
    value = decode_value(whole(merged, _no_chunks), types)
    return MergedValue(value, tuple(merge.conflicts), tuple(merge.resolved))


def _checked_rules(resolver: Resolver, merge: Merge, states: Sequence[Value], read: Read) -> tuple[str, ...]:
    """The plain paths that decided nothing; those that are nowhere are refused if there was something to decide."""
    conflicts = [*merge.conflicts, *(each.conflict for each in merge.resolved)]
    unused = resolver.unused(conflicts)
    if conflicts:
        opening = Opening(read)
        for pattern in resolver.plain():
            around = next((each for each in conflicts if pattern.is_part_of(each.steps)), None)
            if around is not None:
                raise only_as_a_whole(pattern, around)
        for pattern in unused:
            if not is_there(pattern, states, opening):
                raise no_such_place(pattern, conflicts)
    return _texts(unused)


def _texts(patterns: Iterable[Pattern]) -> tuple[str, ...]:
    return tuple(each.text for each in patterns)


def _kind(bases: Sequence[Value], *, exact: bool) -> type[Merge]:
    return Merge if exact and len(bases) == 1 else UnsureMerge


def _ancestor(bases: Sequence[Value], *, exact: bool) -> Value:
    return bases[0] if exact and len(bases) == 1 else UnsureBase(bases, exact=exact)


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
