"""Chunks that were read and found whole, kept for whoever reads them next.

A chunk is named by its hash, so one that is kept can never be out of date, and one view is as good as another to have
taken it from. States that follow each other share nearly all of their chunks: who goes back and forth in a history, or
loads the newest state again and again, reads what is new and no more.

What is kept is a help and no duty. So nobody waits for anybody: a thread that finds another one at it takes what is
there and keeps nothing this time. And none of it is used after ten minutes, so that a process that lives for weeks
reads what is in the store. No thread watches the time: it goes when the store is called next, for whatever it be.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from holdfast.storage.records import ChunkHash

KEPT_BYTES: Final = 16 << 20
"""Of chunks, and of what it takes to keep them."""

TRUSTED_SECONDS: Final = 600.0
"""Bytes on a disk may be damaged after they were read. Nobody builds on what was read before for longer than this."""

_BESIDE: Final = 330
"""Bytes that a chunk takes beside its own, and no less: two objects, and its place among the others, of which there may
be three for each that is taken. For the moment in which that table is made anew there is one more of it."""

_MOST_ROOTS: Final = 256
"""Sessions of which the last root is known."""

_Read = Callable[[Iterable[ChunkHash]], Mapping[ChunkHash, bytes]]


class ChunksAtHand:
    """The chunks that were read last.

    Args:
        most_bytes: What they may take; none are kept where that is 0.
    """

    def __init__(self, most_bytes: int | None = None) -> None:
        self._most = KEPT_BYTES if most_bytes is None else most_bytes
        self._kept = KeptChunks(self._most)

    def begin(self) -> KeptChunks:
        """What one load works with, from its first chunk to its last.

        Taken before the load opens its view of the store. A load that still sees what is about to be forgotten then has
        what `clear` takes away, and whatever it brings goes with that.
        """
        self.let_go()
        return self._kept

    def let_go(self) -> None:
        """Let go of what is too old to be trusted, and was kept for nobody if nobody has loaded since."""
        if time.monotonic() > self._kept.until:
            self.clear()

    def or_own(self) -> ChunksAtHand:
        """This one; or, where none may be kept here, another for the caller alone."""
        return self if self._most else ChunksAtHand()

    def clear(self) -> None:
        """Let go of all of them, and of those that loads under way are about to bring."""
        self._kept = KeptChunks(self._most)


class KeptChunks:
    """Chunks in the order of their last use. Emptied by taking another: who still has this one harms nobody."""

    __slots__ = ("_changing", "_chunks", "_left", "_most", "_roots", "until")

    def __init__(self, most: int) -> None:
        self._most = self._left = most
        self._chunks: OrderedDict[ChunkHash, bytes] = OrderedDict()
        self._roots: dict[str, ChunkHash] = {}
        # Never waited for: a fork may leave it taken for ever, and another thread may be at work.
        self._changing = threading.Lock()
        self.until = time.monotonic() + TRUSTED_SECONDS

    def through(self, read: _Read, size_bytes: int = 0) -> _Read:
        """`read`, asked only for what is not here.

        Args:
            read: Asks the store.
            size_bytes: Of all that will be read, where that is known. What is larger than all that may be kept would
                push out everything else and then its own beginning, and is read past it.
        """
        if size_bytes > self._most:
            return read

        def reading(names: Iterable[ChunkHash]) -> Mapping[ChunkHash, bytes]:
            wanted = list(names)
            known = self.among(wanted)
            missing = [name for name in wanted if name not in known] if len(known) < len(wanted) else []
            return FoundChunks(self, known, read(missing) if missing else {})

        return reading

    def root_of(self, session: str) -> ChunkHash | None:
        """The root of the state of that session that was loaded last, if it is here: most often it is the next, too."""
        root = self._roots.get(session)
        return root if root in self._chunks else None

    def note_root(self, session: str, root: ChunkHash) -> None:
        """Note which root is being loaded."""
        if len(self._roots) >= _MOST_ROOTS:
            self._roots.clear()
        self._roots[session] = root

    def among(self, wanted: Iterable[ChunkHash]) -> dict[ChunkHash, bytes]:
        """Those of the chunks that are here."""
        known = {name: data for name in wanted if (data := self._chunks.get(name)) is not None}
        if known and self._changing.acquire(blocking=False):
            try:
                for name in known:
                    if name in self._chunks:
                        self._chunks.move_to_end(name)
            finally:
                self._changing.release()
        return known

    def keep(self, name: ChunkHash, data: bytes) -> None:
        """Keep a chunk that is what its name says; of one that is not, others would be told, too."""
        cost = len(data) + _BESIDE
        if cost > self._most or not self._changing.acquire(blocking=False):
            return
        try:
            # An interrupt between two of these lines leaves less room than there is, perhaps none at all; never more.
            if name not in self._chunks:
                self._left -= cost
                self._chunks[name] = data
            while self._left < 0 and self._chunks:
                _, gone = self._chunks.popitem(last=False)
                self._left += len(gone) + _BESIDE
        finally:
            self._changing.release()


class FoundChunks(Mapping[ChunkHash, bytes]):
    """What was at hand, and what was read: each chunk of that may be expanded when it is looked at, and only then."""

    __slots__ = ("_kept", "_read", "known")

    def __init__(
        self, kept: KeptChunks, known: Mapping[ChunkHash, bytes], read: Mapping[ChunkHash, bytes]
    ) -> None:
        self._kept = kept
        self._read = read
        self.known = known
        """Those that are known to be what their names say."""

    def keep(self, name: ChunkHash, data: bytes) -> None:
        """Keep one of those that were read: it is what its name says."""
        self._kept.keep(name, data)

    def __getitem__(self, name: ChunkHash) -> bytes:
        return self.known[name] if name in self.known else self._read[name]

    def from_store(self, name: ChunkHash) -> bytes | None:
        """One that was not at hand, if the store has it."""
        return self._read.get(name)

    def __iter__(self) -> Iterator[ChunkHash]:
        yield from self.known
        yield from self._read

    def __len__(self) -> int:
        return len(self.known) + len(self._read)
