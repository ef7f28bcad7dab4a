"""A state as chunks: named by what is in them, checked on the way back."""

from __future__ import annotations

from typing import Any

import pytest
from blake3 import blake3
from tests.unit.objects.samples import TYPES

from holdfast import ErrorCode, IntegrityError, UnsupportedError
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.tree.state import EncodedState, decode_state, encode_state
from holdfast.storage.records import ChunkHash

LARGE = {
    "messages": [{"role": "user", "content": f"message {number} " * 20} for number in range(500)],
    "n": (1, 2),
}


class Shelf:
    """A place for chunks."""

    def __init__(self, encoded: EncodedState) -> None:
        self.chunks = {chunk.hash: chunk.data for chunk in encoded.chunks}

    def read(self, hashes: Any) -> dict[ChunkHash, bytes]:
        return {name: self.chunks[name] for name in hashes if name in self.chunks}


def test_a_chunk_is_named_by_the_hash_of_its_bytes():
    encoded = encode_state(LARGE, TYPES)
    assert encoded.root in {chunk.hash for chunk in encoded.chunks}
    for chunk in encoded.chunks:
        assert chunk.hash == blake3(chunk.data).digest() == hash_chunk(chunk.data)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0), (1, True), (0.0, -0.0), ("1", 1), ([1], (1,)), ({1}, frozenset([1])), (b"x", bytearray(b"x")),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}), (None, False), ("", b""), ([], {}), (1 << 64, float(1 << 64)),
    ],
)  # fmt: skip
def test_values_that_only_look_alike_have_different_roots(one, other):
    assert encode_state(one, TYPES).root != encode_state(other, TYPES).root


@pytest.mark.parametrize("state", [{"a": 1}, LARGE], ids=["small", "large"])
def test_a_missing_chunk_is_an_error(state):
    encoded = encode_state(state, TYPES)
    for chunk in encoded.chunks:
        shelf = Shelf(encoded)
        del shelf.chunks[chunk.hash]
        with pytest.raises(IntegrityError) as caught:
            decode_state(encoded.root, shelf.read, TYPES)
        assert caught.value.code is ErrorCode.CHUNK_MISSING
        assert caught.value.details["chunk"] == chunk.hash.hex()


@pytest.mark.parametrize("state", [{"a": 1}, LARGE], ids=["small", "large"])
def test_a_damaged_chunk_is_an_error_whatever_bit_it_is(state):
    encoded = encode_state(state, TYPES)
    for chunk in encoded.chunks:
        for position in range(0, len(chunk.data), max(1, len(chunk.data) // 50)):
            shelf = Shelf(encoded)
            changed = bytearray(chunk.data)
            changed[position] ^= 4
            shelf.chunks[chunk.hash] = bytes(changed)
            with pytest.raises(IntegrityError) as caught:
                decode_state(encoded.root, shelf.read, TYPES)
            assert caught.value.code is ErrorCode.CHUNK_DAMAGED


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xee\x01", b"\xff"])
def test_a_chunk_of_an_unknown_kind_asks_for_a_newer_version(data):
    root = hash_chunk(data)
    with pytest.raises(UnsupportedError) as caught:
        decode_state(root, lambda hashes: {root: data}, TYPES)
    assert caught.value.code is ErrorCode.FORMAT_TOO_NEW
