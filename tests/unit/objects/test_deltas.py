"""Differences: exact on the way back, for any base, and never more than was asked for."""

from __future__ import annotations

import random

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from holdfast import ErrorCode, IntegrityError
from holdfast.objects.compression import grow, shrink

BASE = b"".join(b'{"id": %d, "role": "user", "content": "hello %d"}' % (n, n * n) for n in range(300))
CHANGED = BASE[:5000] + b"something else" + BASE[5000:9000] + BASE[9020:]


def damaged(packed: bytes, base: bytes, size: int) -> IntegrityError:
    with pytest.raises(IntegrityError) as caught:
        grow(packed, base, size)
    assert caught.value.code is ErrorCode.CHUNK_DAMAGED
    return caught.value


@given(st.binary(max_size=40), st.binary(max_size=20), st.integers(1, 60), st.integers(0, 2000))
def test_any_difference_gives_the_bytes_back(base, added, times, at):
    base *= times
    data = base[:at] + added + base[at:] + base
    delta = shrink(data, base)
    if delta is not None:
        assert grow(delta, base, len(data)) == data


@pytest.mark.parametrize("size", [0, 1, 7, 8, (1 << 17) - 1, 1 << 17, (1 << 17) + 1, 400_000])
def test_a_base_of_any_size_will_do(size):
    base = random.Random(size).randbytes(size)
    data = base[size // 3 :] + b"new " * 200 + base[: size // 3]
    delta = shrink(data, base)
    assert delta is not None
    assert grow(delta, base, len(data)) == data


def test_another_base_gives_damage_or_other_bytes_of_the_same_size():
    delta = shrink(CHANGED, BASE)
    assert delta is not None
    damaged(delta, b"", len(CHANGED))
    other = bytes(len(BASE))
    assert grow(delta, other, len(CHANGED)) != CHANGED


@pytest.mark.parametrize("size", [0, len(CHANGED) - 1, len(CHANGED) + 1, -1, 1 << 60])
def test_a_wrong_size_is_damage(size):
    delta = shrink(CHANGED, BASE)
    assert delta is not None
    damaged(delta, BASE, size)


@given(st.data())
def test_a_changed_difference_is_damage_or_has_the_size_that_was_asked_for(data):
    delta = bytearray(shrink(CHANGED, BASE) or b"")
    delta[data.draw(st.integers(0, len(delta) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        back = grow(bytes(delta), BASE, len(CHANGED))
    except IntegrityError:
        return
    assert len(back) == len(CHANGED)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_difference_are_damage(data):
    if data[:4] != b"\x28\xb5\x2f\xfd":
        damaged(data, BASE, 100)


def test_a_difference_that_unfolds_to_more_than_was_stored_is_damage():
    bomb = zstandard.ZstdCompressor(write_content_size=True).compress(bytes(50_000_000))
    damaged(bomb, BASE, 1000)
    # The same blocks under a header that claims 1000 bytes.
    blocks = bomb[zstandard.frame_header_size(bomb) :]
    small = zstandard.ZstdCompressor(write_content_size=True).compress(bytes(1000))
    damaged(small[: zstandard.frame_header_size(small)] + blocks, BASE, 1000)
