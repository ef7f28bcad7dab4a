"""A part that changes with every save, compressed as one stream: each version stands on all versions before it.

Comparing a version with the last one through a dictionary means to index the last one again, each time. A stream keeps
that index from one save to the next: a fifth of the time, and smaller. What a version adds is some blocks of zstd,
without the header of a frame; read after the blocks of the versions before it, they give its bytes.

So blocks say nothing without exactly those before them, which is more than a difference asks for: there, any copy of
the same bytes will do. Who keeps a stream open has to make sure that what it wrote last is what is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from holdfast.objects.compression import LEVEL, check_claim, damaged, decompressor, frame_opening

if TYPE_CHECKING:
    import zstandard

STREAM: Final = 3
"""The number of the codec, beside those of `compression` and `deltas`."""

MAX_STREAM_BYTES: Final = 1 << 20
"""Plain bytes of all versions in a stream: the most that is expanded to read one of them."""

_WINDOW_LOG: Final = 20
# Small tables: a stream is kept in memory, and most of a version is one long match.
_TABLE_LOG: Final = 15

_WORTH: Final = 3
"""Blocks that take more than a third of the version are no difference: it is better stored whole."""

# The last block, of no bytes: a stream that goes on has none.
_CLOSING: Final = b"\x01\x00\x00"


class VersionStream:
    """Compresses one version after the other. One thread at a time; after an error it is of no more use."""

    __slots__ = ("_checker", "_packer", "size_bytes")

    def __init__(self) -> None:
        import zstandard

        settings = zstandard.ZstdCompressionParameters.from_level(
            LEVEL,
            window_log=_WINDOW_LOG,
            hash_log=_TABLE_LOG,
            chain_log=_TABLE_LOG,
            write_content_size=False,
        )
        self._packer = zstandard.ZstdCompressor(compression_params=settings).compressobj()
        self._checker: zstandard.ZstdDecompressionObj | None = None
        self.size_bytes = 0
        """Plain bytes of the versions so far."""

    def has_room(self, data: bytes) -> bool:
        """Whether a version would still fit."""
        return self.size_bytes + len(data) <= MAX_STREAM_BYTES

    def add(self, data: bytes) -> bytes | None:
        """The blocks of the next version, or None where they are not worth it: the stream has ended then."""
        import zstandard

        first = self._checker is None
        blocks = self._packer.compress(data) + self._packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        if self._checker is None:
            self._checker = zstandard.ZstdDecompressor(max_window_size=1 << _WINDOW_LOG).decompressobj()
        # Everything later stands on these blocks, so they are read back before anybody counts on them. It costs a
        # fifth of making them.
        if self._checker.decompress(blocks) != data:
            return None
        self.size_bytes += len(data)
        if first:
            blocks = blocks[zstandard.frame_header_size(blocks) :]
            return blocks if len(blocks) < len(data) else None
        return blocks if _WORTH * len(blocks) < len(data) else None


def unfold(versions: Sequence[tuple[bytes, int]]) -> bytes:
    """The plain bytes of the last of these versions, the first ones of a stream, each as (blocks, size).

    Raises:
        IntegrityError: They are not what `VersionStream.add` made.
    """
    import zstandard

    sizes = [size_bytes for _, size_bytes in versions]
    total = sum(sizes)
    check_claim(sizes[-1])
    if total > MAX_STREAM_BYTES or min(sizes) < 0:
        raise damaged(f"a stream of {total} bytes")
    frame = b"".join([frame_opening(total), *[blocks for blocks, _ in versions], _CLOSING])
    try:
        # zstd refuses a frame that holds more or less than it says, and stops there.
        plain = decompressor().decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise damaged(str(error)) from error
    return plain[total - versions[-1][1] :]
