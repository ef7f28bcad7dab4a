"""What two sequences have in common, and that finding it never takes quadratic time."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.objects.diffing.aligning import align, rising, unlike, windows_between

TOKENS = st.lists(st.integers(0, 6), max_size=40)


@given(TOKENS, TOKENS)
def test_pairs_are_equal_and_go_up_on_both_sides(old, new):
    pairs = align(old, new)
    assert all(old[left] == new[right] for left, right in pairs)
    assert all(one[0] < other[0] and one[1] < other[1] for one, other in pairwise(pairs))


@given(TOKENS)
def test_a_sequence_has_all_of_itself(tokens):
    assert align(tokens, tokens) == [(at, at) for at in range(len(tokens))]


@given(st.lists(st.integers(), unique=True, max_size=40), st.data())
def test_of_tokens_that_are_there_once_as_many_stay_as_can(old, data):
    new = data.draw(st.permutations(old))
    assert len(align(old, new)) == len(rising([old.index(token) for token in new]))


@given(st.lists(st.integers(0, 30), max_size=30))
def test_the_longest_rising_selection_is_found(numbers):
    chosen = [numbers[at] for at in rising(numbers)]
    assert all(one < other for one, other in pairwise(chosen))
    longest = [0] * len(numbers)
    for at, number in enumerate(numbers):
        longest[at] = 1 + max((longest[left] for left in range(at) if numbers[left] < number), default=0)
    assert len(chosen) == max(longest, default=0)


def test_inserted_and_removed_tokens_are_seen_as_such():
    assert align("abcdef", "abXcef") == [(0, 0), (1, 1), (2, 3), (4, 4), (5, 5)]
    assert align("aaab", "aab") == [(0, 0), (1, 1), (3, 2)]


@given(TOKENS, TOKENS)
def test_windows_and_pairs_cover_both_sides(old, new):
    pairs = align(old, new)
    left, right = {one for one, _ in pairs}, {other for _, other in pairs}
    for old_start, old_stop, new_start, new_stop in windows_between(pairs, (0, len(old), 0, len(new))):
        left |= set(range(old_start, old_stop))
        right |= set(range(new_start, new_stop))
    assert (left, right) == (set(range(len(old))), set(range(len(new))))


@given(TOKENS, TOKENS | st.just([]))
def test_what_is_unlike_is_all_that_lies_between_tokens_that_both_have(old, new):
    left, right = [], []
    old_at = new_at = 0
    for old_start, old_stop, new_start, new_stop in unlike(old, new):
        left += old[old_at:old_start]
        right += new[new_at:new_start]
        old_at, new_at = old_stop, new_stop
    assert left + old[old_at:] == right + new[new_at:]


@given(st.lists(st.integers(0, 9), max_size=30), st.sets(st.integers(0, 29)))
def test_tokens_that_are_replaced_where_they_stood_are_found_without_aligning(old, places):
    new = [-1 - at if at in places else token for at, token in enumerate(old)]
    windows = unlike(old, new)
    assert {at for start, stop, _, _ in windows for at in range(start, stop)} == places & {*range(len(old))}
    assert all(window[:2] == window[2:] for window in windows)
    assert windows == windows_between(
        [(at, at) for at in range(len(old)) if at not in places], (0, len(old)) * 2
    )


def test_tokens_that_changed_places_are_not_taken_for_replaced():
    assert unlike("abcd", "bcda") == [(0, 1, 0, 0), (4, 4, 3, 4)]


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
