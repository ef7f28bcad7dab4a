"""States opened for searching: the value at the root, and chunks that are remembered from one state to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from holdfast.objects.codec import decode_value
from holdfast.objects.diffing.encoded import Encoded, Large, Value
from holdfast.objects.joining import join_node, not_a_state, open_root
from holdfast.objects.nodes import MalformedNodeError, Node
from holdfast.objects.registry import TypeRegistry
from holdfast.objects.verified import Read
from holdfast.storage.records import ChunkHash

_REMEMBERED_BYTES: Final = 8 << 20


class RecentChunks:
    """The chunks that were read last: states that follow each other share most of theirs."""

    def __init__(self) -> None:
        self._chunks: dict[ChunkHash, bytes] = {}
        self._size = 0

    def through(self, read: Read) -> Read:
        """`read`, asked only for what is not remembered."""

        def remembering(names: Iterable[ChunkHash]) -> Mapping[ChunkHash, bytes]:
            wanted = list(names)
            found = {name: self._chunks[name] for name in wanted if name in self._chunks}
            missing = [name for name in wanted if name not in found]
            if missing:
                # Once: each look at what was read may expand it anew.
                new = dict(read(missing))
                found.update(new)
                self._remember(new)
            return found

        return remembering

    def _remember(self, new: Mapping[ChunkHash, bytes]) -> None:
        self._chunks.update(new)
        self._size += sum(map(len, new.values()))
        while self._size > _REMEMBERED_BYTES:
            self._size -= len(self._chunks.pop(next(iter(self._chunks))))


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
