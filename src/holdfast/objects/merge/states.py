"""Three states to merge: stored ones by their roots, or values at hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.diff.encoded_value import Encoded
from holdfast.objects.merge.conflict import MergeConflict, MergeResolution
from holdfast.objects.merge.merge import Merge
from holdfast.objects.merge.resolve import Pattern, Resolve, Resolver, no_such_place, only_as_a_whole
from holdfast.objects.tree.nodes import MalformedNodeError
from holdfast.objects.tree.read import Read, join_state, not_a_state
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

    With several ancestors, what follows from one of them counts only where they agree. With `exact=False` they are
    older than the last one that both sides had, and what differs is a conflict.

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
    known: dict[ChunkHash, bytes] = {}

    def read_once(names: Iterable[ChunkHash]) -> dict[ChunkHash, bytes]:
        wanted = list(names)
        known.update(read([name for name in wanted if name not in known]))
        return {name: known[name] for name in wanted if name in known}

    states = {root: Encoded(b"".join(join_state(root, read_once))) for root in (*bases, ours, theirs)}
    known.clear()
    merge = Merge(types, resolver, exact=exact)
    try:
        merged = merge.run([states[root] for root in bases], states[ours], states[theirs])
        unused = _checked_rules(resolver, merge, list(states.values()))
    except MalformedNodeError as error:
        raise not_a_state(ours, error) from error
    root = next((each for each in (ours, theirs) if states[each].data == merged.data), None)
    data = merged.data if root is None else b""
    return MergedState(root, data, tuple(merge.conflicts), tuple(merge.resolved), unused)


def merge_values(
    bases: Sequence[Any],
    ours: Any,
    theirs: Any,
    types: TypeRegistry,
    resolve: Resolve = None,
    *,
    exact: bool = True,
) -> MergedValue:
    """Merge two values at hand; see `merge_roots`.

    Raises:
        InvalidInputError: One of them cannot be kept, or `resolve` cannot decide.
    """
    resolver = Resolver(resolve, types)
    *was, mine, other = (Encoded(encode_value(each, types)) for each in (*bases, ours, theirs))
    while True:
        resolver.begin()
        merge = Merge(types, resolver, exact=exact)
        merged = merge.run(was, mine, other)
        _checked_rules(resolver, merge, [mine, other, *was])
        if not resolver.ask():
            break
    return MergedValue(decode_value(merged.data, types), tuple(merge.conflicts), tuple(merge.resolved))


def _checked_rules(resolver: Resolver, merge: Merge, states: Sequence[Encoded]) -> tuple[str, ...]:
    """The plain paths that decided nothing; those that are nowhere are refused if there was something to decide."""
    conflicts = [*merge.conflicts, *(each.conflict for each in merge.resolved)]
    unused = resolver.unused(conflicts)
    if conflicts:
        for pattern in resolver.plain():
            around = next((each for each in conflicts if pattern.is_part_of(each.steps)), None)
            if around is not None:
                raise only_as_a_whole(pattern, around)
        for pattern in unused:
            if not pattern.is_in(states):
                raise no_such_place(pattern, conflicts)
    return _texts(unused)


def _texts(patterns: Iterable[Pattern]) -> tuple[str, ...]:
    return tuple(each.text for each in patterns)
