"""A chunk as the difference to one that is much like it: compressed with the other as its dictionary.

Only the place that stores chunks knows of this; hashes, copies and exports see plain bytes. How many differences may
stand on each other is for the store to bound: each costs a little to read.

A dictionary of plain bytes means no more than that they come before the first byte. So a difference is read as the rest
of a frame that begins with the base, as it is: one decompressor does for all, and no dictionary has to be built.
"""

from __future__ import annotations

from typing import Final

from holdfast.objects.compression import LEVEL, check_claim, damaged, decompressor, frame_opening

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
