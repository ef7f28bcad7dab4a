"""The chunk codec: how plain chunks become rows of the chunk table, and rows become plain chunks again.

A row holds a whole chunk, compressed, or a delta against another chunk (its base), at most `MAX_DEPTH` deep. A save
names for each new chunk the one it probably follows from: the last version of the same part. If that one is in the
store and not too deep, only the delta is kept. Chunks that are read more often than they change (a full run of a list)
come without such a name and are kept whole. A root changes with every save, so its versions form a stream.

Packing is slow, so it is done before the transaction. `RecentChunks` caches what the next save builds on.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Final, Protocol

from holdfast.backends.rows import Row
from holdfast.errors import IntegrityError
from holdfast.objects.compression import (
    DELTA,
    RAW,
    STREAM,
    VersionStream,
    damaged,
    expand,
    grow,
    shrink,
    unfold,
)
from holdfast.objects.tree.new_chunks import SqueezedChunk, squeeze
from holdfast.objects.tree.nodes import refers
from holdfast.objects.tree.read import read_chunk
from holdfast.record import Record
from holdfast.storage.copy_rows import Adoption
from holdfast.storage.records import Batch, Chunk, ChunkHash, NewChunk

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


MAX_DEPTH: Final = 32
"""Differences on each other. Twice as many would save 7 % of a growing conversation and read the last part of it at
half the speed (docs/benchmarks.md)."""

_SETTLED: Final = 16
"""From this depth on, a version that is less than half of the last one begins a new stream: after a run of a list was
completed there is little in the root, and a whole copy of it costs least."""

_WORTH_A_STREAM: Final = 512

_FEW: Final = 8
"""Chunks of a batch. A state that grows by steps fills one run at a time; who saves many at once waits for all."""


@dataclass(slots=True)
class PackedChunk:
    """A chunk ready to be written: whole, as what it adds to another chunk, or not packed because it is there."""

    chunk: NewChunk
    size_bytes: int
    """Its plain bytes."""
    refers: bool
    """Whether it may refer to others."""
    codec: int = RAW
    data: bytes | None = None
    stream: VersionStream | None = None
    """Where it is the newest version of one."""
    last: OpenStream | None = None
    """The row that the stream wrote before; None for a stream that begins here."""
    number: int = 0
    """Of the row that was written; 0 where none was."""
    depth: int = 0
    raw: bool = False
    """Whether it is to be stored as it is, not compressed."""

    def make_whole(self) -> None:
        """Pack it to stand alone: what it was to stand on, or was itself, is not there."""
        self.codec, self.data = (RAW, self.chunk.data) if self.raw else _compressed(self.chunk)
        self.stream = self.last = None


def pack(
    chunks: Iterable[NewChunk],
    roots: Collection[ChunkHash],
    recent: RecentChunks,
    present: Collection[ChunkHash],
    *,
    compress: bool = True,
) -> list[PackedChunk]:
    """Compress chunks, but for those that are there. It is slow, so it is done before the transaction.

    Args:
        chunks: The chunks of a batch.
        roots: Those that stand for states.
        recent: The cache; streams are taken out of it, and `remember` brings them back.
        present: Chunks that are in the store.
        compress: False: each is stored as it is, whole.
    """
    if not compress:
        return [_raw(chunk, is_there=chunk.hash in present) for chunk in chunks]
    chunks = list(chunks)
    quickly = len(chunks) > _FEW
    return [
        _packed(chunk) if chunk.hash in present else _pack(chunk, chunk.hash in roots, recent, quickly)
        for chunk in chunks
    ]


def remember(packed: Iterable[PackedChunk], recent: RecentChunks) -> None:
    """Keep what the next save builds on, after the commit."""
    for each in packed:
        # The others are many and large: those that are built on will be read.
        if isinstance(each.chunk, Chunk):
            recent.put(each.chunk.hash, each.chunk.data, each.depth if each.number else None)
        if each.stream is not None and each.number and each.data is not None:
            recent.put_stream(
                each.chunk.hash,
                OpenStream(each.stream, each.number, each.depth, each.data, each.size_bytes),
            )


def _pack(chunk: NewChunk, is_root: bool, recent: RecentChunks, quickly: bool) -> PackedChunk:  # noqa: FBT001
    """A chunk that is not in the store: a version of a stream, a delta, or whole."""
    if chunk.base is None and not is_root:
        return _packed(chunk, *_compressed(chunk, quickly=quickly))
    # Once: it may be made anew each time.
    plain = chunk.data
    packed = None
    if is_root and len(plain) >= _WORTH_A_STREAM:
        last = None if chunk.base is None else recent.take_stream(chunk.base)
        if last is not None:
            packed = _next_version(chunk, plain, last) or _first_version(chunk, plain)
        else:
            packed = _delta(chunk, plain, recent) or _first_version(chunk, plain)
    else:
        packed = _delta(chunk, plain, recent)
    return packed or _packed(chunk, *_compressed(chunk, quickly=quickly))


def _delta(chunk: NewChunk, plain: bytes, recent: RecentChunks) -> PackedChunk | None:
    base = None if chunk.base is None else recent.get(chunk.base)
    if base is None or (base.depth is not None and base.depth >= MAX_DEPTH):
        return None
    delta = shrink(plain, base.data)
    return None if delta is None else _packed(chunk, DELTA, delta)


def _next_version(chunk: NewChunk, plain: bytes, last: OpenStream) -> PackedChunk | None:
    settled = last.depth >= _SETTLED and 2 * len(plain) < last.size_bytes
    if last.depth >= MAX_DEPTH or settled or not last.stream.has_room(plain):
        return None
    blocks = last.stream.add(plain)
    return None if blocks is None else _packed(chunk, STREAM, blocks, last.stream, last)


def _first_version(chunk: NewChunk, plain: bytes) -> PackedChunk | None:
    stream = VersionStream()
    blocks = stream.add(plain) if stream.has_room(plain) else None
    return None if blocks is None else _packed(chunk, STREAM, blocks, stream)


def _raw(chunk: NewChunk, *, is_there: bool) -> PackedChunk:
    packed = _packed(chunk, RAW, None if is_there else chunk.data)
    packed.raw = True
    return packed


def _packed(
    chunk: NewChunk,
    codec: int = RAW,
    data: bytes | None = None,
    stream: VersionStream | None = None,
    last: OpenStream | None = None,
) -> PackedChunk:
    if isinstance(chunk, SqueezedChunk):
        return PackedChunk(chunk, chunk.size_bytes, chunk.refers, codec, data, stream, last)
    plain = chunk.data
    return PackedChunk(chunk, len(plain), refers(plain), codec, data, stream, last)


def _compressed(chunk: NewChunk, *, quickly: bool = False) -> tuple[int, bytes]:
    """The codec and the bytes of a whole chunk."""
    if isinstance(chunk, SqueezedChunk):
        return chunk.codec, chunk.packed
    return squeeze(chunk.data, chunk.base, quickly=quickly)


class ReadChunks(Mapping[ChunkHash, bytes]):
    """Chunks as they were read, by name: each is expanded when it is looked at, so that not all need be at once.

    A diff reads chunks of two states together, of which one is often stored as the difference to the other. What such
    a one stands on is expanded once for both.

    Args:
        chains: For each chunk its row and those that it stands on, as `plain_of` takes them.
    """

    __slots__ = ("_bases", "_chains", "_kept")

    def __init__(self, chains: Mapping[ChunkHash, Sequence[Row]]) -> None:
        self._chains = chains
        self._bases = _bases_among(chains)
        self._kept: dict[ChunkHash, bytes] = {}

    def __getitem__(self, name: ChunkHash) -> bytes:
        if name in self._kept:
            return self._kept[name]
        chain = self._chains[name]
        number, codec, _, below, *_ = chain[0]
        # Another one of these, if it stands right on it; then no more than the last step is to be done. A base is older
        # than what stands on it: damaged numbers that lead round in a circle are for `plain_of` to refuse.
        base = self._bases.get(below) if codec == DELTA and below is not None and below < number else None
        plain = plain_of(name, chain, None if base is None else self[base])
        if number in self._bases:
            self._kept[name] = plain
        return plain

    def __contains__(self, name: object) -> bool:
        return name in self._chains

    def __iter__(self) -> Iterator[ChunkHash]:
        return iter(self._chains)

    def __len__(self) -> int:
        return len(self._chains)


def _bases_among(chains: Mapping[ChunkHash, Sequence[Row]]) -> dict[int, ChunkHash]:
    """Those of the chunks that another one of them stands right on, by their numbers."""
    numbers = {chain[0][3] for chain in chains.values()}
    if numbers == {None}:
        return {}
    return {chain[0][0]: name for name, chain in chains.items() if chain[0][0] in numbers}


def plain_of(name: ChunkHash, chain: Sequence[Row], base: bytes | None = None) -> bytes:
    """The plain bytes of a chunk from its row and those that it stands on.

    Each is (number, codec, size_bytes, base, depth, data), the chunk's own first. `base` has the plain bytes of the
    second, if they are known.

    Raises:
        IntegrityError: They do not fit together.
    """
    _check_chain(name, chain)
    try:
        return _put_together(chain[::-1]) if base is None else grow(chain[0][5], base, chain[0][2])
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


_MANY_CHUNKS: Final = 8
"""More than a save of a changed state has: looking which are there costs less than compressing them."""


class ChunkReader(Protocol):
    """What is asked of a view of the store."""

    def present(self, hashes: Iterable[ChunkHash]) -> AbstractSet[ChunkHash]:
        """Those of the chunks that are there."""
        ...

    def chunks(self, hashes: Iterable[ChunkHash]) -> Mapping[ChunkHash, bytes]:
        """See `Reader.chunks`."""
        ...


def prepare(
    batch: Batch | Adoption,
    recent: RecentChunks,
    view: Callable[[], AbstractContextManager[ChunkReader]],
    *,
    compress: bool = True,
) -> list[PackedChunk]:
    """The chunks of a batch, compressed; bases that are not in the cache are read.

    Those of an adoption may build on each other, and are packed in turn.
    """
    chunks = batch.chunks
    in_turn = isinstance(batch, Adoption)
    own = {chunk.hash for chunk in chunks} if in_turn else ()
    named = [chunk.base for chunk in chunks if chunk.base is not None and chunk.base not in own]
    bases = [base for base in dict.fromkeys(named) if recent.get(base) is None] if compress else []
    present: set[ChunkHash] = set()
    if bases or (len(chunks) >= _MANY_CHUNKS and not in_turn):
        with view() as reader:
            if not in_turn:
                # A writer that has just started sends a whole state: most of it is there, and need not be compressed.
                present = set(reader.present(chunk.hash for chunk in chunks))
            for base in bases:
                # A base that is damaged or gone is no reason not to write: the chunk is then stored whole.
                with suppress(IntegrityError):
                    recent.put(base, read_chunk(base, reader.chunks))
    roots = {row.root for row in batch.checkpoints}
    if not in_turn or not compress:
        return pack(chunks, roots, recent, present, compress=compress)
    packed: list[PackedChunk] = []
    for chunk in chunks:
        packed += pack((chunk,), roots, recent, ())
        # With its depth: where too many build on each other, the next one is made whole now, not in the transaction.
        recent.put(chunk.hash, chunk.data, depth_of(packed[-1], recent))
    return packed


def depth_of(each: PackedChunk, recent: RecentChunks) -> int | None:
    """How many others a packed chunk stands on, if that is known."""
    if each.last is not None:
        return each.last.depth + 1
    if each.codec != DELTA:
        return 0
    base = None if each.chunk.base is None else recent.get(each.chunk.base)
    return None if base is None or base.depth is None else base.depth + 1
