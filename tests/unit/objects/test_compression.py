"""Compression: smaller or raw, exact on the way back, and never more than was asked for."""

from __future__ import annotations

import base64
import os
import random
import resource
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from holdfast import ErrorCode, IntegrityError
from holdfast.objects.compression import LZ4, RAW, ZSTD, compress_for_reading, expand


def damaged(codec: int, data: bytes, size: int) -> IntegrityError:
    with pytest.raises(IntegrityError) as caught:
        expand(codec, data, size)
    assert caught.value.code is ErrorCode.CHUNK_DAMAGED
    return caught.value


def words(size: int, seed: int = 1) -> bytes:
    """Text as it stands in a run of messages."""
    chosen = random.Random(seed)
    some = [base64.b32encode(chosen.randbytes(chosen.randrange(2, 9))) for _ in range(200)]
    return b" ".join(chosen.choices(some, k=size))[:size]


@given(
    st.one_of(
        st.binary(max_size=300),
        st.binary(max_size=5).map(lambda data: data * 200),
        st.binary(min_size=1, max_size=40).map(lambda data: data * 2000),
        st.tuples(st.integers(4000, 70_000), st.integers()).map(lambda given: words(*given)),
    ),
    st.booleans(),
)
def test_what_goes_in_comes_out(data, quickly):
    codec, packed = compress_for_reading(data, quickly=quickly)
    assert len(packed) <= len(data)
    assert expand(codec, packed, len(data)) == data


def test_what_does_not_get_smaller_stays_raw():
    for data in (b"", b"x" * 10, os.urandom(1000), os.urandom(5000)):
        for quickly in (False, True):
            assert compress_for_reading(data, quickly=quickly) == (RAW, data)


@given(st.binary(max_size=200), st.integers(0, 400))
def test_bytes_that_are_no_frame_are_damage(data, size):
    if data[:4] != b"\x28\xb5\x2f\xfd":
        damaged(ZSTD, data, size)


@given(st.binary(max_size=200), st.integers(0, 1 << 16))
def test_bytes_that_lz4_did_not_make_are_damage_or_have_the_size_that_was_asked_for(data, size):
    try:
        back = expand(LZ4, data, size)
    except IntegrityError:
        return
    assert len(back) == size


@pytest.mark.parametrize("plain", [b"hello world, " * 40, words(5000)], ids=["zstd", "lz4"])
@given(data=st.data())
def test_a_changed_frame_is_damage_or_has_the_size_that_was_asked_for(plain, data):
    codec, made = compress_for_reading(plain)
    packed = bytearray(made)
    position = data.draw(st.integers(0, len(packed) - 1))
    packed[position] ^= 1 << data.draw(st.integers(0, 7))
    try:
        back = expand(codec, bytes(packed), len(plain))
    except IntegrityError:
        return
    assert len(back) == len(plain)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_frame_that_unfolds_to_more_than_was_stored_is_damage_and_takes_no_memory():
    size = 1 << 30
    making = zstandard.ZstdCompressor(level=1).compressobj(size=size)
    bomb = b"".join(making.compress(b"\0" * (1 << 20)) for _ in range(size >> 20)) + making.flush()
    assert len(bomb) < 100_000
    with little_memory():
        damaged(ZSTD, bomb, 1000)


@contextmanager
def little_memory():
    limits = resource.getrlimit(resource.RLIMIT_AS)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + (128 << 20), limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def test_a_frame_that_lies_about_its_size_is_damage():
    plain = b"\0" * 100_000
    packed = bytearray(zstandard.ZstdCompressor().compress(plain))
    claimed = zstandard.get_frame_parameters(bytes(packed)).content_size
    at = bytes(packed).index(claimed.to_bytes(4, "little"))
    packed[at : at + 4] = (1000).to_bytes(4, "little")
    assert zstandard.get_frame_parameters(bytes(packed)).content_size == 1000
    damaged(ZSTD, bytes(packed), 1000)
