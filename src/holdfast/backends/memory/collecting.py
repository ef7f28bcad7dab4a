"""Removing chunks that no checkpoint needs from a store in memory, where chunks stand on nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager

from holdfast.backends.memory.moment import Moment
from holdfast.errors import IntegrityError
from holdfast.objects.tree.nodes import refers
from holdfast.storage.records import ChunkHash, Swept


class Signs:
    """What collections show of themselves: which is the newest, and when it was last at work."""

    def __init__(self) -> None:
        self._epoch = 0
        self._seen: float | None = None

    def give(self, epoch: int) -> None:
        """Show that the collection of that epoch is at work, unless a newer one is."""
        if epoch >= self._epoch:
            self._epoch, self._seen = epoch, time.monotonic()

    def end(self, epoch: int) -> None:
        """Take that back."""
        if epoch == self._epoch:
            self._seen = None

    def seen_within(self, seconds: float) -> bool:
        """Whether one has been at work so lately."""
        return self._seen is not None and time.monotonic() - self._seen < seconds


class MemoryCollection:
    """A `Collection` of a store in memory.

    Args:
        lock: Held by whoever looks at the store or changes it.
        newest: The store as it is, to look at.
        writable: The same, to change; None where nothing is to be swept.
        epoch: Chunks with an older stamp may go.
        signs: Where it shows that it is at work; None where it only counts.
    """

    def __init__(
        self,
        lock: AbstractContextManager[object],
        newest: Callable[[], Moment],
        writable: Callable[[], Moment] | None,
        epoch: int,
        signs: Signs | None = None,
    ) -> None:
        self._lock = lock
        self._newest = newest
        self._writable = writable
        self._epoch = epoch
        self._signs = signs
        self._marked: set[ChunkHash] = set()

    def mark(self, names: Iterable[ChunkHash]) -> Sequence[ChunkHash]:
        """See `Collection.mark`."""
        with self._lock:
            chunks = self._newest().chunks
            self._show()
            new = [name for name in dict.fromkeys(names) if name not in self._marked]
            for name in new:
                if name not in chunks:
                    raise IntegrityError.chunk_missing(name)
            self._marked.update(new)
            return [name for name in new if refers(chunks[name])]

    def unneeded(self) -> Swept:
        """See `Collection.unneeded`."""
        with self._lock:
            moment = self._newest()
            gone = self._gone(moment)
            return Swept(len(gone), sum(len(moment.chunks[name]) for name in gone), done=not gone)

    def sweep(self, limit: int) -> Swept:
        """See `Collection.sweep`."""
        if self._writable is None:
            return Swept()
        with self._lock:
            moment = self._writable()
            if moment.epoch != self._epoch:
                return Swept(superseded=True)
            self._show()
            gone = self._gone(moment)
            size = sum(len(moment.chunks[name]) for name in gone[:limit])
            for name in gone[:limit]:
                del moment.chunks[name], moment.stamps[name]
            return Swept(len(gone[:limit]), size, done=len(gone) <= limit)

    def _show(self) -> None:
        if self._signs is not None:
            self._signs.give(self._epoch)

    def _gone(self, moment: Moment) -> list[ChunkHash]:
        return [
            name for name, stamp in moment.stamps.items() if stamp < self._epoch and name not in self._marked
        ]
