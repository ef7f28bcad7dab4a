"""Expressions over a state: what they can say, what they refuse, and that nothing can hang them."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

import holdfast
from holdfast import ErrorCode
from holdfast.backends.memory import MemoryBackend
from holdfast.store.search import where
from holdfast.store.search.where import Expression

STATE = {
    "messages": [{"role": "user", "n": 1}, {"role": "tool", "n": 2, "text": "Rate Limit"}],
    "score": 0.41,
    "goal": None,
    "items": {"keys": 3, "a b": 4},
    "pair": (1, 2),
    "cost": Decimal("1.5"),
    "at": datetime(2026, 11, 16, 12, tzinfo=UTC),
    "day": date(2026, 11, 16),
    "state": "shadowed",
    "big": 2**20000,
    "nan": float("nan"),
    "seen": {"x", "y"},
}


@pytest.mark.parametrize(
    "text",
    [
        'messages[-1].role == "tool" and score < 0.5',
        "len(messages) == 2",
        "0 < score < 1",
        "not (score > 1)",
        "goal is None and goal == null",
        "score > 1 or messages[0]['role'] == 'user'",
        "(score or 1) == 0.41 and (goal or 7) == 7 and (score and 3) == 3",
        "not ((score or 0) > 0.5)",
        "any(m.role == 'tool' for m in messages)",
        "[m.n for m in messages if m.role == 'tool'] == [2]",
        "len([m for m in messages for w in messages]) == 4",
        "sum(m.n for m in messages) == 3 and max([m.n for m in messages]) == 2",
        "'Limit' in messages[1].text and startswith(lower(messages[1].text), 'rate')",
        "items.keys == 3 and items['a b'] == 4",
        "pair[0] + pair[1] * 2 - 1 == 4 and 7 // 2 == 3 and 7 % 2 == 1 and 1 / 2 == 0.5",
        "-pair[0] == -1 and abs(-3) == 3 and round(0.6) == 1 and round(score, 1) == 0.4",
        "cost > 1 and cost == 1.5",
        "at > '2026-11-16' and at < '2026-11-16T13' and day == '2026-11-16'",
        "'x' in seen and 'z' not in seen and score in {0.41, 0.42} and 1 in (1, 2)",
        "state == 'shadowed'",
        "1 if score < 0.5 else 0",
        "messages[:1][0].role == 'user' and true and not false",
        "  score < 1  ",
    ],
)
def test_it_holds(text):
    assert Expression(text).holds(STATE) == (True, ())


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("scoer < 0.5", "there is no scoer; did you mean 'score'?"),
        ("messages[5].role == 'x'", "there is no messages[5]"),
        ("messages[0].text == 'x'", "there is no messages[0].text"),
        ("items['none'] == 1", "there is no items['none']"),
        ("goal < 0.5", "'<' not supported"),
        ("goal.x == 1", "there is no goal.x"),
        ("score[0] == 1", "a float has no such parts"),
        ("score / 0 > 1", "division by zero"),
        ("messages + 1 == 2", "cannot reckon with a list"),
        ("messages[0].role * 99999999 == ''", "cannot reckon with a str"),
        ("messages < messages", "only numbers and texts have an order"),
        ("min(messages) == 1", "only numbers and texts have an order"),
        ("messages[0].n < messages[0].role", "not supported"),
        ("len(score) > 1", "a float has no items"),
        ("lower(score) == 'x'", "doesn't apply to a 'float' object"),
        ("min([]) > 1", "empty"),
        ("messages[0].__class__ == 1", "there is no messages[0].__class__"),
        ("any(m.text == 'no' for m in messages)", "there is no m.text"),
        ("sum(messages) > 1", "cannot reckon with a dict"),
        ("__builtins__", "there is no __builtins__"),
        ("messages['role'] == 1", "list indices must be integers"),
        ("round(score, 9999) == 1", "so many digits"),
        ("cost % 0 == 1", "modulo"),
        ("1 in score", "a float has no items"),
    ],
)
def test_what_is_missing_does_not_hold_and_is_noted(text, note):
    answer = Expression(text).holds(STATE)

    assert not answer.holds
    assert len(answer.notes) == 1
    assert note in answer.notes[0]


REFUSED = [
    ("score <", 7),
    ("", None),
    ("   ", None),
    ("score = 1", 6),
    ("2 ** 9", 0),
    ("1 << 9", 0),
    ("'a' % b @ c", 0),
    ("lambda: 1", 0),
    ("score < (lambda: 1)", 9),
    ("f'{score}' == 1", 0),
    ("open('x')", 0),
    ("len.__class__()", 0),
    ("messages[0].role.lower() == 1", 0),
    ("len(score, key=1)", 0),
    ("[x for x, y in messages]", 0),
    ("{'a': 1} == 1", 0),
    ("(x := 1)", 1),
    ("len(*messages)", 4),
    ("score < round()", 8),
    ("round(score, 1, 2)", 0),
    ("len(a, b)", 0),
    ("startswith(a)", 0),
    ("min()", 0),
    ("b'x' == 1", 0),
    ("1j == 1", 0),
    ("... == 1", 0),
    ("~1", 0),
    ("import os", 0),
    ("a; b", 1),
    ("a\nb", None),
    ("x\x00", None),
    ("not " * 60 + "x", None),
    ("-" * 1900 + "1", None),
    ("(" * 300 + "1" + ")" * 300, None),
    ("a" + ".b" * 60, None),
    ("x" * 2001, None),
    ("1 + größe ** 2", 4),
    (5, None),
]


@pytest.mark.parametrize(("text", "at"), REFUSED)
def test_what_is_more_than_looking_is_refused_with_its_place(text, at):
    with pytest.raises(holdfast.InvalidInputError) as caught:
        Expression(text)

    assert caught.value.code is ErrorCode.BAD_EXPRESSION
    assert caught.value.hint
    if at is not None:
        assert caught.value.details["position"] == at
        assert f"at character {at + 1}" in str(caught.value)


@pytest.mark.parametrize(("text", "word"), [("a && b", "and"), ("a || b", "or"), ("!a", "not")])
def test_the_signs_of_other_languages_are_known(text, word):
    with pytest.raises(holdfast.InvalidInputError) as caught:
        Expression(text)

    assert f"write {word} instead" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "len([a for a in x for b in x for c in x]) > 0",
        "any(a == 0.5 for a in x for b in x for c in x)",
        "any(x != x for a in x for b in x)",
        "any(a not in x for a in x for b in x)",
        "any(len(x) < 0 for a in x for b in x)",
        "any(x[1:] == 1 for a in x for b in x)",
        "any(a.b.c == 1 for a in x for b in x for c in x)",
    ],
)
def test_an_expression_that_takes_too_many_steps_is_given_up(text, monkeypatch):
    monkeypatch.setattr(where, "_MOST_STEPS", 50_000)

    with pytest.raises(holdfast.InvalidInputError, match="too many steps") as caught:
        Expression(text).holds({"x": list(range(300))})
    assert caught.value.code is ErrorCode.BAD_EXPRESSION


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("a == b", {"a": ["x"] * 400_000, "b": ["x"] * 400_000}),
        ("any(a == b for x in c)", {"a": [[1] * 300] * 300, "b": [[1] * 300] * 300, "c": [0] * 300}),
        ("any(a in b for x in c)", {"a": ["x"] * 300, "b": [["x"] * 300] * 300, "c": [0] * 300}),
        ("any(a in b for x in c)", {"a": "x" * 1000 + "y", "b": "x" * 1_000_000, "c": [0] * 300}),
        ("any(lower(b) == 'x' for x in c)", {"b": "x" * 4_000_000, "c": [0] * 300}),
        ("any(sum(a) == 1 for x in a)", {"a": [1] * 100_000}),
    ],
)
def test_what_a_comparison_costs_is_counted_before_it_begins(text, state):
    began = time.monotonic()

    with contextlib.suppress(holdfast.InvalidInputError):
        Expression(text).holds(state)

    assert time.monotonic() - began < 30


def test_no_code_of_the_application_runs():
    ran = []

    @dataclass
    class Plan:
        name: str

        def __post_init__(self):
            ran.append(self.name)

        @property
        def shown(self):
            ran.append("property")
            return 1

    session = holdfast.Store(MemoryBackend(), types=[Plan]).session("s")
    for name in ("a", "b", "b"):
        session.save({"plan": Plan(name)})
    ran.clear()

    assert session.bisect("plan.name == 'b'").found.seq == 2
    with pytest.raises(holdfast.NotFoundError):
        session.bisect("plan.shown == 1")
    assert ran == []
