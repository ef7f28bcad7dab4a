"""What a backend remembers of the chunks it wrote last, so that the next save can build on them without reading.

Plain bytes, to make differences to; and for roots, which change with every save, the open stream of their versions. A
stream is right only as long as the row that it wrote last is the row in the store. So it is taken out while it is
used, comes back under its new name after the commit, and is dropped with everything that goes another way.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from holdfast.objects.compression import VersionStream
from holdfast.record import Record
from holdfast.storage.records import ChunkHash

_MOST_STREAMS: Final = 8
"""A stream takes 1.2 MB. One is in use for each session that is being written."""


class Known(Record):
    """A chunk that is at hand."""

    data: bytes
    depth: int | None
    """How many others it stands on in the store, if that is known."""


class OpenStream(Record):
    """A stream, and the row that it wrote last."""

    stream: VersionStream
    number: int
    depth: int
    blocks: bytes
    size_bytes: int


class RecentChunks:
    """The chunks that were written last, and the streams that are open."""

    def __init__(self, limit_bytes: int = 4 << 20) -> None:
        self._limit = limit_bytes
        self._size = 0
        self._chunks: OrderedDict[ChunkHash, Known] = OrderedDict()
        self._streams: OrderedDict[ChunkHash, OpenStream] = OrderedDict()
        # Threads share a backend, and an OrderedDict that two of them reorder at once breaks. Reentrant: a signal
        # handler, or what is collected as garbage, may save something in the thread that has it, after any call.
        self._lock = threading.RLock()

    def get(self, name: ChunkHash) -> Known | None:
        """A chunk, if it is here."""
        with self._lock:
            known = self._chunks.get(name)
            if name in self._chunks:
                self._chunks.move_to_end(name)
            return known

    def put(self, name: ChunkHash, data: bytes, depth: int | None = None) -> None:
        """Keep a chunk, and drop the oldest ones for it."""
        known, size = Known(data, depth), len(data)
        if size > self._limit // 4:
            return
        with self._lock:
            # No call from here to where it is counted.
            if name in self._chunks:
                return
            self._chunks[name] = known
            self._size += size
            while self._size > self._limit:
                _, dropped = self._chunks.popitem(last=False)
                size = len(dropped.data)
                self._size -= size

    def take_stream(self, name: ChunkHash) -> OpenStream | None:
        """The stream whose newest version is this chunk; it is the caller's alone from now on."""
        with self._lock:
            return self._streams.pop(name, None)

    def put_stream(self, name: ChunkHash, stream: OpenStream) -> None:
        """Keep a stream whose newest version is this chunk and is in the store, as it says."""
        with self._lock:
            self._streams[name] = stream
            while len(self._streams) > _MOST_STREAMS:
                self._streams.popitem(last=False)
