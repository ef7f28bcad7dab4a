"""What a writer remembers of the tree it saved last, to find what has not changed since.

A plain state is encoded anew for every save: its objects may have changed anywhere, and no identity of a mutable object
is trusted. What is saved is everything after that: a run of items whose encoded bytes have the same fingerprint as
before is the same chunk, and is neither cut, hashed, compressed nor written again. The memo holds fingerprints and
hashes, about 150 bytes for each 16 KB of state, and no state.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import xxhash

from holdfast.objects.nodes import Entry
from holdfast.storage.records import ChunkHash

HEAD_BYTES = 24
"""So much of a run's beginning leads to the run it may be again; the fingerprint decides."""


def fingerprint(data: bytes | memoryview) -> bytes:
    """128 bits that tell runs apart within one writer; never stored, never taken for a hash."""
    return xxhash.xxh3_128_digest(data)


@dataclass(frozen=True, slots=True)
class RunMemo:
    """A run as it was saved last."""

    entry: Entry | None
    """Its chunk; None for the run at the end, which is not full and stands in the node."""
    count: int
    size: int
    """Encoded bytes."""
    print: bytes | None
    """Of its encoded bytes; None where they were never together in one piece."""
    head: bytes
    binary: bool
    """Whether there are bytes among its values: a bytearray in their place would be encoded alike (`bulk`)."""


@dataclass(slots=True)
class NodeMemo:
    """A node as it was saved last."""

    kind: int
    leaves: list[RunMemo] = field(default_factory=list)
    tail: RunMemo | None = None
    """The run at the end; None where it is empty, or where nodes stand in it."""
    indexes: list[list[ChunkHash]] = field(default_factory=list)
    """The index chunks of each level, from the left."""
    children: dict[object, NodeMemo] = field(default_factory=dict)
    """The nodes among its items, by key or position."""
    _by_head: dict[bytes, int] | None = None

    def find(self, head: bytes) -> int | None:
        """The position of a run that began with these bytes."""
        if self._by_head is None:
            self._by_head = {leaf.head: position for position, leaf in enumerate(self.leaves)}
        return self._by_head.get(head)


@dataclass(frozen=True, slots=True)
class StateMemo:
    """A state as it was saved last."""

    root: ChunkHash
    node: NodeMemo | None
    chunks: frozenset[ChunkHash]
    """Every chunk of it: they are in the store, and need not be sent again."""
