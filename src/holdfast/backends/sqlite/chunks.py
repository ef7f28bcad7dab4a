"""The chunk table: whole chunks, compressed, and differences to other chunks, at most `MAX_DEPTH` on each other.

A save names for each new chunk the one it probably follows from: the last version of the same part. Where that one is
in the store, and does not stand on too many others, only the difference is kept. Chunks that are read more often than
they change (a full run of a list) come without such a name, and are kept whole.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import apsw

from holdfast.backends.sqlite.connection import Row, fetch
from holdfast.errors import IntegrityError
from holdfast.objects.compression import RAW, compress, expand
from holdfast.objects.deltas import DELTA, grow, shrink
from holdfast.storage.records import Chunk, ChunkHash

MAX_DEPTH: Final = 32
"""Differences on each other. Twice as many would save 7 % of a growing conversation and read the last part of it at
half the speed (docs/benchmarks.md)."""

_SELECT = "SELECT number, codec, size_bytes, base, depth, data FROM chunks WHERE hash = ?"
_SELECT_BASE = "SELECT number, codec, size_bytes, base, depth, data FROM chunks WHERE number = ?"
_SELECT_PLACE = "SELECT number, depth FROM chunks WHERE hash = ?"
_INSERT = (
    "INSERT INTO chunks (hash, codec, size_bytes, base, depth, data) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT DO NOTHING"
)


class ChunkCache:
    """The plain bytes of chunks that were written last: the next save builds on them, and need not read them."""

    def __init__(self, limit_bytes: int = 4 << 20) -> None:
        self._limit = limit_bytes
        self._size = 0
        self._chunks: OrderedDict[ChunkHash, bytes] = OrderedDict()
        # Threads share a backend, and an OrderedDict that two of them reorder at once breaks.
        self._lock = threading.Lock()

    def get(self, name: ChunkHash) -> bytes | None:
        """The bytes of a chunk, if they are here."""
        with self._lock:
            data = self._chunks.get(name)
            if data is not None:
                self._chunks.move_to_end(name)
            return data

    def put(self, name: ChunkHash, data: bytes) -> None:
        """Keep a chunk, and drop the oldest ones for it."""
        with self._lock:
            if name in self._chunks or len(data) > self._limit // 4:
                return
            self._chunks[name] = data
            self._size += len(data)
            while self._size > self._limit:
                _, dropped = self._chunks.popitem(last=False)
                self._size -= len(dropped)


@dataclass(slots=True)
class PackedChunk:
    """A chunk ready to be written: whole, as a difference to another chunk, or not packed because it is there."""

    chunk: Chunk
    codec: int = RAW
    data: bytes | None = None


def pack(chunks: Sequence[Chunk], cache: ChunkCache, present: Collection[ChunkHash]) -> list[PackedChunk]:
    """Compress chunks, but for those that are there. It takes long, so it is done before the transaction."""
    return [PackedChunk(chunk) if chunk.hash in present else _pack(chunk, cache) for chunk in chunks]


def _pack(chunk: Chunk, cache: ChunkCache) -> PackedChunk:
    base = cache.get(chunk.base) if chunk.base is not None else None
    delta = shrink(chunk.data, base) if base is not None else None
    if delta is not None:
        return PackedChunk(chunk, DELTA, delta)
    return PackedChunk(chunk, *compress(chunk.data))


def write_chunks(connection: apsw.Connection, packed: Iterable[PackedChunk]) -> int:
    """Store the chunks that are not there yet; how many bytes they take."""
    stored_bytes = 0
    for each in packed:
        if each.data is None:
            if fetch(connection, _SELECT_PLACE, (each.chunk.hash,)):
                continue
            # It was there when the batch was packed, and has been removed since.
            each.codec, each.data = compress(each.chunk.data)
        number, depth = None, 0
        if each.codec == DELTA:
            places = fetch(connection, _SELECT_PLACE, (each.chunk.base,))
            if places and places[0][1] < MAX_DEPTH:
                number, depth = places[0][0], places[0][1] + 1
            else:
                # The base is not there, or stands on enough others already. The transaction waits for it, seldom.
                each.codec, each.data = compress(each.chunk.data)
        row = (each.chunk.hash, each.codec, len(each.chunk.data), number, depth, each.data)
        connection.execute(_INSERT, row)
        if connection.changes():
            stored_bytes += len(each.data)
    return stored_bytes


def present_among(connection: apsw.Connection, names: Iterable[ChunkHash]) -> set[ChunkHash]:
    """Those of the chunks that are there."""
    return {name for name in names if fetch(connection, _SELECT_PLACE, (name,))}


def read_chunks(connection: apsw.Connection, names: Iterable[ChunkHash]) -> dict[ChunkHash, bytes]:
    """The plain bytes of those chunks that are there. Their hashes are for the caller to check."""
    found: dict[ChunkHash, bytes] = {}
    for name in names:
        rows = fetch(connection, _SELECT, (name,))
        if rows:
            found[name] = _plain(connection, name, rows[0])
    return found


def _plain(connection: apsw.Connection, name: ChunkHash, row: Row) -> bytes:
    chain = [row]
    while row[3] is not None:
        rows = fetch(connection, _SELECT_BASE, (row[3],))
        # A base is older than what stands on it, so a damaged number cannot lead round in a circle.
        if not rows or rows[0][0] >= row[0] or not rows[0][4] < row[4] <= MAX_DEPTH:
            raise IntegrityError.chunk_damaged(
                name, why=f"what it stands on (chunk number {row[3]}) is not there"
            )
        row = rows[0]
        chain.append(row)
    try:
        _, codec, size_bytes, _, _, data = chain.pop()
        plain = expand(codec, data, size_bytes)
        for _, _, size_bytes, _, _, data in reversed(chain):
            plain = grow(data, plain, size_bytes)
    except IntegrityError as error:
        raise IntegrityError.chunk_damaged(name, why=str(error)) from error
    return plain
