"""What two sequences have in common, in order: tokens that stand for each other, in bounded time.

Equal ends are taken off first. In what is left, tokens that each side has once are anchors: the longest run of them
that goes up on both sides stays, and the windows between are looked at again. A few rounds of that find what people
mean by "the same"; the last round takes the first of one side for the first of the other where a token is repeated.
The result is not always the longest that there is; the time is n log n whatever the sequences are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import compress, groupby
from operator import ne
from typing import Final

Pair = tuple[int, int]
"""A position on the old side and the one on the new side that stands for it."""

Window = tuple[int, int, int, int]
"""Where a part begins and ends on the old side, and on the new side."""

_ROUNDS: Final = 8


def align(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Pair]:
    """The positions of tokens that are equal, going up on both sides."""
    pairs: list[Pair] = []
    windows: list[Window] = [(0, len(old), 0, len(new))]
    for number in range(_ROUNDS):
        following: list[Window] = []
        for window in windows:
            inner = _trim(old, new, window, pairs)
            if inner is None:
                continue
            anchors = _anchors(old, new, inner, numbered=number == _ROUNDS - 1)
            pairs += anchors
            # Where nothing is there once, counting the repeated ones is all that can be done.
            if not anchors:
                anchors = _anchors(old, new, inner, numbered=True)
                pairs += anchors
            if anchors:
                following += windows_between(anchors, inner)
        windows = following
        if not windows:
            break
    return sorted(pairs)


def unlike(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Window]:
    """What lies between the tokens that two sequences have in common, as `align` finds them."""
    if len(old) == len(new):
        places = list(compress(range(len(old)), map(ne, old, new)))
        if len(old) == 1 or {old[at] for at in places}.isdisjoint([new[at] for at in places]):
            # By far the most common: some were replaced where they stood. What both have is all in its place then.
            return _runs_of(places)
    return windows_between(align(old, new), (0, len(old), 0, len(new)))


def _runs_of(places: list[int]) -> list[Window]:
    """Places of both sides, as one window where they follow each other."""
    found: list[Window] = []
    for _, run in groupby(enumerate(places), key=lambda pair: pair[1] - pair[0]):
        (_, first), *rest = run
        stop = rest[-1][1] + 1 if rest else first + 1
        found.append((first, stop, first, stop))
    return found


def windows_between(pairs: Iterable[Pair], window: Window) -> list[Window]:
    """What lies between pairs that go up on both sides; those windows that have something on either side."""
    found = []
    old_start, old_stop, new_start, new_stop = window
    for old_at, new_at in [*pairs, (old_stop, new_stop)]:
        if old_start < old_at or new_start < new_at:
            found.append((old_start, old_at, new_start, new_at))
        old_start, new_start = old_at + 1, new_at + 1
    return found


def rising(numbers: Sequence[int]) -> list[int]:
    """The positions of the longest strictly rising selection of numbers."""
    ends: list[int] = []
    at_end: list[int] = []
    before: list[int] = []
    for position, number in enumerate(numbers):
        place = bisect_left(ends, number)
        before.append(at_end[place - 1] if place else -1)
        if place == len(ends):
            ends.append(number)
            at_end.append(position)
        else:
            ends[place], at_end[place] = number, position
    chosen = []
    position = at_end[-1] if at_end else -1
    while position >= 0:
        chosen.append(position)
        position = before[position]
    return chosen[::-1]


def _trim(
    old: Sequence[Hashable], new: Sequence[Hashable], window: Window, pairs: list[Pair]
) -> Window | None:
    """Take equal ends off a window; None where nothing more can be found in it then."""
    old_start, old_stop, new_start, new_stop = window
    if old_stop - old_start == new_stop - new_start == 1:
        # By far the most common window.
        if old[old_start] == new[new_start]:
            pairs.append((old_start, new_start))
        return None
    front = common_start(old[old_start:old_stop], new[new_start:new_stop])
    pairs += zip(range(old_start, old_start + front), range(new_start, new_start + front), strict=True)
    old_start, new_start = old_start + front, new_start + front
    back = common_start(old[old_start:old_stop][::-1], new[new_start:new_stop][::-1])
    old_stop, new_stop = old_stop - back, new_stop - back
    pairs += zip(range(old_stop, old_stop + back), range(new_stop, new_stop + back), strict=True)
    if old_start == old_stop or new_start == new_stop or old_stop - old_start == new_stop - new_start == 1:
        return None
    return old_start, old_stop, new_start, new_stop


def common_start(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """How many tokens are the same from the beginning on; found by halving, so that C compares them."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _anchors(
    old: Sequence[Hashable], new: Sequence[Hashable], window: Window, *, numbered: bool
) -> list[Pair]:
    old_start, old_stop, new_start, new_stop = window
    places = _once(old, range(old_start, old_stop), numbered=numbered)
    others = _once(new, range(new_start, new_stop), numbered=numbered)
    common = [(places[token], at) for token, at in others.items() if token in places]
    return [common[position] for position in rising([at for at, _ in common])]


def _once(tokens: Sequence[Hashable], places: range, *, numbered: bool) -> dict[Hashable, int]:
    """Where the tokens are that are there once; with `numbered` all of them, each with how often it came before."""
    if numbered:
        seen: Counter[Hashable] = Counter()
        found: dict[Hashable, int] = {}
        for at in places:
            token = tokens[at]
            found[token, seen[token]] = at
            seen[token] += 1
        return found
    once: dict[Hashable, int] = {}
    several: set[Hashable] = set()
    for at in places:
        token = tokens[at]
        if token in once:
            several.add(token)
        once[token] = at
    for token in several:
        del once[token]
    return once
