"""Removing chunks that no checkpoint needs from a store in memory, where chunks stand on nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager

from holdfast.backends.memory.moment import Moment
from holdfast.errors import IntegrityError
from holdfast.objects.links import refers
from holdfast.storage.records import ChunkHash, Swept


class MemoryCollection:
    """A `Collection` of a store in memory.

    Args:
        lock: Held by whoever looks at the store or changes it.
        newest: The store as it is, to look at.
        writable: The same, to change; None where nothing is to be swept.
        epoch: Chunks with an older stamp may go.
    """

    def __init__(
        self,
        lock: AbstractContextManager[object],
        newest: Callable[[], Moment],
        writable: Callable[[], Moment] | None,
        epoch: int,
    ) -> None:
        self._lock = lock
        self._newest = newest
        self._writable = writable
        self._epoch = epoch
        self._marked: set[ChunkHash] = set()

    def mark(self, names: Iterable[ChunkHash]) -> Sequence[ChunkHash]:
        """See `Collection.mark`."""
        with self._lock:
            chunks = self._newest().chunks
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
            gone = self._gone(moment)
            size = sum(len(moment.chunks[name]) for name in gone[:limit])
            for name in gone[:limit]:
                del moment.chunks[name], moment.stamps[name]
            return Swept(len(gone[:limit]), size, done=len(gone) <= limit)

    def _gone(self, moment: Moment) -> list[ChunkHash]:
        return [
            name for name, stamp in moment.stamps.items() if stamp < self._epoch and name not in self._marked
        ]
