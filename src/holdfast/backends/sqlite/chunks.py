"""The chunk table: whole chunks, compressed, and what was added to other chunks, at most `MAX_DEPTH` on each other.

A save names for each new chunk the one it probably follows from: the last version of the same part. Where that one is
in the store, and does not stand on too many others, only the difference is kept. Chunks that are read more often than
they change (a full run of a list) come without such a name, and are kept whole. A root, which every save changes, is
the next version in a stream (`objects/streams.py`) where the last one was written from here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import apsw

from holdfast.backends.sqlite.connection import Row, fetch
from holdfast.backends.sqlite.recent import Known, OpenStream, RecentChunks
from holdfast.errors import IntegrityError
from holdfast.objects.compression import RAW, compress, damaged, expand
from holdfast.objects.deltas import DELTA, grow, shrink
from holdfast.objects.links import refers
from holdfast.objects.streams import STREAM, VersionStream, unfold
from holdfast.storage.records import Chunk, ChunkHash

MAX_DEPTH: Final = 32
"""Differences on each other. Twice as many would save 7 % of a growing conversation and read the last part of it at
half the speed (docs/benchmarks.md)."""

_SETTLED: Final = 16
"""From this depth on, a version that is less than half of the last one begins a new stream: after a run of a list was
completed there is little in the root, and a whole copy of it costs least."""

_WORTH_A_STREAM: Final = 512

_SELECT = "SELECT hash, number, codec, size_bytes, base, depth, data FROM chunks WHERE hash = ?"
# All that a chunk stands on in one statement. One row more than there may be shows that there are too many.
_SELECT_BASES = (
    "WITH RECURSIVE stands_on (number, codec, size_bytes, base, depth, data) AS ("  # noqa: S608 - constants
    "SELECT number, codec, size_bytes, base, depth, data FROM chunks WHERE number = ? UNION ALL "
    "SELECT c.number, c.codec, c.size_bytes, c.base, c.depth, c.data FROM stands_on AS s "
    f"CROSS JOIN chunks AS c ON c.number = s.base LIMIT {MAX_DEPTH + 1}) SELECT * FROM stands_on"
)
_SELECT_PLACE = "SELECT number, depth, base, epoch FROM chunks WHERE hash = ?"
_SELECT_BELOW = "SELECT number, depth, base, epoch FROM chunks WHERE number = ?"
_SELECT_VERSION = "SELECT number, depth, base, epoch, data FROM chunks WHERE hash = ?"
_INSERT = (
    "INSERT INTO chunks (hash, codec, size_bytes, base, depth, epoch, refers, data) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_STAMP = "UPDATE chunks SET epoch = ? WHERE number = ?"


@dataclass(slots=True)
class PackedChunk:
    """A chunk ready to be written: whole, as what it adds to another chunk, or not packed because it is there."""

    chunk: Chunk
    codec: int = RAW
    data: bytes | None = None
    stream: VersionStream | None = None
    """Where it is the newest version of one."""
    last: OpenStream | None = None
    """The row that the stream wrote before; None for a stream that begins here."""
    number: int = 0
    """Of the row that was written; 0 where none was."""
    depth: int = 0


def pack(
    chunks: Sequence[Chunk],
    roots: Collection[ChunkHash],
    recent: RecentChunks,
    present: Collection[ChunkHash],
) -> list[PackedChunk]:
    """Compress chunks, but for those that are there. It takes long, so it is done before the transaction.

    Args:
        chunks: The chunks of a batch.
        roots: Those that stand for states.
        recent: What the backend remembers; streams are taken out of it, and `remember` brings them back.
        present: Chunks that are in the store.
    """
    return [
        PackedChunk(chunk) if chunk.hash in present else _pack(chunk, chunk.hash in roots, recent)
        for chunk in chunks
    ]


def remember(packed: Iterable[PackedChunk], recent: RecentChunks) -> None:
    """Keep what the next save builds on, after the commit."""
    for each in packed:
        recent.put(each.chunk.hash, each.chunk.data, each.depth if each.number else None)
        if each.stream is not None and each.number and each.data is not None:
            recent.put_stream(
                each.chunk.hash,
                OpenStream(each.stream, each.number, each.depth, each.data, len(each.chunk.data)),
            )


def _pack(chunk: Chunk, is_root: bool, recent: RecentChunks) -> PackedChunk:  # noqa: FBT001 - one of two ways
    streamed = is_root and len(chunk.data) >= _WORTH_A_STREAM
    if chunk.base is None:
        return _whole(chunk, streamed=streamed)
    last = recent.take_stream(chunk.base) if streamed else None
    if last is not None:
        return _next_version(chunk, last)
    base = recent.get(chunk.base)
    if base is None or not _can_carry(base):
        return _whole(chunk, streamed=streamed)
    delta = shrink(chunk.data, base.data)
    return _whole(chunk, streamed=streamed) if delta is None else PackedChunk(chunk, DELTA, delta)


def _can_carry(base: Known) -> bool:
    return base.depth is None or base.depth < MAX_DEPTH


def _next_version(chunk: Chunk, last: OpenStream) -> PackedChunk:
    settled = last.depth >= _SETTLED and 2 * len(chunk.data) < last.size_bytes
    if last.depth < MAX_DEPTH and not settled and last.stream.has_room(chunk.data):
        blocks = last.stream.add(chunk.data)
        if blocks is not None:
            return PackedChunk(chunk, STREAM, blocks, last.stream, last)
    return _whole(chunk, streamed=True)


def _whole(chunk: Chunk, *, streamed: bool) -> PackedChunk:
    if streamed:
        stream = VersionStream()
        blocks = stream.add(chunk.data) if stream.has_room(chunk.data) else None
        if blocks is not None:
            return PackedChunk(chunk, STREAM, blocks, stream)
    return PackedChunk(chunk, *compress(chunk.data))


def write_chunks(connection: apsw.Connection, packed: Iterable[PackedChunk], epoch: int) -> int:
    """Store the chunks that are not there yet; how many bytes they take. All of them get the stamp of this epoch."""
    stored_bytes = 0
    for each in packed:
        each.number = each.depth = 0
        if each.data is None:
            places = fetch(connection, _SELECT_PLACE, (each.chunk.hash,))
            if places:
                _stamp(connection, places[0], epoch)
                continue
            # It was there when the batch was packed, and has been removed since.
            each.codec, each.data = compress(each.chunk.data)
        base = None
        if each.codec == DELTA or each.last is not None:
            base = _place(connection, each)
            if base is None:
                # The base is not there, or stands on enough others already. The transaction waits for it, seldom.
                each.codec, each.data = compress(each.chunk.data)
                each.stream = each.last = None
        number, each.depth = (None, 0) if base is None else (base[0], base[1] + 1)
        if base is not None:
            _stamp(connection, base, epoch)
        plain = each.chunk.data
        row = (each.chunk.hash, each.codec, len(plain), number, each.depth, epoch, refers(plain), each.data)
        connection.execute(_INSERT, row)
        if connection.changes():
            each.number = connection.last_insert_rowid()
            stored_bytes += len(each.data)
        else:
            _stamp(connection, fetch(connection, _SELECT_PLACE, (each.chunk.hash,))[0], epoch)
    return stored_bytes


def _stamp(connection: apsw.Connection, place: Row, epoch: int) -> None:
    """Tell a collection that is under way that a chunk is needed, and with it all that it stands on.

    What a chunk stands on never has an older stamp than the chunk itself, so the first one with this stamp ends it.
    """
    number, _, base, stamp = place
    while stamp < epoch:
        connection.execute(_STAMP, (epoch, number))
        below = fetch(connection, _SELECT_BELOW, (base,))
        if not below:
            return
        number, _, base, stamp = below[0]


def _place(connection: apsw.Connection, each: PackedChunk) -> Row | None:
    """Number, depth, base and stamp of what a chunk was packed to stand on, if it is there and can carry one more."""
    if each.last is None:
        rows = fetch(connection, _SELECT_PLACE, (each.chunk.base,))
        return rows[0] if rows and rows[0][1] < MAX_DEPTH else None
    # Blocks fit only what the stream itself wrote. A row of the same plain bytes that came from elsewhere (a store
    # brought back from a copy, another writer) is not it.
    written = (each.last.number, each.last.depth, each.last.blocks)
    rows = fetch(connection, _SELECT_VERSION, (each.chunk.base,))
    return rows[0][:4] if rows and (*rows[0][:2], rows[0][4]) == written else None


def present_among(connection: apsw.Connection, names: Iterable[ChunkHash]) -> set[ChunkHash]:
    """Those of the chunks that are there."""
    return {name for name in names if fetch(connection, _SELECT_PLACE, (name,))}


def read_chunks(connection: apsw.Connection, names: Iterable[ChunkHash]) -> dict[ChunkHash, bytes]:
    """The plain bytes of those chunks that are there. Their hashes are for the caller to check."""
    # One statement that is run for each name. Left in the middle, it would hold the view open beyond its transaction.
    with closing(connection.executemany(_SELECT, [(name,) for name in names])) as rows:
        return {row[0]: _plain(connection, row[0], row[1:]) for row in rows}


def _plain(connection: apsw.Connection, name: ChunkHash, row: Row) -> bytes:
    chain = [row]
    if row[3] is not None:
        chain += fetch(connection, _SELECT_BASES, (row[3],))
    return plain_of(name, chain)


def plain_of(name: ChunkHash, chain: Sequence[Row]) -> bytes:
    """The plain bytes of a chunk from its row and those that it stands on.

    Each is (number, codec, size_bytes, base, depth, data), the chunk's own first.

    Raises:
        IntegrityError: They do not fit together.
    """
    _check_chain(name, chain)
    try:
        return _put_together(chain[::-1])
    except IntegrityError as error:
        raise IntegrityError.chunk_damaged(name, why=str(error)) from error


def _check_chain(name: ChunkHash, chain: Sequence[Row]) -> None:
    """Raise where what a chunk stands on is not what it was written on."""
    above = chain[0]
    for row in chain[1:]:
        # A base is older than what stands on it, so a damaged number cannot lead round in a circle.
        if row[0] != above[3] or row[0] >= above[0] or not row[4] < above[4] <= MAX_DEPTH:
            break
        above = row
    if above[3] is not None:
        raise IntegrityError.chunk_damaged(
            name, why=f"what it stands on (chunk number {above[3]}) is not there"
        )


def _put_together(chain: Sequence[Row]) -> bytes:
    """The plain bytes of the last row of a chain, which begins with a whole chunk."""
    if len(chain) == 1:
        return _whole_bytes(chain[0])
    versions = [(row[5], row[2]) for row in chain if row[1] == STREAM]
    # Versions of a stream stand on nothing else: where there are any, the chain begins with all of them.
    rest = chain[len(versions) :]
    if versions and all(row[1] == STREAM for row in chain[: len(versions)]):
        plain = unfold(versions)
    else:
        plain = _whole_bytes(chain[0])
        rest = chain[1:]
    for _, codec, size_bytes, _, _, data in rest:
        if codec != DELTA:
            raise damaged(f"codec {codec} in the middle of a chain")
        plain = grow(data, plain, size_bytes)
    return plain


def _whole_bytes(row: Row) -> bytes:
    _, codec, size_bytes, _, _, data = row
    return unfold([(data, size_bytes)]) if codec == STREAM else expand(codec, data, size_bytes)
