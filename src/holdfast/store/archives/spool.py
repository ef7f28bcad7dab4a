"""Chunks that wait for the end of an import: compressed, in a temporary file once they are many.

Nothing may be written to the store before the last line of an archive was read and verified. In memory there is, of
each chunk, its hash and its place in the file.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Final, Self

from holdfast.errors import BackendError, ErrorCode
from holdfast.objects.tree.new_chunks import SqueezedChunk, squeeze
from holdfast.objects.tree.nodes import refers
from holdfast.storage.records import ChunkHash, NewChunk

_IN_MEMORY: Final = 4 << 20
"""Bytes; less is not worth a file."""


class SpooledChunk(SqueezedChunk):
    """A chunk whose compressed bytes are read from the spool each time they are asked for."""

    # A SqueezedChunk for backends: its size is known without its bytes, and they need not be compressed again.
    __slots__ = ("_at", "_length", "_spool")

    def __init__(self, spool: Spool, name: ChunkHash, data: bytes, base: ChunkHash | None) -> None:
        self.hash = name
        self.base = base
        self.size_bytes = len(data)
        self.refers = refers(data)
        self.codec, packed = squeeze(data, base, quickly=True)
        self._spool = spool
        self._at, self._length = spool.write(packed)

    @property
    def packed(self) -> bytes:  # type: ignore[override]
        """Its compressed bytes."""
        return self._spool.read(self._at, self._length)


class Spool:
    """The chunks of one import, each once; ends with its block."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, prefix="holdfast-import-")  # noqa: SIM115
        self._end = 0
        self._chunks: dict[ChunkHash, SpooledChunk] = {}

    def add(self, chunks: Iterable[NewChunk]) -> tuple[ChunkHash, ...]:
        """Keep chunks; their names."""
        names = []
        for each in chunks:
            names.append(each.hash)
            if each.hash not in self._chunks:
                self._chunks[each.hash] = SpooledChunk(self, each.hash, each.data, each.base)
        return tuple(names)

    def get(self, names: Iterable[ChunkHash]) -> Iterator[SpooledChunk]:
        """Those chunks."""
        return (self._chunks[name] for name in names)

    @property
    def size_bytes(self) -> int:
        """What the chunks take, compressed."""
        return self._end

    def write(self, data: bytes) -> tuple[int, int]:
        """Keep some bytes; where they are, and how many."""
        at = self._end
        try:
            self._file.seek(at)
            self._file.write(data)
        except OSError as error:
            code = ErrorCode.DISK_FULL if error.errno == errno.ENOSPC else ErrorCode.IO_FAILED
            raise BackendError(
                f"the import cannot go on: a temporary file could not be written: {error.strerror or error}",
                code=code,
                hint="make room, or set TMPDIR to a folder that has some",
            ) from error
        self._end += len(data)
        return at, len(data)

    def read(self, at: int, length: int) -> bytes:
        """Bytes that were written before."""
        self._file.seek(at)
        return self._file.read(length)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
