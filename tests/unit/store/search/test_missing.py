"""What a state does not have is unknown: how that travels through an expression, as the how-to page says."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.store.search.where import Expression

STATE: dict[str, Any] = {
    "t": True,
    "f": False,
    "n": 5,
    "none": None,
    "calls": [{"ok": True}, {}],
    "good": [{"ok": True}, {"ok": True}],
    "turns": [{"calls": [{"ok": True}]}, {"role": "user"}, {"calls": [{}]}],
}
T, F, U = "true", "false", "unknown"


def comes_to(text: str, state: Any = STATE) -> str:
    """One of the three: what is unknown does not hold, nor does its contrary."""
    if Expression(text).holds(state).holds:
        return T
    return F if Expression(f"not ({text})").holds(state).holds else U


TABLE = [
    # a, b, a and b, a or b, not a
    ("t", "t", T, T, F),
    ("t", "f", F, T, F),
    ("t", "gone", U, T, F),
    ("f", "t", F, T, T),
    ("f", "f", F, F, T),
    ("f", "gone", F, U, T),
    ("gone", "t", U, T, U),
    ("gone", "f", F, U, U),
    ("gone", "gone", U, U, U),
]


@pytest.mark.parametrize(("a", "b", "both", "either", "contrary"), TABLE)
def test_the_truth_table(a, b, both, either, contrary):
    assert comes_to(f"{a} and {b}") == both
    assert comes_to(f"{a} or {b}") == either
    assert comes_to(f"not {a}") == contrary
    # And through each other, in brackets, and in a longer row.
    assert comes_to(f"not (not {a})") == {T: F, F: T, U: U}[contrary]
    assert comes_to(f"{a} and {b} and {a}") == both
    assert comes_to(f"({a} or {b}) or {b}") == either


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # What needs something that is missing is unknown, whichever way it is asked.
        ("gone == 1", U),
        ("gone != 1", U),
        ("gone is None", U),
        ("gone in [1]", U),
        ("1 not in gone", U),
        ("none < 5", U),
        ("not (none < 5)", U),
        ("gone + 1 == 2", U),
        ("len(gone) == 0", U),
        ("[gone, 1] == [1]", U),
        ("calls[1].ok", U),
        ("calls[7]", U),
        # `none` is there, and is nothing: that is not missing.
        ("none is None", T),
        ("not none", T),
        ("'gone' in state", F),
        ("'gone' not in state or gone > 1", T),
        # A chain is its links, joined by `and`.
        ("gone < n < 9", U),
        ("gone < n < 1", F),
        ("1 < n < gone", U),
        ("9 < n < gone", F),
        # A choice needs to know what is asked.
        ("1 if gone else 1", U),
        ("gone if t else 1", U),
        ("gone if f else 1", T),
        # The same question, written in three ways.
        ("not (gone < 0.5)", U),
        ("not (gone < 0.5 and true)", U),
        ("not (gone < 0.5 or false)", U),
    ],
)
def test_what_an_expression_comes_to(text, found):
    assert comes_to(text) == found
    # At the top, and only there, unknown does not hold.
    assert Expression(text).holds(STATE).holds is (found == T)
