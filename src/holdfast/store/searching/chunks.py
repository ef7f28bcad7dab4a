"""States opened for searching, whose values are compared as they are encoded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.diffing.encoded import Encoded, Large, Value
from holdfast.objects.tree.nodes import MalformedNodeError, Node
from holdfast.objects.tree.read import Read, join_node, not_a_state, open_root
from holdfast.storage.records import ChunkHash


def open_state(root: ChunkHash, read: Read) -> Value:
    """The whole state as a value that is not decoded."""
    start = open_root(root, read)
    return Large(start.pack()) if isinstance(start, Node) else Encoded(bytes(start))


def decoded(value: Value, read: Read, types: TypeRegistry) -> Any:
    """The value itself."""
    return decode_value(value.data if isinstance(value, Encoded) else join_node(value.node, read), types)


def same(one: Value | None, other: Value | None, read: Read) -> bool:
    """Whether two values are equal, types and order included."""
    if one is None or other is None:
        return one is other
    if one.token == other.token:
        return True
    if isinstance(one, Encoded) and isinstance(other, Large):
        one, other = other, one
    if isinstance(one, Large) and isinstance(other, Encoded):
        # The same value stands whole in a tuple, and as a tree of its own in a list.
        return one.node.size == len(other.data) and join_node(one.node, read) == other.data
    return False


@contextmanager
def reading_state(root: ChunkHash) -> Iterator[None]:
    """Where the bytes turn out to be no state, say whose they are."""
    try:
        yield
    except MalformedNodeError as error:
        raise not_a_state(root, error) from error
