"""A mold gives what decoding gives, and nothing that can change is in two of the things it gives."""

from __future__ import annotations

import copy
import datetime as dt
import enum
import gc
from collections import OrderedDict, defaultdict, deque
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.objects.samples import Colour, Level, Point, Step

from holdfast.objects.molds import Mold, UnlikeError
from holdfast.objects.opaque import Opaque
from holdfast.objects.registry import TypeRegistry

TYPES = TypeRegistry()
for _cls in (Colour, Level, Point, Step):
    TYPES.register(_cls)

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.datetimes(timezones=st.just(dt.UTC)),
    st.just(Decimal("1.50")),
    st.sampled_from([Colour.RED, Level.HIGH]),
    st.tuples(st.integers(), st.text(max_size=3)),
)
KEYS = st.one_of(st.text(max_size=3), st.tuples(st.integers(), st.none()))
VALUES = st.recursive(
    # Of one member: copies of larger sets may have another order.
    st.one_of(SCALARS, st.sets(st.integers(), max_size=1)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=30,
)


def changeable(value: Any) -> dict[int, Any]:
    """All that is in a value and can change, by identity."""
    found: dict[int, Any] = {}
    to_do = [value]
    while to_do:
        each = to_do.pop()
        if isinstance(each, list | dict | set):
            found[id(each)] = each
            to_do += each.values() if isinstance(each, dict) else each
    return found


@given(st.lists(VALUES, max_size=5))
def test_a_mold_gives_equal_values_of_the_same_types_that_share_nothing_that_can_change(values):
    expected = copy.deepcopy(values)
    mold = Mold(values, TYPES)
    given = [mold.make() for _ in range(3)]
    for each in given:
        assert each == expected
        # Types and the order of dicts, too.
        assert repr(each) == repr(expected)
    seen = [changeable(values), *map(changeable, given)]
    assert len({place for each in seen for place in each}) == sum(map(len, seen))


@given(st.lists(VALUES, min_size=1, max_size=5), st.data())
def test_what_is_done_to_one_shows_in_no_other(values, data):
    expected = copy.deepcopy(values)
    mold = Mold(values, TYPES)
    first = mold.make()
    held = list(changeable(first).values())
    target = data.draw(st.sampled_from(held))
    if isinstance(target, list):
        target.append("more")
    elif isinstance(target, dict):
        target["more"] = 1
    else:
        target.add("more")
    assert mold.make() == expected


@pytest.mark.parametrize(
    "odd",
    [
        bytearray(b"x"),
        deque([1]),
        OrderedDict(a=1),
        defaultdict(list),
        ([1],),
        (1, {"a": 2}),
        Opaque("unknown", 1, {"a": 1}, None),
        Step("s", [1]),
        Point([1], 2),
        slice(1, 2),
        {(Point(1, 2),): 1},
    ],
    ids=repr,
)
def test_what_only_decoding_can_make_has_no_mold(odd):
    for values in ([odd], [1, {"a": [odd]}]):
        with pytest.raises(UnlikeError):
            Mold(values, TYPES)


def test_a_set_of_what_may_change_has_no_mold():
    class Strange(enum.Enum):
        ONE = 1

    assert Mold([{Strange.ONE}], TYPES).make() == [{Strange.ONE}]
    with pytest.raises(UnlikeError):
        Mold([{Point(1, 2)}], TYPES)


def test_a_value_as_deep_as_any_has_a_mold():
    deep: list[Any] = []
    for _ in range(9_000):
        deep = [deep]
    mold, levels, found = Mold(deep, TYPES), 0, None
    found = mold.make()
    while found:
        found, levels = found[0], levels + 1
    assert levels == 9_000


class Box:
    """An object of which a shape knows the layout."""

    def __init__(self, **held: Any) -> None:
        self.__dict__.update(held)


class BoxShape:
    def take(self, value: Box) -> tuple[Any, Any]:
        return dict(value.__dict__), None

    def make(self, data: Any, extra: Any) -> Any:
        return Box(**data)

    def layout(self, value: Box) -> list[tuple[Any, Any]]:
        return [(vars(Box)["__dict__"].__set__, value.__dict__)]


def test_objects_with_a_layout_are_made_anew_with_all_they_hold():
    types = TypeRegistry()
    types.register(Box, shape=BoxShape())
    values: list[Any] = [Box(a=1, inner=Box(b=[1, {"c": 2}]), empty=Box()), {"box": Box(x="y")}, 3]
    mold = Mold(values, types)
    one, two = mold.make(), mold.make()
    assert one[0].inner.b == [1, {"c": 2}]
    assert (one[0].a, vars(one[0].empty), one[1]["box"].x, one[2]) == (1, {}, "y", 3)
    boxes = [
        box for each in (values, one, two) for box in (each[0], each[0].inner, each[0].empty, each[1]["box"])
    ]
    assert len(set(map(id, boxes))) == 12
    assert all(type(box) is Box for box in boxes)
    one[0].inner.b[1]["c"] = "changed"
    one[0].empty.now = "here"
    assert two[0].inner.b == mold.make()[0].inner.b == [1, {"c": 2}]
    assert vars(mold.make()[0].empty) == {}


def test_the_garbage_collector_still_finds_cycles_through_what_a_mold_gave():
    class Token:
        gone = 0

        def __del__(self) -> None:
            Token.gone += 1

    made = Mold([[1], {"a": {}}], TYPES).make()
    made[1]["a"]["self"] = made
    made[0].append(Token())
    del made
    gc.collect()
    assert Token.gone == 1
