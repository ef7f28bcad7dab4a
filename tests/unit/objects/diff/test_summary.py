"""One line that says what changed: most telling first, and never too long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.test_diff import edited, plain

from holdfast.objects.codec.registry import GLOBAL
from holdfast.objects.diff.diff import diff_values


def summary(old, new, width=80):
    return diff_values(old, new, GLOBAL).summary(width)


MESSAGES = [{"id": number, "text": "hi", "read": False} for number in range(5)]


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ({}, {}, ""),
        (
            {"score": 0.41, "messages": MESSAGES[:3]},
            {"score": 0.63, "messages": MESSAGES},
            "+2 messages, score 0.41 to 0.63",
        ),
        ({"messages": MESSAGES}, {"messages": MESSAGES[1:]}, "-1 message"),
        ({"tests": {"failing": 3}}, {"tests": {"failing": 0}}, "tests.failing 3 to 0"),
        ({"status": "running"}, {"status": "done"}, "status running to done"),
        ({"a": None}, {"a": True}, "a None to True"),
        ({"a": 1}, {"a": 1, "b": 2}, "+b"),
        ({"a": 1, "b": 2}, {"a": 1}, "-b"),
        ({"beliefs": {"x": 1}}, {"beliefs": {"x": 1, "y": 2, "z": 3}}, "+beliefs.y, +beliefs.z"),
        ({"beliefs": {"b1": {"p": 1}}}, {"beliefs": {"b1": {"p": 1}, "b7": {"p": 2}}}, "+1 belief"),
        ({"beliefs": {"a": {"x": 1}}}, {"beliefs": {"a": {"x": 1, "y": 2}}}, "+beliefs.a.y"),
        ({"beliefs": {"a": {"p": {}}}}, {"beliefs": {"a": {"p": {}, "q": {}}}}, "+beliefs.a.q"),
        ({"plan": {"a": {"n": 1}}}, {"plan": {"a": {"n": 1}, "b": {"n": 2}}}, "+plan.b"),
        ({"tests": {}}, {"tests": {"failing": 3}}, "+tests.failing"),
        ({"plan": {"x": 1}}, {"plan": {"a": 1, "b": 2, "c": 3}}, "+3 -1 keys in plan"),
        (
            {"messages": [{"id": 1, "t": "a", "meta": 1}]},
            {"messages": [{"id": 1, "t": "a"}]},
            "-messages[0].meta",
        ),
        (
            {"messages": [{"id": 1, "t": "a"}, {"id": 2}]},
            {"messages": [{"id": 1, "t": "a", "meta": {}}, {"id": 2}, {"id": 3}]},
            "+1 message, +messages[0].meta",
        ),
        (
            {"messages": MESSAGES},
            {"messages": [row | {"meta": {}} for row in MESSAGES]},
            "5 messages changed",
        ),
        ({"runs": [{"tags": ["a"]}]}, {"runs": [{"tags": ["a", "b"]}]}, "+1 tag"),
        ({"grid": [[1, 2], [3]]}, {"grid": [[1, 2, 9], [3]]}, "+grid[0][2]"),
        ({"plan": {"a": 1, "b": 2}}, {"plan": {"b": 2, "a": 1}}, "1 key in plan moved"),
        ({"m": [{"a": 1, "b": 2}]}, {"m": [{"b": 2, "a": 1}]}, "1 key in m[0] moved"),
        ({"messages": MESSAGES}, {"messages": MESSAGES[1:] + MESSAGES[:1]}, "1 message moved"),
        (
            {"steps in order": {"a": 1, "b": 2}},
            {"steps in order": {"b": 2, "a": 1}},
            "1 key in ['steps in order'] moved",
        ),
        ({"a"}, {"b"}, "+1 -1 members"),
        ({"m": MESSAGES}, {"m": [row | {"read": True} for row in MESSAGES]}, "5 m changed"),
        ({"m": [1, 2, 3, 4]}, {"m": [5, 6, 7, 4]}, "3 m changed"),
        ({"m": [[1, 2], [3, 4]]}, {"m": [[5, 6], [7, 4]]}, "2 m changed"),
        (
            {"m": [{"a": 1, "b": 1} for _ in range(3)], "n": [{"a": 1}]},
            {"m": [{"a": 2, "b": 2} for _ in range(3)], "n": [{"a": 2}]},
            "n[0].a 1 to 2, 3 m changed, 3 m changed",
        ),
        ({"note": "a" * 90}, {"note": "b" * 190}, "note edited (+100 characters)"),
        ({"n": 1234567}, {"n": 1234568}, "n 1,234,567 to 1,234,568"),
        ({"n": 0.123456789}, {"n": 0.123456788}, "n 0.123456789 to 0.123456788"),
        ({"x": [1]}, {"x": (1,)}, "x a list to a tuple"),
        (5, [5], "state an int to a list"),
        ({"tags": {"a"}}, {"tags": {"b"}}, "+1 -1 tags"),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "1 key moved"),
        ([1, 2], [1, 2, 3], "+1 item"),
        (1, 2, "state 1 to 2"),
        ({"n": 1}, {"n": 1.0}, "n 1 to 1.0"),
        ({"score": 0.41}, {"score": 1.0}, "score 0.41 to 1.0"),
        ({"score": -3.0}, {"score": 100_000.0}, "score -3.0 to 1e+05"),
        ({"n": 12_345}, {"n": 0.5}, "n 12,345 to 0.5"),
        ({"n": 2.0}, {"n": float("inf")}, "n 2.0 to inf"),
        ({"n": 1234.0}, {"n": 1234.00001}, "n 1234.0 to 1234.00001"),
        ({"n": None}, {"n": 3.0}, "n None to 3.0"),
    ],
)
def test_a_summary_says_what_a_person_would_say(old, new, wanted):
    assert summary(old, new) == wanted


def test_what_does_not_fit_is_counted():
    old = {f"value_number_{number}": number for number in range(30)}
    new = {key: value + 1 for key, value in old.items()}
    said = summary(old, new)
    assert len(said) <= 80
    told = said.count(" to ")
    assert said.endswith(f", {30 - told} more")


@given(edited(plain), st.integers(30, 80))
def test_a_summary_is_never_longer_than_asked_and_empty_only_where_nothing_changed(pair, width):
    old, new = pair
    said = summary(old, new, width)
    assert len(said) <= width
    assert bool(said) == bool(diff_values(old, new, GLOBAL))
