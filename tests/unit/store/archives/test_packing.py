"""gzip of many states: one plain gzip file, in which what states share was compressed once."""

from __future__ import annotations

import gzip
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.store.archives import packing
from holdfast.store.archives.packing import gzipped


def lines(count: int) -> list[str]:
    source = random.Random(7)
    words = [f"{source.getrandbits(40):x}" for _ in range(400)]
    return [" ".join(source.choices(words, k=20)) for _ in range(count)]


@pytest.fixture
def compressed(monkeypatch):
    """The bytes that were compressed, one number a block."""
    sizes: list[int] = []
    made = zlib.compressobj

    class Counting:
        def __init__(self, *options, **more):
            self._packer = made(*options, **more)
            self.flush = self._packer.flush

        def compress(self, data):
            sizes.append(len(data))
            return self._packer.compress(data)

    monkeypatch.setattr(zlib, "compressobj", Counting)
    return sizes


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), max_size=30), st.integers(1, 900)
)
def test_it_is_a_gzip_file_of_the_text(pieces, times):
    packed = b"".join(gzipped(pieces * times))
    assert gzip.decompress(packed).decode() == "".join(pieces * times)
    assert packed == b"".join(gzipped(pieces * times))


def archive(states: list[list[str]]) -> list[str]:
    """Pieces as those of lines of an archive."""
    return [
        piece
        for number, state in enumerate(states)
        for piece in (f"{number} {'e' * number}", '"skipped": 0', ",", '"state": [', *state, "]\n")
    ]


def test_a_history_that_grows_is_compressed_once(compressed):
    items = lines(1200)
    pieces = archive([items[:end] for end in range(600, 1200, 20)])
    packed = b"".join(gzipped(pieces))
    assert gzip.decompress(packed).decode() == "".join(pieces)
    assert sum(compressed) < 0.2 * sum(map(len, pieces))


def test_blocks_meet_again_after_what_changed_at_the_front(compressed):
    items = lines(1500)
    pieces = archive([[f"{number} {'x' * 100 * number}", *items] for number in range(10)])
    packed = b"".join(gzipped(pieces))
    assert gzip.decompress(packed).decode() == "".join(pieces)
    assert sum(compressed) < 0.5 * sum(map(len, pieces))


@pytest.mark.parametrize("size", [10, 60, 200, 2000])
def test_it_is_little_larger_than_any_gzip_file(size):
    items = lines(size + 20)
    pieces = archive([items[: size + more] for more in range(20)])
    whole = gzip.compress("".join(pieces).encode(), 6)
    assert len(b"".join(gzipped(pieces))) < 1.1 * len(whole)


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(packing, "_REMEMBERED", 50_000)
    blocks = packing._Blocks()
    for number in range(40):
        blocks.of(random.Random(number).randbytes(10_000), alone=number % 2 == 0)
        assert sum(map(len, blocks._known.values())) == blocks._size <= 50_000


def test_a_block_is_used_again_only_after_what_it_looked_back_to():
    first, other = (random.Random(seed).randbytes(10_000) for seed in (1, 2))
    again = first[2000:]
    order = [(first, True), (again, False), (other, True), (again, False), (again, True)]
    blocks = packing._Blocks()
    packed = b"".join(blocks.of(block, alone=alone) for block, alone in order)
    assert zlib.decompress(packed + b"\x03\x00", -zlib.MAX_WBITS) == b"".join(block for block, _ in order)
