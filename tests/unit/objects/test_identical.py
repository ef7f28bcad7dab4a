"""`identical`, which every test of the codec leans on, tells apart what `==` does not."""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from pathlib import PureWindowsPath
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.unit.objects.samples import Loose, Message, Point, Step
from tests.values import identical


def nan(bits: int) -> float:
    return float(struct.unpack(">d", bits.to_bytes(8, "big"))[0])


def with_private(value: int) -> Loose:
    loose = Loose()
    loose._cache["x"] = value
    return loose


DIFFERENT: list[tuple[Any, Any]] = [
    (1, 1.0), (1, True), (0.0, -0.0), ([1], (1,)), ([1], [1.0]), ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    (nan(0x7FF8000000000000), nan(0x7FF8000000000001)), (complex(0.0, 1), complex(-0.0, 1)),
    (OrderedDict(a=1), {"a": 1}), (defaultdict(list), defaultdict(set)), (defaultdict(list), {}),
    (deque([1]), deque([1], 3)), (deque([1], 2), deque([1], 3)), (Counter(a=1), {"a": 1}), (b"x", bytearray(b"x")),
    ({1}, {1.0}), ({1, 2}, {1}), (frozenset([1]), {1}), ({(1,)}, {(1.0,)}),
    (Decimal("1.0"), Decimal("1.00")), (Decimal(0), Decimal("-0")), (Decimal("NaN"), Decimal("sNaN")),
    (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))),
    (dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, fold=1)),
    (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, tzinfo=ZoneInfo("UTC"))),
    (dt.timezone(dt.timedelta(hours=1)), dt.timezone(dt.timedelta(hours=1), "CET")), (dt.UTC, ZoneInfo("UTC")),
    (range(0), range(1, 1)), (slice(1), slice(1.0)), (uuid.UUID(int=1), uuid.UUID(int=1, is_safe=uuid.SafeUUID.safe)),
    (PureWindowsPath("A"), PureWindowsPath("a")), (Point(1, 2), Point(1, 2.0)), (Step("a", 1), Point("a", 1)),
    (Message(role="a"), Message(role="a", content=None)), (with_private(1), with_private(2)),
    (Loose(), Loose.model_validate({"more": 1})),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=range(len(DIFFERENT)))
def test_what_differs_in_anything_is_not_identical(one, other):
    assert not identical(one, other)
    assert not identical([{"k": (one,)}], [{"k": (other,)}])
    assert identical(one, one)


def test_two_nans_of_the_same_bits_are_identical_alone_and_in_sets():
    assert identical(nan(0x7FF8000000000005), nan(0x7FF8000000000005))
    assert identical({nan(0x7FF8000000000005), 1}, {1, nan(0x7FF8000000000005)})
