"""What a state does not have is unknown: how that travels through an expression, as the how-to page says."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.backends.memory import MemoryBackend
from holdfast.store.searching.evaluating import Evaluation
from holdfast.store.searching.expressions import Expression
from holdfast.store.searching.functions import MissingError

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "find-the-step.md"
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
    """One of the three, as it is before the top turns unknown into "does not hold"."""
    try:
        return T if Evaluation(state).value(Expression(text)._tree.body) else F
    except MissingError:
        return U


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


def test_the_page_has_the_same_table():
    words = {"t": "true", "f": "false", "gone": "unknown"}
    rows = re.findall(
        r"^\| (\w+) \| (\w+) \| (\w+) \| (\w+) \| (\w+) \|$", PAGE.read_text("utf-8"), re.MULTILINE
    )

    assert [row for row in rows if set(row) <= {T, F, U}] == [
        (words[a], words[b], both, either, contrary) for a, b, both, either, contrary in TABLE
    ]


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


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # any and all ask each item by itself: missing is not true, so it fails the one and does nothing to the other.
        ("all(c.ok for c in calls)", F),
        ("any(c.ok for c in calls)", T),
        ("all(c.ok for c in good)", T),
        ("all(not c.ok for c in calls)", F),
        ("any(not c.ok for c in calls)", F),
        ("all([t, gone])", F),
        ("any([f, gone])", F),
        ("any([gone, t])", T),
        ("all((t, t)) and any({f, t})", T),
        ("all([c.ok for c in calls])", F),
        ("all(c.ok for c in [])", T),
        # The list itself is missing: then nothing is known.
        ("all(c.ok for c in gone)", U),
        ("any(gone)", U),
        ("not any(c.ok for c in gone)", U),
        # An `if` takes what holds, an inner list that is not there has no items, and a list leaves out what is missing.
        ("all(c.ok for c in calls if c.ok)", T),
        ("len([c for c in calls if not c.ok]) == 0", T),
        ("[c.ok for m in turns for c in m.calls] == [true]", T),
        ("all(c.ok for m in turns for c in m.calls)", F),
        ("any(c.ok for m in turns for c in m.calls)", T),
        ("sum(c.ok for c in calls) == 1", T),
    ],
)
def test_items_that_lack_what_is_asked_for(text, found):
    assert comes_to(text) == found


def test_what_was_missing_is_noted_even_where_another_part_decides():
    assert Expression("gone > 1 or t").holds(STATE) == (True, ("there is no gone",))
    assert Expression("gone < n < 1").holds(STATE) == (False, ("there is no gone",))
    assert Expression("all(c.ok for c in calls)").holds(STATE) == (False, ("there is no c.ok",))


def test_looking_makes_nothing_in_the_state():
    state: dict[str, Any] = {"d": defaultdict(list, {"a": [1]}), "c": Counter(x=1)}

    assert comes_to("d['b'] == []", state) == U
    assert comes_to("c['y'] == 0", state) == U
    assert comes_to("d['a'] == [1] and c['x'] == 1", state) == T
    assert state == {"d": {"a": [1]}, "c": Counter(x=1)}
    assert list(state["d"]) == ["a"]


def test_bisect_says_that_the_contrary_holds_no_more_where_the_key_is_missing():
    session = holdfast.Store(MemoryBackend()).session("s")
    for state in ({"score": 0.2}, {}, {"n": 1}, {"score": 0.9}):
        session.save(state)
    with pytest.raises(holdfast.NotFoundError) as caught:
        session.bisect("score < 0.5")

    assert "not (...)" in caught.value.hint
    assert "neither holds" in caught.value.hint
    for contrary in ("not (score < 0.5)", "not (score < 0.5 and true)", "not (score < 0.5 or false)"):
        assert session.bisect(contrary).found.seq == 4
