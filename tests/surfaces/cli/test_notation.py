"""A state as text for people."""

from __future__ import annotations

import ast
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Opaque
from holdfast.cli.pretty import Limits, Notation


def shown(value, width=60, limits=None):
    return "\n".join(Notation(width, limits).lines(value))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (True, "True"),
        (-7, "-7"),
        (1.0, "1.0"),
        (float("nan"), "nan"),
        ('a "quoted" line\n', r'"a \"quoted\" line\n"'),
        ("\x1b[31m\x9b\u202e", r'"\u001b[31m\x9b\u202e"'),
        (b"hi\x00", r"b'hi\x00'"),
        (bytearray(b"x"), "bytearray(b'x')"),
        ([], "[]"),
        ((), "()"),
        ((1,), "(1,)"),
        ((1, 2), "(1, 2)"),
        (set(), "set()"),
        ({3, 1}, "{1, 3}"),
        (frozenset(), "frozenset()"),
        (frozenset({1}), "frozenset({1})"),
        ({}, "{}"),
        ({"a": [1, {"b": None}], 2: (3,)}, '{"a": [1, {"b": None}], 2: (3,)}'),
        ({(1, "x"): 1}, '{(1, "x"): 1}'),
        (deque([1, 2], maxlen=3), "deque([1, 2], maxlen=3)"),
        (OrderedDict(a=1), 'OrderedDict({"a": 1})'),
        (Counter("aa"), 'Counter({"a": 2})'),
        (defaultdict(list, a=[]), 'defaultdict({"a": []})'),
        (datetime(2026, 11, 15, 12, tzinfo=UTC), 'datetime("2026-11-15T12:00:00+00:00")'),
        (
            datetime(2026, 11, 15, 12, tzinfo=ZoneInfo("Asia/Tokyo")),
            'datetime("2026-11-15T12:00:00+09:00[Asia/Tokyo]")',
        ),
        (date(2026, 11, 15), 'date("2026-11-15")'),
        (timedelta(days=1, seconds=5), "timedelta(days=1, seconds=5)"),
        (Decimal("1.10"), 'Decimal("1.10")'),
        (UUID(int=0), 'UUID("00000000-0000-0000-0000-000000000000")'),
        (Path("a\x1bb"), r'Path("a\u001bb")'),
        (range(3), "range(0, 3)"),
        (..., "Ellipsis"),
        (Opaque("acme.Plan", 2, {"goal": "x"}), '<acme.Plan v2 {"goal": "x"}>'),
        (Opaque("\x1b]0;", 1, ()), r"<\x1b]0; v1 ()>"),
        (Opaque("acme.Pair", 1, (1,)), "<acme.Pair v1 (1,)>"),
        (Opaque("acme.Color", 1, "red"), '<acme.Color v1 "red">'),
        (Opaque("acme.Box", 1, Opaque("acme.Plan", 2, [])), "<acme.Box v1 <acme.Plan v2 []>>"),
    ],
)
def test_each_type_has_its_mark(value, text):
    assert shown(value) == text


def test_what_does_not_fit_a_line_is_laid_out():
    state = {
        "goal": "survey the library",
        "queue": deque(["argparse", "shlex"]),
        "notes": ["a" * 30, "b" * 30],
        "n": {},
    }

    assert shown(state, 40) == "\n".join(
        [
            "{",
            '  "goal": "survey the library",',
            '  "queue": deque(["argparse", "shlex"]),',
            '  "notes": [',
            f'    "{"a" * 30}",',
            f'    "{"b" * 30}",',
            "  ],",
            '  "n": {},',
            "}",
        ]
    )


LITERALS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")) | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(st.characters(codec="utf-8")) | st.integers(), inner, max_size=4)
    ),
)


@given(LITERALS, st.sampled_from([10, 40, 100]))
def test_the_whole_of_a_value_can_be_read_back_by_python(value, width):
    text = shown(value, width)

    assert repr(ast.literal_eval(text)) == repr(value)
    assert "\x1b" not in text


def test_limits_cut_and_say_how_much():
    state = {"items": list(range(100)), "text": "x" * 1000, "raw": b"y" * 1000, "deep": [[[[[[[[[1]]]]]]]]]}

    notation = Notation(60, Limits(items=10, characters=40, depth=4, lines=60))
    text = "\n".join(notation.lines(state))

    assert notation.cut
    assert "… 90 more" in text
    assert "… 960 more characters" in text
    assert "… 990 more bytes" in text
    assert "[… 1 inside]" in text


def test_deep_values_are_written_without_recursion():
    value: object = 1
    for _ in range(10_000):
        value = {"k": value}

    text = shown(value)

    assert text.count("{") == text.count("}") == 10_000
