"""What a document remembers of the tree it was encoded to, so that the next one can begin where that one ended.

Each large container has its node here: the chunks of every level, and the run at the end item by item. That is as large
as the index of the container and one run, not as its content: some 200 bytes for each 16 KB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from holdfast.objects.tree.new_chunks import HeldChunks
from holdfast.objects.tree.nodes import Entry
from holdfast.record import Record
from holdfast.storage.records import ChunkHash, NewChunk


class NewChunks:
    """Collects the chunks that the store does not have yet."""

    def __init__(self, *, wanted: bool = True) -> None:
        self._wanted = wanted
        self.chunks: dict[ChunkHash, NewChunk] = {}
        self._held = HeldChunks()

    def put(self, name: ChunkHash, data: bytes, base: ChunkHash | None) -> None:
        """Take a chunk; `base` is one that is probably much like it."""
        if self._wanted:
            self.chunks[name] = self._held.make(name, data, base)

    def adopt(self, chunk: NewChunk) -> None:
        """Take a chunk that another one made."""
        if self._wanted:
            self.chunks[chunk.hash] = chunk

    def leave_out(self, names: Iterable[ChunkHash]) -> None:
        """These were in the last tree: they need not be sent again."""
        if self.chunks:
            for name in names:
                self.chunks.pop(name, None)


class LargeValue(Record):
    """A long text, or anything else that is large and no container, with its node."""

    value: Any
    node: KeptNode


# No Record: its fields are looked at item by item in every save, which takes longer with those.
@dataclass(slots=True)
class Item:
    """An item of a list, or a pair of a dict, as it stands in its run."""

    literal: bytes
    """All of it; where it is a node, what comes before: the key of a pair, or nothing."""
    part: bytes | None
    """The node, where it is one."""
    size: int
    """Encoded bytes; more than these have where it is a node."""
    weight: int
    """What it counts for when runs are cut."""
    number: int
    """By which that is decided."""
    volatile: bool
    """Whether it may change without anything being written to the document."""
    large: LargeValue | None
    """Set where it is a node and no container, so that nothing else remembers it."""
    count: int = 1
    """More where it stands for several, none of which ends a run."""


class RunNote(Record):
    """What is to be known of a full run that is out of the ordinary."""

    mixed: bool
    """Whether nodes stand in it."""
    volatile: bool
    large: tuple[LargeValue, ...]


class Group(Record):
    """A full run, or a full index, on its way into a level."""

    entry: Entry
    width: int
    chunk: bytes
    note: RunNote | None = None


@dataclass(slots=True)
class Level:
    """The chunks of one level from left to right: of runs at the bottom, of indexes above."""

    entries: list[Entry] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    """How many units of what is below lie under each: items, or entries."""
    covered: int = 0
    """All of these together. Units behind them do not fill a chunk yet."""
    size: int = 0
    """Encoded bytes under all of them."""


@dataclass(slots=True)
class KeptNode:
    """A large value as it was encoded last."""

    kind: int
    levels: list[Level] = field(default_factory=lambda: [Level()])
    """From the bottom; the one on top has no chunks."""
    notes: list[RunNote | None] = field(default_factory=list)
    """One for each run of the lowest level."""
    tail: list[Item] = field(default_factory=list)
    """The run at the end, which is not full."""
    count: int = 0
    size: int = 0
    part: bytes = b""
    """How it stands in its parent."""
    pieces: tuple[ChunkHash, ...] = ()
    """All chunks of a value that is cut without regard to what is in it."""
    spilled: tuple[ChunkHash, ...] = ()
    """The chunks of what it had no room for."""

    def chunks(self) -> Iterator[ChunkHash]:
        """The names of its chunks; containers in it have nodes of their own."""
        yield from self.pieces
        yield from self.spilled
        for level in self.levels:
            for entry in level.entries:
                yield entry.hash
        for value in self.large_values():
            yield from value.node.pieces

    def large_values(self) -> Iterator[LargeValue]:
        """The large values in it that are no containers."""
        for note in self.notes:
            if note is not None:
                yield from note.large
        for item in self.tail:
            if item.large is not None:
                yield item.large

    def volatile_places(self) -> Iterator[int]:
        """One position in each run that has something volatile in it; at the end, that of each volatile item."""
        start = 0
        for width, note in zip(self.levels[0].widths, self.notes, strict=True):
            if note is not None and note.volatile:
                yield start
            start += width
        for item in self.tail:
            if item.volatile:
                yield start
            start += 1
