"""How chunks are packed; and those that were read together: what several of them stand on is expanded once."""

from __future__ import annotations

import random
from typing import Any

import pytest

from holdfast import IntegrityError
from holdfast.backends import chunk_rows
from holdfast.backends.chunk_rows import ReadChunks, pack, plain_of
from holdfast.backends.recent import RecentChunks
from holdfast.objects.compression import LZ4, ZSTD, compress
from holdfast.objects.deltas import DELTA, shrink
from holdfast.objects.hashing import hash_chunk
from holdfast.storage.records import Chunk, ChunkHash

Row = tuple[Any, ...]


def versions(count: int) -> list[bytes]:
    source = random.Random(1)
    text = " ".join(source.randbytes(3).hex() for _ in range(500)).encode()
    return [text + b"%d" % number for number in range(count)]


def chains_of(texts: list[bytes]) -> dict[ChunkHash, list[Row]]:
    """The first whole, each other one as the difference to the one before it."""
    rows: list[Row] = []
    for number, text in enumerate(texts, start=1):
        codec, data = compress(text)
        row: Row = (number, codec, len(text), None, 0, data)
        if rows:
            row = (number, DELTA, len(text), number - 1, number - 1, shrink(text, texts[number - 2]))
        rows.append(row)
    return {hash_chunk(text): rows[at::-1] for at, text in enumerate(texts)}


@pytest.fixture
def expanded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps that were taken: `whole` chunks and differences that were expanded."""
    steps: list[str] = []
    for name, word in (("expand", "whole"), ("grow", "difference")):
        original = getattr(chunk_rows, name)

        def counted(*args: Any, original: Any = original, word: str = word) -> Any:
            steps.append(word)
            return original(*args)

        monkeypatch.setattr(chunk_rows, name, counted)
    return steps


@pytest.mark.parametrize("backwards", [False, True])
def test_a_chunk_and_the_difference_to_it_are_expanded_in_two_steps(expanded, backwards):
    chains = chains_of(versions(2))
    found = ReadChunks(chains)
    names = list(chains)[:: -1 if backwards else 1]
    assert [hash_chunk(found[name]) for name in names] == names
    assert sorted(expanded) == ["difference", "whole"]


def test_a_whole_line_of_differences_takes_one_step_each(expanded):
    chains = chains_of(versions(6))
    found = ReadChunks(chains)
    for name in reversed(chains):
        assert hash_chunk(found[name]) == name
    assert len(expanded) == 6


def test_without_what_it_stands_on_among_them_a_chunk_is_put_together_from_its_own_rows(expanded):
    chains = chains_of(versions(5))
    last = list(chains)[-1]
    assert hash_chunk(ReadChunks({last: chains[last]})[last]) == last
    assert len(expanded) == 5


def test_damaged_numbers_that_lead_round_in_a_circle_are_refused():
    first, second = chains_of(versions(2)).items()
    base, above = list(first[1][0]), list(second[1][0])
    base[1], base[3], base[4] = DELTA, above[0], 2
    circle = {first[0]: [tuple(base), tuple(above)], second[0]: [tuple(above), tuple(base)]}
    found = ReadChunks(circle)
    for name in circle:
        with pytest.raises(IntegrityError):
            found[name]


def runs(count: int) -> list[Chunk]:
    source = random.Random(1)
    words = [source.randbytes(6) for _ in range(200)]
    texts = [b" ".join(source.choices(words, k=2000)) for _ in range(count)]
    return [Chunk(hash_chunk(text), text) for text in texts]


def test_a_few_new_runs_are_packed_small_and_many_quickly():
    few, many = pack(runs(8), (), RecentChunks(), ()), pack(runs(9), (), RecentChunks(), ())
    assert [each.codec for each in (*few, *many)] == [LZ4] * 17
    for small, quick in zip(few, many, strict=False):
        assert small.data is not None
        assert quick.data is not None
        assert len(small.data) < len(quick.data)


def test_a_whole_version_of_a_part_that_changes_is_packed_small():
    (first,) = runs(1)
    # What it follows from is not known here.
    (packed,) = pack([first._replace(base=hash_chunk(b"another"))], (), RecentChunks(), ())
    assert packed.codec == ZSTD


def test_what_a_chunk_stands_on_and_is_gone_is_told_once():
    name = ChunkHash(bytes(32))
    with pytest.raises(IntegrityError) as caught:
        plain_of(name, [(5, DELTA, 10, 3, 1, b"x")])
    assert str(caught.value).count("is damaged") == 1


def test_a_difference_to_nothing_is_damage():
    name = ChunkHash(bytes(32))
    with pytest.raises(IntegrityError):
        ReadChunks({name: [(5, DELTA, 10, None, 0, b"x")]})[name]
