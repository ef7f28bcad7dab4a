"""The chunks of a batch on their way into a database: looked up, and compressed before the transaction begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Final, Protocol

from holdfast.backends.chunk_rows import PackedChunk, pack
from holdfast.backends.recent import RecentChunks
from holdfast.errors import IntegrityError
from holdfast.objects.compression import DELTA
from holdfast.objects.tree.read import read_chunk
from holdfast.storage.records import Batch, ChunkHash

if TYPE_CHECKING:
    from holdfast.storage.copy_rows import Adoption

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
    batch: Batch,
    recent: RecentChunks,
    view: Callable[[], AbstractContextManager[ChunkReader]],
    *,
    compress: bool = True,
) -> list[PackedChunk]:
    """The chunks of a batch, compressed; those that they build on are read where they are not at hand."""
    chunks = batch.chunks
    bases: list[ChunkHash] = []
    if compress:  # otherwise none builds on another
        bases = [chunk.base for chunk in chunks if chunk.base is not None and recent.get(chunk.base) is None]
    present: set[ChunkHash] = set()
    if bases or len(chunks) >= _MANY_CHUNKS:
        with view() as reader:
            # A writer that has just started sends a whole state: most of it is there, and need not be compressed.
            present = set(reader.present(chunk.hash for chunk in chunks))
            _recall(bases, recent, reader)
    return pack(chunks, {row.root for row in batch.checkpoints}, recent, present, compress=compress)


def prepare_in_turn(
    batch: Adoption,
    recent: RecentChunks,
    view: Callable[[], AbstractContextManager[ChunkReader]],
    *,
    compress: bool = True,
) -> list[PackedChunk]:
    """The chunks of an adoption, compressed; each may build on another one of the same batch."""
    if not compress:
        return pack(batch.chunks, (), recent, (), compress=False)
    own = {chunk.hash for chunk in batch.chunks}
    bases = [chunk.base for chunk in batch.chunks if chunk.base is not None and chunk.base not in own]
    bases = [base for base in dict.fromkeys(bases) if recent.get(base) is None]
    if bases:
        with view() as reader:
            _recall(bases, recent, reader)
    roots = {row.root for row in batch.checkpoints}
    packed: list[PackedChunk] = []
    for chunk in batch.chunks:
        (each,) = pack((chunk,), roots, recent, ())
        packed.append(each)
        # With its depth: where too many stand on each other, the next one is made to stand alone now, and not in the
        # transaction.
        recent.put(chunk.hash, chunk.data, depth_of(each, recent))
    return packed


def depth_of(each: PackedChunk, recent: RecentChunks) -> int | None:
    """How many others a packed chunk stands on, if that is known."""
    if each.last is not None:
        return each.last.depth + 1
    if each.codec != DELTA:
        return 0
    base = None if each.chunk.base is None else recent.get(each.chunk.base)
    return None if base is None or base.depth is None else base.depth + 1


def _recall(bases: Iterable[ChunkHash], recent: RecentChunks, reader: ChunkReader) -> None:
    for base in bases:
        # An old chunk that is damaged or gone is no reason not to write a new one: it is then stored whole.
        with suppress(IntegrityError):
            recent.put(base, read_chunk(base, reader.chunks))
