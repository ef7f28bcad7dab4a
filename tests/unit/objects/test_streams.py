"""Streams of versions: each is read with those before it, exactly, within a bound, or not at all."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import ErrorCode, IntegrityError
from holdfast.objects.compression import MAX_STREAM_BYTES, VersionStream, unfold

Version = tuple[bytes, int]


def text(source: random.Random, size: int) -> bytes:
    return b" ".join(source.randbytes(4).hex().encode() for _ in range(size // 9))


def grown(count: int) -> list[bytes]:
    """Versions of a text that grows at the end and changes in the middle."""
    source = random.Random(count)
    versions = [text(source, 6000)]
    for _ in range(count - 1):
        last = versions[-1]
        at = source.randrange(len(last))
        versions.append(last[:at] + source.randbytes(8) + last[at + 8 :] + text(source, 300))
    return versions


def streamed(versions: list[bytes]) -> list[Version]:
    stream = VersionStream()
    made = []
    for data in versions:
        blocks = stream.add(data)
        assert blocks is not None
        made.append((blocks, len(data)))
    return made


def damaged(versions: list[Version]) -> IntegrityError:
    with pytest.raises(IntegrityError) as caught:
        unfold(versions)
    assert caught.value.code is ErrorCode.CHUNK_DAMAGED
    return caught.value


@settings(max_examples=50)
@given(st.lists(st.tuples(st.binary(min_size=1, max_size=30), st.integers(1, 40)), min_size=1, max_size=8))
def test_whatever_the_versions_are_those_that_are_taken_come_back(parts):
    stream, made, plain = VersionStream(), [], b""
    for piece, times in parts:
        plain = plain[: len(plain) // 2] + piece * times + plain[len(plain) // 2 :]
        blocks = stream.add(plain)
        if blocks is None:
            return
        made.append((blocks, len(plain)))
        assert unfold(made) == plain


def test_a_stream_is_full_before_reading_it_takes_too_much():
    stream = VersionStream()
    data = text(random.Random(1), 200_000)
    while stream.has_room(data):
        assert stream.add(data) is not None
    assert stream.size_bytes <= MAX_STREAM_BYTES < stream.size_bytes + len(data)


def test_a_version_that_is_left_out_or_changed_is_seen_or_gives_other_bytes():
    plain = grown(5)
    made = streamed(plain)
    damaged([made[0], made[1], made[2], (made[3][0], made[3][1] + 1)])
    for kept in (made[1:], made[:2] + made[3:], [made[0], *made[2:]]):
        with suppress(IntegrityError):
            assert unfold(kept) != plain[-1]


@given(st.data())
def test_a_flipped_bit_is_damage_or_gives_bytes_of_the_same_size(data):
    made = streamed(grown(3))
    which = data.draw(st.integers(0, 2))
    blocks = bytearray(made[which][0])
    blocks[data.draw(st.integers(0, len(blocks) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    made[which] = (bytes(blocks), made[which][1])
    with suppress(IntegrityError):
        assert len(unfold(made)) == made[-1][1]


@pytest.mark.parametrize(
    "sizes", [(-1, 10), (10, -1), (MAX_STREAM_BYTES, 1), (1 << 62, 1 << 62), (-(1 << 40), 1 << 40)]
)
def test_a_size_that_no_stream_has_is_damage(sizes):
    blocks, _ = streamed(grown(1))[0]
    damaged([(blocks, sizes[0]), (blocks, sizes[1])])


def test_blocks_that_unfold_to_more_than_was_stored_are_damage():
    bomb = zstandard.ZstdCompressor().compress(bytes(50_000_000))
    damaged([(bomb[zstandard.frame_header_size(bomb) : -3], 1000)])
