"""Chunks at hand: only what is whole is kept, what is kept is bounded, and nobody needs a lock."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import ErrorCode, IntegrityError
from holdfast.objects.at_hand import ChunksAtHand
from holdfast.objects.hashing import hash_chunk
from holdfast.objects.verified import fetch, read_chunk, read_chunks
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
    assert read_chunk(one, at_hand.through(place.read)) == b"one"
    assert read_chunks([one, two, one], at_hand.through(place.read)) == {one: b"one", two: b"two"}
    assert read_chunks([two, one], at_hand.through(place.read)) == {one: b"one", two: b"two"}
    assert place.asked == [[one], [two]]
    found = at_hand.through(place.read)([one, three])
    assert dict(found) == {one: b"one", three: b"three"}
    assert (len(found), three in found, found.get(two)) == (2, True, None)


def test_what_is_asked_for_and_not_looked_at_is_not_kept():
    place, at_hand = Place(b"one"), ChunksAtHand()
    for _ in range(2):
        at_hand.through(place.read)(place.names)
    assert len(place.asked) == 2


def test_damage_is_not_kept_and_what_is_mended_is_read():
    place, at_hand = Place(b"whole"), ChunksAtHand()
    (name,) = place.names
    place.chunks[name] = b"wrong"
    for _ in range(2):
        with pytest.raises(IntegrityError) as found:
            read_chunk(name, at_hand.through(place.read))
        assert found.value.code is ErrorCode.CHUNK_DAMAGED
    del place.chunks[name]
    with pytest.raises(IntegrityError) as missing:
        read_chunk(name, at_hand.through(place.read))
    assert missing.value.code is ErrorCode.CHUNK_MISSING
    place.chunks[name] = b"whole"
    assert read_chunk(name, at_hand.through(place.read)) == b"whole"
    # From now on it is at hand, whatever becomes of the place.
    place.chunks.clear()
    assert read_chunk(name, at_hand.through(place.read)) == b"whole"
    at_hand.clear()
    with pytest.raises(IntegrityError):
        read_chunk(name, at_hand.through(place.read))


def test_many_are_fetched_at_once_and_one_that_is_damaged_spoils_no_other():
    place, at_hand = Place(b"one", b"two", b"three"), ChunksAtHand()
    one, two, three = place.names
    place.chunks[two] = b"wrong"
    fetch([one, two, three, one], at_hand.through(place.read))
    assert place.asked == [[one, two, three]]
    read = at_hand.through(place.read)
    assert (read_chunk(one, read), read_chunk(three, read)) == (b"one", b"three")
    assert len(place.asked) == 1
    with pytest.raises(IntegrityError):
        read_chunk(two, read)


def test_what_is_asked_for_again_stays_while_others_come_and_go():
    contents = [b"%3d" % n * 10 for n in range(200)]
    place, at_hand = Place(*contents), ChunksAtHand(300)
    first, *others = place.names
    read = at_hand.through(place.read)
    for name in others:
        read_chunk(name, read)
        read_chunk(first, read)
    assert sum(first in names for names in place.asked) == 1
    assert sum(others[0] in names for names in place.asked) == 1
    read_chunk(others[0], read)
    assert sum(others[0] in names for names in place.asked) == 2


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 60)), max_size=80), st.integers(0, 200))
def test_it_never_holds_more_than_it_may_and_gives_what_is_there(reads: list[tuple[int, int]], most: int):
    at_hand = ChunksAtHand(most)
    for number, size in reads:
        place = Place(bytes([number]) * size)
        (name,) = place.names
        assert read_chunk(name, at_hand.through(place.read)) == place.chunks[name]
        held = [*at_hand._young.values(), *at_hand._old.values()]
        # One more than is full, of half the size at most.
        assert sum(map(len, held)) <= most + most // 2
        assert all(hash_chunk(data) in (at_hand._young.keys() | at_hand._old.keys()) for data in held)


def test_threads_share_it():
    contents = [bytes([n]) * 100 for n in range(100)]
    place, at_hand = Place(*contents), ChunksAtHand(2_000)
    wrong: list[BaseException] = []

    def work(start: int) -> None:
        try:
            for turn in range(2_000):
                name = place.names[(start + turn * 7) % 100]
                assert read_chunk(name, at_hand.through(place.read)) == place.chunks[name]
        except BaseException as error:
            # Told to who waits for the thread.
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(each * 13,)) for each in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong
    assert sum(map(len, [*at_hand._young.values(), *at_hand._old.values()])) < 4_000
