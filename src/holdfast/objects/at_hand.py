"""Chunks that were read and found whole, kept for whoever reads them next.

A chunk is named by its hash, so one that is kept can never be out of date, and one view is as good as another to have
taken it from. States that follow each other share nearly all of their chunks: who goes back and forth in a history, or
loads the newest state again and again, reads what is new and no more.

There are two generations. Chunks come into the young one; when that is full it becomes the old one, whose chunks go
unless they are asked for meanwhile. Nothing is counted down and nothing is moved within a generation, so threads need
no lock: where two of them come at once, a chunk may be kept twice or not at all, and either is fine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from holdfast.storage.records import ChunkHash

_Read = Callable[[Iterable[ChunkHash]], Mapping[ChunkHash, bytes]]

KEPT_BYTES: Final = 16 << 20
"""Of chunks, in both generations: a state of half of it is at hand as a whole when it is loaded again."""


class ChunksAtHand:
    """The chunks that were read last.

    Args:
        most_bytes: What they take at most, but for one chunk.
    """

    def __init__(self, most_bytes: int | None = None) -> None:
        self._most = KEPT_BYTES if most_bytes is None else most_bytes
        self._young: dict[ChunkHash, bytes] = {}
        self._old: dict[ChunkHash, bytes] = {}
        self._size = 0

    def through(self, read: _Read) -> _Read:
        """`read`, asked only for what is not at hand."""

        def reading(names: Iterable[ChunkHash]) -> Mapping[ChunkHash, bytes]:
            wanted = list(names)
            known = self._known(wanted)
            missing = [name for name in wanted if name not in known] if len(known) < len(wanted) else []
            return FoundChunks(self, known, read(missing) if missing else {})

        return reading

    def keep(self, name: ChunkHash, data: bytes) -> None:
        """Keep a chunk that is what its name says; of one that is not, others would be told, too."""
        if len(data) > self._most // 2:
            return
        self._young[name] = data
        self._size += len(data)
        if self._size > self._most // 2:
            self._old, self._young, self._size = self._young, {}, 0

    def clear(self) -> None:
        """Let go of all of them."""
        self._young, self._old, self._size = {}, {}, 0

    def _known(self, wanted: Iterable[ChunkHash]) -> dict[ChunkHash, bytes]:
        known: dict[ChunkHash, bytes] = {}
        for name in wanted:
            data = self._young.get(name)
            if data is None:
                data = self._old.get(name)
                if data is None:
                    continue
                # Asked for while it was about to go.
                self.keep(name, data)
            known[name] = data
        return known


class FoundChunks(Mapping[ChunkHash, bytes]):
    """What was at hand, and what was read: each chunk of that may be expanded when it is looked at, and only then."""

    __slots__ = ("_at_hand", "_read", "known")

    def __init__(
        self, at_hand: ChunksAtHand, known: Mapping[ChunkHash, bytes], read: Mapping[ChunkHash, bytes]
    ) -> None:
        self._at_hand = at_hand
        self._read = read
        self.known = known
        """Those that are known to be what their names say."""

    def keep(self, name: ChunkHash, data: bytes) -> None:
        """See `ChunksAtHand.keep`."""
        self._at_hand.keep(name, data)

    def __getitem__(self, name: ChunkHash) -> bytes:
        return self.known[name] if name in self.known else self._read[name]

    def __iter__(self) -> Iterator[ChunkHash]:
        yield from self.known
        yield from self._read

    def __len__(self) -> int:
        return len(self.known) + len(self._read)
