"""Chunks made smaller for the place they are stored in, and back, within a bound.

Backends call this; hashes never see it. `expand` is told how large the result must be and trusts nothing else: a
frame that claims or holds more is damage, found before the memory for it is taken.

Most of a state is runs of messages and texts that are written once and read with every load, where expanding takes
longest after making the objects. Those are packed with LZ4 (`compress_for_reading`): expanding that takes a quarter of
what zstd takes. But it only looks for what comes again. Where zstd, which also counts how often each byte occurs, makes
far less of a chunk, as of small ones, of numbers and of base64, room counts more. It also does for parts that change
again and again, of which few versions are ever read.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from holdfast.errors import ErrorCode, IntegrityError

if TYPE_CHECKING:
    import zstandard


MAX_CHUNK_BYTES: Final = 1 << 28
"""A chunk is some kilobytes; only a key of a dict can make it larger. More than 256 MiB is not expanded, whatever the
store says of it."""

RAW: Final = 0
ZSTD: Final = 1
LZ4: Final = 4
"""2 and 3 are those of `deltas` and `streams`."""

LEVEL: Final = 3
# The start of a frame that says how many bytes it holds, in 8 bytes, and needs no other window than those.
_OPENING: Final = struct.Struct("<4sBQ")
_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_SINGLE_SEGMENT: Final = 0xE0

# A frame costs about 13 bytes, and so little text has nothing to share.
_WORTH_TRYING: Final = 64

_LARGE: Final = 4096
"""Bytes. Of smaller chunks LZ4 leaves far more than zstd does, and would save some microseconds. Of larger ones so much
is packed both ways, to choose one of them."""
_LZ4_LEVEL: Final = 3
"""The least at which it looks for more than the last place that is alike: a tenth smaller, and 10 ms for a megabyte."""
_LZ4_MOST: Final = 255
"""It makes no more than so many bytes of one."""


class _Contexts(threading.local):
    """One compressor and one decompressor a thread.

    Making one takes longer than compressing a small chunk, and neither may be used by two threads at once.
    """

    compressor: zstandard.ZstdCompressor | None = None
    decompressor: zstandard.ZstdDecompressor | None = None


_contexts = _Contexts()


def compress(data: bytes) -> tuple[int, bytes]:
    """The number of a codec and the bytes it makes; raw where nothing is gained."""
    if len(data) < _WORTH_TRYING:
        return RAW, data
    packed = _pack_zstd(data)
    if len(packed) >= len(data):
        return RAW, data
    # Copied: zstd takes memory for the worst case, and shrinking that leaves holes between chunks that wait together.
    return ZSTD, bytes(memoryview(packed))


def compress_for_reading(data: bytes, *, quickly: bool = False) -> tuple[int, bytes]:
    """The same for a chunk that will be read often and not changed: expanded faster, where that costs little room.

    Args:
        data: The plain bytes.
        quickly: One of many for which somebody waits: a third of the time for a large chunk, and a tenth more room.
    """
    if len(data) >= _LARGE and _is_for_lz4(data[:_LARGE]):
        packed = _pack_lz4(data, quickly=quickly)
        # The rest may be of another kind than its beginning.
        if 4 * len(packed) <= 3 * len(data):
            return LZ4, packed
    return compress(data)


def _is_for_lz4(sample: bytes) -> bool:
    """Whether LZ4 takes something off, and zstd not far more.

    Of texts LZ4 leaves 1.2 to 1.5 times what zstd leaves; of numbers, and of records that are all alike, 1.8 to 2.6.
    """
    size = len(_pack_lz4(sample, quickly=True))
    return 10 * size <= 9 * len(sample) and 3 * size <= 5 * len(_pack_zstd(sample))


def _pack_lz4(data: bytes, *, quickly: bool) -> bytes:
    import lz4.block

    mode = "default" if quickly else "high_compression"
    packed: bytes = lz4.block.compress(data, mode=mode, compression=_LZ4_LEVEL, store_size=False)
    return packed


def _pack_zstd(data: bytes) -> bytes:
    if _contexts.compressor is None:
        import zstandard

        _contexts.compressor = zstandard.ZstdCompressor(level=LEVEL, write_content_size=True)
    return _contexts.compressor.compress(data)


def expand(codec: int, data: bytes, size_bytes: int) -> bytes:
    """The bytes that `compress` was given: exactly `size_bytes` of them, never more.

    Raises:
        IntegrityError: The bytes are not what `compress` made, or the size is not theirs.
    """
    check_claim(size_bytes)
    if codec == RAW:
        plain = data
    elif codec == ZSTD:
        plain = _expand_zstd(data, size_bytes)
    elif codec == LZ4:
        plain = _expand_lz4(data, size_bytes)
    else:
        raise damaged(f"codec {codec} is none that this version knows")
    if len(plain) != size_bytes:
        raise damaged(f"{len(plain)} bytes where {size_bytes} were stored")
    return plain


def check_claim(size_bytes: int) -> None:
    """Refuse to expand what says that it is larger than any chunk."""
    if not 0 <= size_bytes <= MAX_CHUNK_BYTES:
        raise damaged(f"a chunk of {size_bytes} bytes")


def decompressor() -> zstandard.ZstdDecompressor:
    """The decompressor of this thread."""
    found = _contexts.decompressor
    if found is None:
        import zstandard

        found = _contexts.decompressor = zstandard.ZstdDecompressor()
    return found


def frame_opening(size_bytes: int) -> bytes:
    """What a zstd frame of so many plain bytes begins with, before its blocks."""
    return _OPENING.pack(_MAGIC, _SINGLE_SEGMENT, size_bytes)


def _expand_zstd(data: bytes, size_bytes: int) -> bytes:
    import zstandard

    try:
        # `max_output_size` does not bound a frame that carries its size, so that size is checked first; zstd itself
        # then stops at it, whatever the frame goes on to hold.
        claimed = zstandard.frame_content_size(data)
        if claimed != size_bytes:
            raise damaged(f"a frame of {claimed} bytes where {size_bytes} were stored")
        return decompressor().decompress(data, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise damaged(str(error)) from error


def _expand_lz4(data: bytes, size_bytes: int) -> bytes:
    import lz4.block

    # It takes the memory that it is told to before it looks at the data.
    if size_bytes > _LZ4_MOST * len(data):
        raise damaged(f"{size_bytes} bytes out of {len(data)}")
    try:
        # No more than that; less is for the caller to notice.
        plain: bytes = lz4.block.decompress(data, uncompressed_size=size_bytes)
    except lz4.block.LZ4BlockError as error:
        raise damaged(str(error)) from error
    return plain


def damaged(why: str) -> IntegrityError:
    """The error for stored bytes that do not expand."""
    return IntegrityError(
        f"a compressed chunk cannot be expanded: {why}",
        code=ErrorCode.CHUNK_DAMAGED,
        hint="s.recover() gives the newest state that is whole; store.verify() names all that is damaged",
        why=why,
    )


DELTA: Final = 2
"""The number of the codec, beside those of `compression`."""

_WORTH: Final = 3
"""A difference that takes more than a third of the chunk is not one: the chunk is better stored whole."""

_MAX_BLOCK: Final = 1 << 17
"""The most that one block of zstd holds."""
_BLOCK_HEADER_BYTES: Final = 3


def shrink(data: bytes, base: bytes) -> bytes | None:
    """The difference of `data` to `base`, or None where it is not worth it."""
    import zstandard

    dictionary = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    compressor = zstandard.ZstdCompressor(level=LEVEL, dict_data=dictionary, write_content_size=True)
    packed = compressor.compress(data)
    return packed if _WORTH * len(packed) < len(data) else None


def grow(packed: bytes, base: bytes, size_bytes: int) -> bytes:
    """The bytes that `shrink` was given: exactly `size_bytes` of them.

    Raises:
        IntegrityError: The bytes are not what `shrink` made of that base.
    """
    import zstandard

    check_claim(size_bytes)
    try:
        header_bytes = zstandard.frame_header_size(packed)
        frame: list[bytes | memoryview] = [frame_opening(len(base) + size_bytes)]
        for at in range(0, len(base), _MAX_BLOCK):
            block = base[at : at + _MAX_BLOCK]
            # The size from the fourth bit on; zero below that says: not the last block, and not compressed.
            frame += ((len(block) << 3).to_bytes(_BLOCK_HEADER_BYTES, "little"), block)
        frame.append(memoryview(packed)[header_bytes:])
        # zstd refuses a frame that holds more or less than it says, and stops there; what `packed` says is not asked.
        plain = decompressor().decompress(b"".join(frame), allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise damaged(str(error)) from error
    return plain[len(base) :]


STREAM: Final = 3
"""The number of the codec, beside those of `compression` and `deltas`."""

MAX_STREAM_BYTES: Final = 1 << 20
"""Plain bytes of all versions in a stream: the most that is expanded to read one of them."""

_WINDOW_LOG: Final = 20
# Small tables: a stream is kept in memory, and most of a version is one long match.
_TABLE_LOG: Final = 15

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
