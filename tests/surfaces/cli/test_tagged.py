"""A state as JSON: plain where JSON has the type, tagged where it has not, and never confused."""

from __future__ import annotations

import base64
import json
import math
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address
from pathlib import Path
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from holdfast import Opaque
from holdfast.cli.pretty import tagged_json


def as_json(value):
    return json.loads(tagged_json(value))


def tag(name, value, /, **more):
    return {"$type": name, "$value": value} | {f"${key}": item for key, item in more.items()}


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (None, None),
        (True, True),
        (1, 1),
        (-(2**53) + 1, -(2**53) + 1),
        (2**53, tag("int", "9007199254740992")),
        (1.5, 1.5),
        (math.inf, tag("float", "inf")),
        (math.nan, tag("float", "nan")),
        ("text", "text"),
        ([1, [2]], [1, [2]]),
        ({"a": {"b": []}}, {"a": {"b": []}}),
        ((), tag("tuple", [])),
        ((1, (2,)), tag("tuple", [1, tag("tuple", [2])])),
        ({3, 1, 2}, tag("set", [1, 2, 3])),
        (frozenset(), tag("frozenset", [])),
        (deque([1], maxlen=2), tag("deque", [1], maxlen=2)),
        (deque([1]), tag("deque", [1])),
        ({1: "a", "b": 2}, tag("dict", [[1, "a"], ["b", 2]])),
        ({"$type": "tuple", "$value": []}, tag("dict", [["$type", "tuple"], ["$value", []]])),
        ({"a": {"$type": 1}}, {"a": {"$type": 1}}),
        ({"$type": 1, "$value": 2, "x": 3}, {"$type": 1, "$value": 2, "x": 3}),
        ({"$value": 1}, {"$value": 1}),
        (OrderedDict(a=1), tag("OrderedDict", [["a", 1]])),
        (Counter("aab"), tag("Counter", [["a", 2], ["b", 1]])),
        (defaultdict(list, a=[1]), tag("defaultdict", [["a", [1]]], factory="list")),
        (b"hi", tag("bytes", "aGk=")),
        (bytearray(b"hi"), tag("bytearray", "aGk=")),
        (datetime(2026, 11, 15, tzinfo=UTC), tag("datetime", "2026-11-15T00:00:00+00:00")),
        (
            datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
            tag("datetime", "2026-10-25T02:30:00", zone="Europe/Berlin", fold=1),
        ),
        (date(2026, 11, 15), tag("date", "2026-11-15")),
        (time(12, 30), tag("time", "12:30:00")),
        (timedelta(days=-1, seconds=5), tag("timedelta", [-1, 5, 0])),
        (Decimal("1.10"), tag("Decimal", "1.10")),
        (Fraction(1, 3), tag("Fraction", "1/3")),
        (UUID(int=1), tag("UUID", "00000000-0000-0000-0000-000000000001")),
        (Path("a/b"), tag("PosixPath", "a/b")),
        (1 + 2j, tag("complex", "(1+2j)")),
        (range(1, 9, 2), tag("range", [1, 9, 2])),
        (..., tag("ellipsis", None)),
        (IPv4Address("10.0.0.1"), tag("IPv4Address", "10.0.0.1")),
        (
            Opaque("acme.Plan", 2, {"goal": (1,)}),
            tag("opaque", {"goal": tag("tuple", [1])}, name="acme.Plan", version=2),
        ),
    ],
)
def test_each_type_has_its_form(value, wanted):
    assert as_json(value) == wanted


def test_whole_floats_and_integers_stay_apart_in_the_text():
    assert tagged_json([1, 1.0, -0.0]).split() == ["[", "1,", "1.0,", "-0.0", "]"]


def back(value):
    """What the documented form says, read by the rules of docs/reference/cli.md."""
    if isinstance(value, list):
        return [back(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() != {"$type", "$value"}:
        return {key: back(item) for key, item in value.items()}
    inner = value["$value"]
    readers = {
        "tuple": lambda: tuple(back(inner)),
        "dict": lambda: {back(key): back(item) for key, item in inner},
        "int": lambda: int(inner, 0),
        "float": lambda: float(inner),
        "bytes": lambda: base64.b64decode(inner),
    }
    return readers[value["$type"]]()
