"""What two sequences have in common, and that finding it never takes quadratic time."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.objects.diff.alignment import align

TOKENS = st.lists(st.integers(0, 6), max_size=40)


@given(TOKENS, TOKENS)
def test_pairs_are_equal_and_go_up_on_both_sides(old, new):
    pairs = align(old, new)
    assert all(old[left] == new[right] for left, right in pairs)
    assert all(one[0] < other[0] and one[1] < other[1] for one, other in pairwise(pairs))


@given(TOKENS)
def test_a_sequence_has_all_of_itself(tokens):
    assert align(tokens, tokens) == [(at, at) for at in range(len(tokens))]


class Token:
    """A number that counts how often it is compared."""

    compared = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        Token.compared += 1
        return isinstance(other, Token) and self.number == other.number

    def __hash__(self) -> int:
        return hash(self.number)


SHAPES = {
    "nothing in common": lambda count: (range(count), range(count, 2 * count)),
    "backwards": lambda count: (range(count), range(count - 1, -1, -1)),
    "all the same": lambda count: ([7] * count, [7] * (count - 3)),
    "two by turns": lambda count: ([0, 1] * (count // 2), [1, 0] * (count // 2)),
    "shuffled": lambda count: (range(count), random.Random(1).sample(range(count), count)),
    "every second one changed": lambda count: (range(count), [n if n % 2 else -n for n in range(count)]),
    "few kinds": lambda count: tuple(random.Random(n).choices(range(9), k=count) for n in (1, 2)),
    "one in front": lambda count: (range(count), [-1, *range(count)]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_twice_as_many_tokens_take_little_more_than_twice_as_many_comparisons(shape):
    counts = []
    for size in (4_000, 8_000):
        old, new = ([Token(number) for number in side] for side in SHAPES[shape](size))
        Token.compared = 0
        align(old, new)
        counts.append(Token.compared)
    # n log n, in a few rounds; n * n would be 64 million.
    assert counts[1] <= 2.4 * counts[0] + 1000
    assert counts[1] <= 60 * 8_000
