"""The byte format does not change by accident: every example of docs/spec/encoding.md, byte for byte.

A change that makes this fail makes stored states unreadable, or gives equal states different hashes.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import re
import struct
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address, IPv6Interface
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from zoneinfo import ZoneInfo

import ormsgpack
import pydantic
import pytest
from tests.values import identical

from holdfast.objects.codec import builtin_types, msgpack
from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.opaque import Opaque
from holdfast.objects.codec.registry import TypeRegistry

SPEC = Path(__file__).resolve().parents[3] / "docs" / "spec" / "encoding.md"


@dataclasses.dataclass
class Plan:
    goal: str
    done: bool = False


class Colour(enum.Enum):
    RED = 1


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Message(pydantic.BaseModel):
    role: str
    text: str = ""


TYPES = TypeRegistry()
for cls in (Plan, Colour, Access, Message):
    TYPES.register(cls)
TYPES.register(type("Point", (), {}), encode=lambda point: None, decode=lambda data: None)

VECTORS: dict[str, Any] = {
    "None": None,
    "[True, False]": [True, False],
    "[0, 127, 128, 65536, 2**64 - 1]": [0, 127, 128, 65536, 2**64 - 1],
    "[-1, -32, -33, -2**63]": [-1, -32, -33, -(2**63)],
    "2**64": 2**64,
    "-2**63 - 1": -(2**63) - 1,
    "[1.5, -0.0]": [1.5, -0.0],
    "a NaN with the payload 0x123": struct.unpack(">d", bytes.fromhex("fff8000000000123"))[0],
    "'ä'": "ä",
    "'\\ud800x'": "\ud800x",
    "b'\\x00\\xff'": b"\x00\xff",
    "bytearray(b'ab')": bytearray(b"ab"),
    "1 - 0.5j": 1 - 0.5j,
    "{'b': 1, 'a': [2]}": {"b": 1, "a": [2]},
    "{1: 'x', (): None}": {1: "x", (): None},
    "{'\\udfff': 1}": {"\udfff": 1},
    "(1, (2,))": (1, (2,)),
    "{'b', 'a', 3}": {"b", "a", 3},
    "frozenset({b'x', -1})": frozenset({b"x", -1}),
    "datetime(2026, 2, 28, 14, 32, 45, 7)": dt.datetime(2026, 2, 28, 14, 32, 45, 7),
    "datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo('Europe/Berlin'), fold=1)": dt.datetime(
        2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1
    ),
    "datetime(2026, 1, 1, tzinfo=timezone.utc)": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    "date(2026, 2, 28)": dt.date(2026, 2, 28),
    "time(23, 59, 0, 1)": dt.time(23, 59, 0, 1),
    "timedelta(hours=-1)": dt.timedelta(hours=-1),
    "timezone(timedelta(hours=5, minutes=30), 'IST')": dt.timezone(dt.timedelta(hours=5, minutes=30), "IST"),
    "Decimal('-1.50')": Decimal("-1.50"),
    "Decimal('sNaN7')": Decimal("sNaN7"),
    "Fraction(-2, 6)": Fraction(-2, 6),
    "UUID('00000000-0000-0000-0000-00000000002a')": uuid.UUID(int=42),
    "UUID(int=42, is_safe=SafeUUID.unsafe)": uuid.UUID(int=42, is_safe=uuid.SafeUUID.unsafe),
    "range(1, 10, 3)": range(1, 10, 3),
    "slice(None, -1)": slice(None, -1),
    "...": ...,
    "deque([1, 2], maxlen=4)": deque([1, 2], 4),
    "defaultdict(list, {'a': [1]})": defaultdict(list, {"a": [1]}),
    "OrderedDict(a=1)": OrderedDict(a=1),
    "Counter('aab')": Counter("aab"),
    "PurePosixPath('/a/b')": PurePosixPath("/a/b"),
    "PureWindowsPath('C:/a')": PureWindowsPath("C:/a"),
    "IPv4Address('10.0.0.1')": IPv4Address("10.0.0.1"),
    "IPv6Interface('::1/64')": IPv6Interface("::1/64"),
    "Plan(goal='win', done=False), a dataclass": Plan("win"),
    "Colour.RED, an enum": Colour.RED,
    "Access.READ \\| Access.WRITE, flags": Access.READ | Access.WRITE,
    "Message(role='user'), a pydantic model": Message(role="user"),
    "Message(role='user', text='x')": Message(role="user", text="x"),
    "Opaque('Later', 3, [1], None)": Opaque("Later", 3, [1], None),
}


def examples() -> dict[str, bytes]:
    rows = re.findall(r"^\| `(.+)` \| `([0-9a-f]+)` \|$", SPEC.read_text(encoding="utf-8"), re.MULTILINE)
    return {label: bytes.fromhex(digits) for label, digits in rows}


def test_the_table_has_every_example():
    assert list(examples()) == list(VECTORS)


@pytest.mark.parametrize("label", VECTORS)
def test_a_value_has_the_bytes_of_the_table(label):
    written = examples()[label]
    assert encode_value(VECTORS[label], TYPES).hex() == written.hex()


@pytest.mark.parametrize("label", VECTORS)
def test_the_bytes_of_the_table_are_read_as_the_value(label):
    written = examples()[label]
    assert identical(decode_value(written, TYPES), VECTORS[label])


def test_every_code_is_described_and_has_an_example():
    described = {
        int(code) for code in re.findall(r"^\| (\d+) \|", SPEC.read_text(encoding="utf-8"), re.MULTILINE)
    }
    known = {*builtin_types.FROM_BYTES, *builtin_types.FROM_ITEMS, msgpack.RECORD}
    assert described == known
    used: set[int] = set()

    def note(code: int, payload: bytes) -> None:
        used.add(code)
        if code not in builtin_types.FROM_BYTES:
            ormsgpack.unpackb(payload, ext_hook=note)

    for written in examples().values():
        ormsgpack.unpackb(written, ext_hook=note)
    assert used == known


def test_the_limits_are_those_of_the_page():
    page = SPEC.read_text(encoding="utf-8")
    assert f"at most {msgpack.MAX_DEPTH:,} deep" in page
    assert f"at most {msgpack.MAX_COLLISIONS:,} may have" in page
    assert " ".join(builtin_types.FACTORIES) in page


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("cc01", 1),
        ("d300000000000000ff", 255),
        ("ca3fc00000", 1.5),
        ("d90161", "a"),
        ("dc000101", [1]),
        ("c70101" + "05", 5),
        ("c50001ff", b"\xff"),
        ("de0001a16101", {"a": 1}),
    ],
)
def test_what_is_longer_than_it_need_be_is_read_all_the_same(written, value):
    body = bytes.fromhex(written)
    assert identical(decode_value(body, TYPES), value)
