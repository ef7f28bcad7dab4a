"""The hash that names things: BLAKE3-256.

A chunk is named by its plain bytes, kind byte included and before compression: the same state has the same name in
every store, whatever a backend does with the bytes, and a chunk of one kind can never pass for one of another.
"""

from __future__ import annotations

from blake3 import blake3

from holdfast.storage.records import ChunkHash


def digest(data: bytes) -> bytes:
    """The 32 bytes that stand for these."""
    return blake3(data).digest()


def hash_chunk(data: bytes) -> ChunkHash:
    """The name of a chunk with these plain bytes."""
    return ChunkHash(digest(data))
