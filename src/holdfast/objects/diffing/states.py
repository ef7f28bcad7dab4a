"""Two states to compare: stored ones by their roots, or values at hand; the whole of them, or the part at a path."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.paths import parse_path
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.diffing.change import Change, PathStep, Place
from holdfast.objects.diffing.comparing import Comparison
from holdfast.objects.diffing.encoded import Encoded, Large, Value
from holdfast.objects.diffing.locating import Located, locate
from holdfast.objects.tree import nodes
from holdfast.objects.tree.nodes import MalformedNodeError
from holdfast.objects.tree.read import Read, join_node, not_a_state, open_root, read_chunks
from holdfast.objects.tree.select import missing
from holdfast.storage.records import ChunkHash


def changes_of_roots(
    old: ChunkHash,
    new: ChunkHash,
    read: Read,
    types: TypeRegistry,
    *,
    path: str | None = None,
    whole: bool = False,
) -> list[Change]:
    """What differs between two stored states, reading only that.

    Args:
        old: The root of the one before.
        new: The root of the one after.
        read: How chunks are fetched.
        types: The classes that values may hold.
        path: Only this part of both.
        whole: Read long texts whole, so that no change has an `Excerpt`, and a JSON patch needs nothing more.

    Raises:
        InvalidInputError: The path is none (`bad-path`).
        NotFoundError: Neither state has anything there (`path-missing`).
        IntegrityError: A chunk is missing or damaged.
        StateError: The chunks are no state (`decode-failed`).
    """
    steps = None if path is None else parse_path(path)
    if old == new and not steps:
        return []
    chunks = read_chunks([old, new], read)
    with _reading(new):
        before, after = (_opened(root, chunks[root], read) for root in (old, new))
        comparison = Comparison(read, types, whole=whole)
        if not steps:
            return comparison.changes(before, after)
        left, right = locate(before, steps, read), locate(after, steps, read)
        if left.value is None and right.value is None:
            raise missing(steps, max(left.depth, right.depth), "neither state has it")
        return comparison.changes(left.value, right.value, _place(left, right))


def changes_of_values(old: Any, new: Any, types: TypeRegistry) -> list[Change]:
    """What differs between two values at hand.

    Raises:
        InvalidInputError: One of them cannot be kept; the message has the path of what is in the way.
    """
    before, after = Encoded(encode_value(old, types)), Encoded(encode_value(new, types))
    return Comparison(_no_chunks, types, whole=True).changes(before, after)


def plain_value_at(root: ChunkHash, steps: tuple[PathStep, ...], read: Read) -> Any:
    """A part of a stored state as it is without any class; for a JSON patch, which may need more than what differs."""
    chunk = read_chunks([root], read)[root]
    with _reading(root):
        place = locate(_opened(root, chunk, read), [step.key for step in steps], read)
        assert place.value is not None
        data = place.value.data if isinstance(place.value, Encoded) else join_node(place.value.node, read)
    return decode_value(data, TypeRegistry())


@contextmanager
def _reading(root: ChunkHash) -> Iterator[None]:
    try:
        yield
    except MalformedNodeError as error:
        raise not_a_state(root, error) from error


def _opened(root: ChunkHash, chunk: bytes, read: Read) -> Value:
    kind = chunk[0] if chunk else 0
    if kind == nodes.TREE:
        return Large(chunk[1:])
    if kind != nodes.WHOLE:
        # Says what is wrong with it.
        open_root(root, read)
    return Encoded(chunk[1:])


def _place(left: Located, right: Located) -> Place:
    """Where both parts are; one that is missing is taken to be where the other is."""
    place = Place()
    one, other = (left if left.value is not None else right), (right if right.value is not None else left)
    for before, after in zip(one.steps, other.steps, strict=True):
        place = Place(place, before.step, after.step, prefix=after.prefix)
    return place


def _no_chunks(names: Any) -> dict[ChunkHash, bytes]:
    raise AssertionError(f"values at hand have no chunks: {list(names)}")
