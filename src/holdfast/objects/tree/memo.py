"""What a writer remembers of the tree it saved last, to find what has not changed since.

A plain state is encoded anew for every save: its objects may have changed anywhere, and no identity of a mutable object
is trusted. What is saved is everything after that: a run of items whose encoded bytes have the same fingerprint as
before is the same chunk, and is neither cut, hashed, compressed nor written again. The memo holds fingerprints and
hashes, about 250 bytes for each 16 KB of state, and no state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import xxhash

from holdfast.objects.tree.nodes import Entry
from holdfast.record import Record
from holdfast.storage.records import ChunkHash

HEAD_BYTES = 24
"""So much of a run's beginning leads to the run it may be again; the fingerprint decides."""


fingerprint = xxhash.xxh3_128_digest
"""128 bits that tell runs apart within one writer; never stored, never taken for a hash. Called for each run of each
save, so there is no function around it."""


class Together(Protocol):
    """A way to look at a list of objects of certain classes, all at once; see `Shape`."""

    def marks(self, objects: list[Any]) -> list[Any]:
        """What is compared: one value for each object."""
        ...

    def remembered(self, marks: list[Any]) -> list[Any]:
        """Values equal to these, which never change."""
        ...

    def seen(self, objects: list[Any]) -> list[Any]:
        """With the classes and the marks, this tells any two lists of objects apart."""
        ...


class Alike(Record):
    """Objects that were looked at together."""

    together: Together
    classes: list[type]
    marks: list[Any]


# Not frozen, though nothing changes one: see `nodes.Entry`.
@dataclass(slots=True)
class RunMemo:
    """A run as it was saved last."""

    entry: Entry | None
    """Its chunk; None for the run at the end, which is not full."""
    count: int
    size: int
    """Encoded bytes."""
    print: bytes | None
    """Of a list of these items alone, or of keys and values in turn, encoded; None where nodes stand in it. A run
    that is full and has objects in it may have the one of `BulkPacker.look` in its place."""
    head: bytes
    binary: bool
    """Whether there are bytes among its values: a bytearray in their place would be encoded alike (`bulk`)."""
    looked: bool = False
    """Whether the print is that of `BulkPacker.look`."""
    alike: Alike | None = None
    """What that left out: it is compared before."""


@dataclass(frozen=True, slots=True)
class IndexMemo:
    """An index as it was saved last."""

    entry: Entry
    entries: list[Entry]


@dataclass(slots=True)
class NodeMemo:
    """A node as it was saved last."""

    kind: int
    leaves: list[RunMemo] = field(default_factory=list)
    tail: RunMemo | None = None
    """The run at the end; None where it is empty, or where nodes stand in it."""
    indexes: list[list[IndexMemo]] = field(default_factory=list)
    """The index chunks of each level, from the left."""
    spilled: list[ChunkHash] = field(default_factory=list)
    """The chunks of what the node had no room for."""
    children: dict[object, NodeMemo] = field(default_factory=dict)
    """The nodes among its items, by key or position."""
    _by_head: dict[bytes, int] | None = None

    def runs(self) -> list[RunMemo]:
        """All runs; one that is not full comes last."""
        return self.leaves if self.tail is None else [*self.leaves, self.tail]

    def find(self, head: bytes) -> int | None:
        """The position of a run that began with these bytes."""
        if not head:
            return None
        if self._by_head is None:
            self._by_head = {run.head: position for position, run in enumerate(self.runs()) if run.head}
        return self._by_head.get(head)


@dataclass(slots=True)
class StateMemo:
    """A state as it was saved last."""

    root: ChunkHash
    node: NodeMemo | None
    chunks: frozenset[ChunkHash]
    """Every chunk of it: they are in the store, and need not be sent again."""
