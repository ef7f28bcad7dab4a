"""Chunks that wait for the store: what is held compressed is the same chunk."""

from __future__ import annotations

import random

import pytest

from holdfast.objects import squeezed
from holdfast.objects.compression import LZ4, RAW, ZSTD
from holdfast.objects.cutting import Cuts
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.links import refers
from holdfast.objects.living import LivingTree
from holdfast.objects.registry import TypeRegistry
from holdfast.objects.squeezed import HeldChunks, SqueezedChunk
from holdfast.objects.state import encode_state
from holdfast.objects.tracked import tracked_copy
from holdfast.storage.records import Chunk

SMALL = Cuts(
    item_limit=256,
    leaf_scale=300,
    index_scale=6,
    node_weight=64,
    piece_min=128,
    piece_mean=256,
    piece_max=1024,
    node_depth=32,
    node_limit=1024,
)


TEXT = b" ".join(random.Random(1).choices([random.Random(n).randbytes(6) for n in range(200)], k=2000))


def state() -> dict[str, object]:
    source = random.Random(3)
    texts = [" ".join(str(source.randrange(100)) for _ in range(30)) for _ in range(400)]
    return {"texts": texts, "long": "and so on " * 500, "few": {"a": 1}}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"\x05" + bytes(44),
        b"\x03" + b"words " * 500,
        random.Random(1).randbytes(5000),
        b"\x03" + TEXT,
    ],
)
def test_a_squeezed_chunk_gives_back_its_bytes_and_says_what_they_are(data: bytes):
    made = SqueezedChunk(hash_chunk(data), data, None)
    assert made.data == data
    assert (made.size_bytes, made.refers) == (len(data), refers(data))
    assert made.codec == (LZ4 if TEXT in data else ZSTD if len(made.packed) < len(data) else RAW)
    changing = SqueezedChunk(hash_chunk(data), data, hash_chunk(b"another"))
    assert changing.data == data
    assert changing.codec in (ZSTD, RAW)


def test_only_what_comes_late_is_squeezed():
    held = HeldChunks()
    data = bytes(squeezed.HELD_PLAIN // 4)
    kinds = [type(held.make(hash_chunk(data), data, None)) for _ in range(6)]
    assert kinds == [Chunk] * 4 + [SqueezedChunk] * 2


@pytest.mark.parametrize("tracked", [False, True])
def test_a_state_has_the_same_chunks_squeezed_or_not(monkeypatch: pytest.MonkeyPatch, *, tracked: bool):
    types = TypeRegistry()

    def encoded():
        if tracked:
            return LivingTree(tracked_copy(state()), types, cuts=SMALL).encode().state
        return encode_state(state(), types, cuts=SMALL)

    plain = encoded()
    monkeypatch.setattr(squeezed, "HELD_PLAIN", 1000)
    held = encoded()
    assert held.root == plain.root
    assert [(each.hash, each.data, each.base) for each in held.chunks] == list(plain.chunks)
    assert sum(isinstance(each, SqueezedChunk) for each in held.chunks) > 20
