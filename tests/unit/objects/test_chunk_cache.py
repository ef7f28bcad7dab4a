"""Chunks at hand: only what is whole is kept, what is kept is bounded, and nobody waits for anybody."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import ErrorCode, IntegrityError
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.tree.chunk_cache import _BESIDE, TRUSTED_SECONDS, ChunksAtHand
from holdfast.objects.tree.read import read_chunk, read_chunks
from holdfast.storage.records import ChunkHash


class Place:
    """Where chunks are; knows what it was asked for."""

    def __init__(self, *contents: bytes) -> None:
        self.chunks = {hash_chunk(each): each for each in contents}
        self.asked: list[list[ChunkHash]] = []

    def read(self, names: Any) -> dict[ChunkHash, bytes]:
        wanted = list(names)
        self.asked.append(wanted)
        return {name: self.chunks[name] for name in wanted if name in self.chunks}

    @property
    def names(self) -> list[ChunkHash]:
        return list(self.chunks)


def test_what_was_read_is_not_read_again():
    place, at_hand = Place(b"one", b"two", b"three"), ChunksAtHand()
    one, two, three = place.names
    assert read_chunk(one, at_hand.begin().through(place.read)) == b"one"
    assert read_chunks([one, two, one], at_hand.begin().through(place.read)) == {one: b"one", two: b"two"}
    assert read_chunks([two, one], at_hand.begin().through(place.read)) == {one: b"one", two: b"two"}
    assert place.asked == [[one], [two]]
    found = at_hand.begin().through(place.read)([one, three])
    assert dict(found) == {one: b"one", three: b"three"}
    assert (len(found), three in found, found.get(two)) == (2, True, None)


def test_damage_is_not_kept_and_what_is_mended_is_read():
    place, at_hand = Place(b"whole"), ChunksAtHand()
    (name,) = place.names
    place.chunks[name] = b"wrong"
    for _ in range(2):
        with pytest.raises(IntegrityError) as found:
            read_chunk(name, at_hand.begin().through(place.read))
        assert found.value.code is ErrorCode.CHUNK_DAMAGED
    del place.chunks[name]
    with pytest.raises(IntegrityError) as missing:
        read_chunk(name, at_hand.begin().through(place.read))
    assert missing.value.code is ErrorCode.CHUNK_MISSING
    place.chunks[name] = b"whole"
    assert read_chunk(name, at_hand.begin().through(place.read)) == b"whole"
    # From now on it is at hand, whatever becomes of the place.
    place.chunks.clear()
    assert read_chunk(name, at_hand.begin().through(place.read)) == b"whole"
    at_hand.clear()
    with pytest.raises(IntegrityError):
        read_chunk(name, at_hand.begin().through(place.read))


def test_what_was_used_last_stays():
    contents = [b"%3d" % n * 10 for n in range(200)]
    place, at_hand = Place(*contents), ChunksAtHand(10 * (30 + _BESIDE))
    first, *others = place.names
    read = at_hand.begin().through(place.read)
    for name in others:
        read_chunk(name, read)
        read_chunk(first, read)
    assert sum(first in names for names in place.asked) == 1
    del place.asked[:]
    read_chunks([first, *others[-9:]], read)
    assert place.asked == []
    read_chunks(others[-11:], read)
    assert place.asked == [others[-11:-9]]


def held(at_hand: ChunksAtHand) -> dict[ChunkHash, bytes]:
    return dict(at_hand._kept._chunks)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 600)), max_size=80), st.integers(0, 3_000))
def test_it_never_holds_more_than_it_may_and_gives_what_is_there(reads: list[tuple[int, int]], most: int):
    at_hand = ChunksAtHand(most)
    for number, size in reads:
        place = Place(bytes([number]) * size)
        (name,) = place.names
        assert read_chunk(name, at_hand.begin().through(place.read)) == place.chunks[name]
        # With what it takes to keep one: of very small chunks that is nearly all.
        taken = sum(_BESIDE + len(data) for data in held(at_hand).values())
        assert taken == most - at_hand._kept._left <= most
        assert all(hash_chunk(data) == name for name, data in held(at_hand).items())
        assert name in held(at_hand) or size + _BESIDE > most


def test_what_a_read_under_way_brings_is_not_kept_once_it_was_emptied():
    place, at_hand = Place(b"secret"), ChunksAtHand()
    (name,) = place.names

    def emptied_meanwhile(names: Any) -> dict[ChunkHash, bytes]:
        found = place.read(names)
        at_hand.clear()
        return found

    assert read_chunk(name, at_hand.begin().through(emptied_meanwhile)) == b"secret"
    assert held(at_hand) == {}


def test_all_of_it_is_read_again_after_a_while(monkeypatch):
    monkeypatch.setattr("holdfast.objects.tree.chunk_cache.time.monotonic", lambda: 0.0)
    place, at_hand = Place(b"one"), ChunksAtHand()
    (name,) = place.names
    for later, reads in (
        (0, 1),
        (TRUSTED_SECONDS - 1, 1),
        (TRUSTED_SECONDS + 1, 2),
        (2 * TRUSTED_SECONDS, 2),
    ):
        monkeypatch.setattr("holdfast.objects.tree.chunk_cache.time.monotonic", lambda later=later: later)
        assert read_chunk(name, at_hand.begin().through(place.read)) == b"one"
        assert len(place.asked) == reads


def test_what_nobody_asks_for_again_is_let_go_in_time(monkeypatch):
    monkeypatch.setattr("holdfast.objects.tree.chunk_cache.time.monotonic", lambda: 0.0)
    place, at_hand = Place(b"one"), ChunksAtHand()
    read_chunk(place.names[0], at_hand.begin().through(place.read))
    monkeypatch.setattr("holdfast.objects.tree.chunk_cache.time.monotonic", lambda: TRUSTED_SECONDS - 1)
    at_hand.let_go()
    assert list(held(at_hand)) == place.names
    monkeypatch.setattr("holdfast.objects.tree.chunk_cache.time.monotonic", lambda: TRUSTED_SECONDS + 1)
    at_hand.let_go()
    assert held(at_hand) == {}


def test_threads_share_it():
    contents = [bytes([n]) * 100 for n in range(100)]
    place, at_hand = Place(*contents), ChunksAtHand(20 * (100 + _BESIDE))
    wrong: list[BaseException] = []

    def work(start: int) -> None:
        try:
            for turn in range(2_000):
                name = place.names[(start + turn * 7) % 100]
                assert read_chunk(name, at_hand.begin().through(place.read)) == place.chunks[name]
        except BaseException as error:
            # Told to who waits for the thread.
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(each * 13,)) for each in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong
    assert len(held(at_hand)) == 20
    assert at_hand._kept._left == 0
