"""A state as text for people."""

from __future__ import annotations

import ast
import random
import re
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
from holdfast.cli._notation import Limits, Notation


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


def test_objects_that_do_not_fit_a_line_are_laid_out_like_their_data():
    said = Opaque("langchain.AIMessage", 1, {"content": "x" * 40, "id": "m-1"})
    numbers = Opaque("acme.Numbers", 3, list(range(30)))
    state = [said, numbers, Opaque("acme.Box", 1, said), Opaque("acme.Text", 1, "y" * 50)]

    assert shown(state, 44).splitlines() == [
        "[",
        "  <langchain.AIMessage v1 {",
        f'    "content": "{"x" * 40}",',
        '    "id": "m-1",',
        "  }>,",
        "  <acme.Numbers v3 [",
        "    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,",
        "    12, 13, 14, 15, 16, 17, 18, 19, 20, 21,",
        "    22, 23, 24, 25, 26, 27, 28, 29,",
        "  ]>,",
        "  <acme.Box v1",
        "    <langchain.AIMessage v1 {",
        f'      "content": "{"x" * 40}",',
        '      "id": "m-1",',
        "    }>",
        "  >,",
        f'  <acme.Text v1 "{"y" * 50}">,',
        "]",
    ]


def test_the_names_of_short_fields_are_shown_where_they_need_lines():
    numbers = {f"n{number}": number for number in range(12)}

    assert shown(Opaque("acme.N", 1, numbers), 30).splitlines()[:3] == [
        "<acme.N v1 {",
        '  "n0": 0,',
        '  "n1": 1,',
    ]


def test_limits_hold_inside_objects():
    notation = Notation(60, Limits(items=2, depth=2))
    deep = Opaque("acme.A", 1, [Opaque("acme.B", 1, {"x": Opaque("acme.C", 1, {"y": 1})})])
    boxed = Opaque("acme.A", 1, Opaque("acme.B", 1, Opaque("acme.C", 1, Opaque("acme.D", 1, 1))))

    assert list(notation.lines(deep)) == ['<acme.A v1 [<acme.B v1 {"x": <acme.C v1 {… 1 inside}>}>]>']
    assert list(notation.lines(boxed)) == ["<acme.A v1 <acme.B v1 <acme.C v1 … 1 inside>>>"]
    assert notation.cut
    assert "".join(notation.lines(Opaque("acme.L", 1, [1, 2, 3]))) == "<acme.L v1 [1, 2, … 1 more]>"


@given(
    st.recursive(
        st.integers() | st.text("ab", max_size=30),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text("ab"), inner, max_size=3)
            | inner.map(lambda data: Opaque("t.T", 1, data))
        ),
    ),
    st.sampled_from([10, 30, 100]),
)
def test_no_line_ends_with_a_blank_and_layout_changes_nothing_else(value, width):
    lines = list(Notation(width).lines(value))

    assert not [line for line in lines if line != line.rstrip()]

    # With blanks and the commas before a closing bracket left out, it is what stands on one line.
    def bare(text):
        return re.sub(r",(?=[\]})>])", "", text.replace(" ", "").replace("\n", ""))

    assert bare("".join(lines)) == bare(shown(value, 10**6))


def test_objects_in_objects_thousands_of_levels_deep_are_written_without_recursion():
    value = Opaque("t.T", 1, 1)
    for _ in range(5_000):
        value = Opaque("t.T", 1, value)

    text = shown(value)

    assert text.count("<") == text.count(">") == 5_001


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


def test_a_long_state_is_cut_to_a_screenful():
    notation = Notation(60, Limits(items=1000, lines=5))

    lines = list(notation.lines([["x" * 50] for _ in range(100)]))

    assert len(lines) == 6
    assert lines[-1] == "…"
    assert notation.cut


def test_nothing_is_cut_without_limits_or_below_them():
    state = {"items": list(range(24)), "text": "x" * 240}

    whole, limited = Notation(60), Notation(60, Limits())

    assert list(whole.lines(state)) == list(limited.lines(state))
    assert not whole.cut
    assert not limited.cut


def test_deep_values_are_written_without_recursion():
    value: object = 1
    for _ in range(10_000):
        value = {"k": value}

    text = shown(value)

    assert text.count("{") == text.count("}") == 10_000


def test_a_large_set_is_sorted_a_few_times_not_once_per_level():
    class Counted:
        looks = 0

        def __repr__(self):
            Counted.looks += 1
            return "x"

    value: object = {Counted() for _ in range(1000)}
    for _ in range(20):
        value = [value]
    shown(value)

    assert 1000 <= Counted.looks <= 4000


def test_the_text_of_a_set_does_not_depend_on_its_history():
    names = [f"n{i}" for i in range(30)]
    texts = {shown(set(random.Random(seed).sample(names, 30))) for seed in range(5)}

    assert len(texts) == 1
