"""No expression over any state runs longer than its steps allow: what a call may cost is counted before it begins."""

from __future__ import annotations

import contextlib
from collections import Counter, OrderedDict, deque
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any

import pytest

from holdfast.objects.codec.opaque import Opaque
from holdfast.store.searching import weighing
from holdfast.store.searching.evaluating import Evaluation
from holdfast.store.searching.expressions import Expression
from holdfast.store.searching.functions import MissingError
from holdfast.store.searching.weighing import StepsError

PRIME = 2**61 - 1
"""Whole numbers that are so far apart have the same hash."""


def steps(text: str, state: Any) -> int:
    """What was counted, until the end or until it was given up."""
    evaluation = Evaluation(state)
    with contextlib.suppress(MissingError, StepsError):
        evaluation.value(Expression(text)._tree.body)
    return evaluation.budget.spent


def numbers(count: int) -> list[int]:
    return [int(str(n)) for n in range(count)]


def nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def counters(depth: int) -> Any:
    made: Any = 1
    for _ in range(depth):
        made = Counter({"n": made})
    return made


def ordered(depth: int) -> Any:
    made: Any = 1
    for _ in range(depth):
        made = OrderedDict({Opaque("plan", 1, {"unhashable": [made]}): 1})
    return made


def same_hash(count: int) -> set[int]:
    return {n * PRIME + 1 for n in range(1, count + 1)}


COSTLY: list[tuple[str, Any, Any, int]] = [
    # As much as there is in it, however deep it lies.
    ("a == b", [numbers(1000)], [numbers(1000)], 2_000),
    ("a != b", {"x": {"y": numbers(1000)}}, {"x": {"y": numbers(1000)}}, 2_000),
    ("a == b", deque([tuple(numbers(1000))]), deque([tuple(numbers(1000))]), 2_000),
    ("a == b", [Opaque("t", 1, numbers(1000))], [Opaque("t", 1, numbers(1000))], 2_000),
    ("a == b", "x" * 64_000, "x" * 64_000, 2_000),
    ("a == b", ["x" * 64_000], ["x" * 64_000], 2_000),
    ("a == b", {"x" * 64_000: 1}, {"x" * 64_000: 1}, 2_000),
    ("a == b", b"x" * 64_000, b"x" * 64_000, 2_000),
    ("a == b", PurePosixPath("a/" * 1000), PurePosixPath("a/" * 1000), 2_000),
    # A level of lists costs a look at all that is below it, where they are put in order.
    ("a < b", nested(numbers(100), 50), nested(numbers(100), 50), 2 * 50 * 100),
    ("max(a, b) == 1", nested(numbers(100), 50), nested(numbers(100), 50), 2 * 50 * 100),
    ("min(a) == 1", [nested(numbers(100), 50)] * 10, 0, 10 * 50 * 100),
    # Those of one hash are compared with each other.
    ("a == b", same_hash(100), same_hash(100), 2 * 100 * 100),
    ("a <= b", frozenset(same_hash(100)), same_hash(100), 2 * 100 * 100),
    ("a == b", dict.fromkeys(same_hash(100)), dict.fromkeys(same_hash(100)), 2 * 100 * 100),
    ("b in a", same_hash(100), PRIME * 999 + 1, 100),
    ("a[b] == 1", dict.fromkeys(same_hash(100), 1), PRIME * 999 + 1, 100),
    ("b in a", same_hash(100), tuple(numbers(100)), 100 * 100),
    ("{a, b} == 1", tuple(numbers(1000)), (1,), 2_000),
    # Each of these doubles at every level.
    ("a == b", counters(16), counters(16), 2**16),
    ("a == b", ordered(16), ordered(16), 2**16),
    # A whole number that meets a Decimal or a Fraction is written anew.
    ("a == b", 2**2_000_000, Decimal(1), 10_000_000),
    ("a == b", [2**2_000_000], [Decimal(1)], 10_000_000),
    ("b in a", [2**2_000_000], Decimal(1), 10_000_000),
    ("a < b", Fraction(2**2_000_000 + 1, 2), Fraction(1, 3), 10_000_000),
    ("a == b", [Decimal("1" * 20_000)], [Decimal("1" * 20_000)], 200),
    # Looking through.
    ("b in a", numbers(1000), 5.5, 1_000),
    ("b in a", [[1, 2]] * 1000, [1, 3], 3_000),
    ("b in a", ["x" * 6400] * 100, "y", 100 * 100),
    ("b in a", "a" * 20_000, "a" * 40 + "b" + "a" * 40, 20_000 * 81 // 1024),
    ("b in a", "a" * 2_000, "a" * 500 + "b" + "a" * 500, 2_000 * 1001 // 1024),
    ("b in a", range(10**12), 0.5, 10**12),
    ("b in a", range(0, 2**2_000_001, 2**1_000_000 + 1), 2**2_000_000, 10_000_000),
    ("max(a) == 1", range(10**12), 0, 10**12),
    ("sum(a) == 1", range(10**12), 0, 10**12),
    ("all(a)", range(1, 10**12), 0, 10**12),
    ("any(a)", [0] * 1000, 0, 1_000),
    ("lower(a) == 'x'", "X" * 16_000, 0, 1_000),
    ("startswith(a, b)", "x" * 64_000, "x" * 64_000, 1_000),
    ("a[1:] == 1", numbers(1000), 0, 999),
    ("a[1:2] == 1", deque(numbers(1000)), 0, 1_000),
    ("a[32000] == 1", deque(numbers(64_000)), 0, 1_000),
    ("a * a * 1 == 1", 2**4000, 0, 98),
]


@pytest.mark.parametrize(
    ("text", "one", "other", "at_least"),
    COSTLY,
    ids=[f"{case[0]} {number}" for number, case in enumerate(COSTLY)],
)
def test_what_it_may_cost_is_counted_first(text, one, other, at_least, monkeypatch):
    # Only counted: what is given up at the first step too many is never begun.
    monkeypatch.setattr(weighing, "MOST_STEPS", at_least - 1)

    assert steps(text, {"a": one, "b": other}) >= at_least


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("round(x) > 1", Decimal("1E+999999999")),
        ("round(x, 2) > 1", Decimal("1E+999999999")),
        ("round(5, x) > 1", -(10**9)),
        ("round(x) > 1", float("inf")),
        ("x * x > 1", Decimal("1E+999999")),
        ("x % 7 > 1", Decimal("1E+999999")),
        ("x // 7 > 1", Decimal("1E+999999")),
        ("x + 1 > 1", Decimal("1" * 5_000)),
        ("x + 1 > 1", 2**5_000),
        ("sum([x, x]) > 1", 2**5_000),
        ("abs(x) > 1", 2**5_000),
        ("-x > 1", 2**5_000),
        ("x / 3 > 1", 2**4_000),
        ("x > 1", Decimal("sNaN")),
    ],
    ids=range(14),
)
def test_numbers_too_large_to_reckon_with_are_refused_with_a_note(text, value):
    answer = Expression(text).holds({"x": value})

    assert not answer.holds
    assert len(answer.notes) == 1
    assert "class" not in answer.notes[0]
