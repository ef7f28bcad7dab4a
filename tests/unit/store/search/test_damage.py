"""Damaged states: every search passes over them, and says so; where none can be read, that is an error."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest
from tests.unit.store.search.counting import counted_session

import holdfast


def of_ten(spoiled):
    """Ten checkpoints whose value goes up at #4 and #7; the states of some cannot be read."""
    session, backend = counted_session()
    made = [session.save({"n": n, "v": (n >= 4) + (n >= 7), "t": f"needle {n}"}) for n in range(1, 11)]
    backend.spoiled = {made[n - 1].root for n in spoiled}
    return session


def noted(notes):
    """The checkpoints of which a note says that they cannot be read."""
    (note,) = [each for each in notes if "cannot be read" in each]
    listed = note[note.index("(") : note.index(")")] if "states" in note else note.split(" ")[0]
    found: list[int] = []
    for first, last in re.findall(r"#(\d+)(?: to #(\d+))?", listed):
        found += range(int(first), int(last or first) + 1)
    return found


def quietly(findings) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", holdfast.HoldfastWarning)
        return list(findings)


SEARCHES = {
    "bisect": lambda s: s.bisect("v >= 1", check="all"),
    "blame": lambda s: s.blame("t"),
    "history_of": lambda s: s.history_of("v"),
    "grep": lambda s: s.grep("needle"),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_damaged_state_is_passed_over_and_noted(name):
    session = of_ten([10])

    found = SEARCHES[name](session)
    if name in ("history_of", "grep"):
        quietly(found)

    assert noted(found.notes) == [10]
    assert all("#10 (" in note and "damaged" in note for note in found.notes)


@pytest.mark.parametrize("name", SEARCHES)
def test_where_no_state_can_be_read_that_is_an_error(name):
    session = of_ten(range(1, 11))

    with pytest.raises(holdfast.IntegrityError):
        quietly(SEARCHES[name](session))


@pytest.mark.parametrize("oldest_first", [True, False])
@pytest.mark.parametrize(
    ("spoiled", "changes"),
    [
        # Each change: who, from whom on, and who may have been it as well.
        ([], [(1, None, []), (4, 3, []), (7, 6, [])]),
        ([4], [(1, None, []), (5, 3, [4]), (7, 6, [])]),
        ([5, 6], [(1, None, []), (4, 3, []), (7, 4, [5, 6])]),
        ([10, 9], [(1, None, []), (4, 3, []), (7, 6, [])]),
        ([1, 2], [(3, None, [2, 1]), (4, 3, []), (7, 6, [])]),
        ([4, 5, 6], [(1, None, []), (7, 3, [4, 5, 6])]),
    ],
)
def test_a_change_is_told_of_a_state_that_was_seen(spoiled, changes, oldest_first):
    found = quietly(of_ten(spoiled).history_of("v", oldest_first=oldest_first))

    told = [
        (c.checkpoint.seq, c.before and c.before.seq, sorted(each.seq for each in c.skipped)) for c in found
    ]
    assert sorted(told) == sorted((who, before, sorted(passed)) for who, before, passed in changes)
