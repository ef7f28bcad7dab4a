"""A chunk as the difference to one that is much like it: compressed with the other as its dictionary.

Only the place that stores chunks knows of this; hashes, copies and exports see plain bytes. How many differences may
stand on each other is for the store to bound: each costs a little to read.
"""

from __future__ import annotations

from typing import Final

from holdfast.objects.compression import LEVEL, check_claim, damaged

DELTA: Final = 2
"""The number of the codec, beside those of `compression`."""

_WORTH: Final = 3
"""A difference that takes more than a third of the chunk is not one: the chunk is better stored whole."""


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
    dictionary = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    try:
        # `max_output_size` does not bound a frame that carries its size, so that size is checked first.
        claimed = zstandard.get_frame_parameters(packed).content_size
        if claimed != size_bytes:
            raise damaged(f"a frame of {claimed} bytes where {size_bytes} were stored")
        plain = zstandard.ZstdDecompressor(dict_data=dictionary).decompress(packed, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise damaged(str(error)) from error
    if len(plain) != size_bytes:
        raise damaged(f"{len(plain)} bytes where {size_bytes} were stored")
    return plain
