"""Bytes that are well formed MessagePack and no value of ours: each is named, none is taken for something else."""

from __future__ import annotations

import decimal
from pathlib import PureWindowsPath
from typing import Any

import ormsgpack
import pytest

from holdfast import ErrorCode, InvalidInputError, StateError
from holdfast.objects.codec import msgpack
from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.encode import encode_value
from holdfast.objects.codec.registry import TypeRegistry

TYPES = TypeRegistry()


def items(code: int, *values: Any) -> bytes:
    return ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(list(values))))


def plain(code: int, payload: bytes) -> bytes:
    return ormsgpack.packb(ormsgpack.Ext(code, payload))


def failure(body: bytes) -> StateError:
    with pytest.raises(StateError) as caught:
        decode_value(body, TYPES)
    assert caught.value.hint
    return caught.value


MALFORMED = {
    "an empty state": (b"", "no state"),
    "a mark that is never used": (b"\xc1", "no state"),
    "text that is cut off": (b"\xa5ab", "no state"),
    "an array that claims everything": (b"\xdd\xff\xff\xff\xff\xc0", "no state"),
    "a number as the key of a map": (b"\x81\x01\x01", "no state"),
    "bytes as the key of a map": (b"\x81\xc4\x01x\x01", "no state"),
    "text that is not UTF-8": (b"\xa2\xff\xff", "no state"),
    "text with a surrogate": (b"\xa3\xed\xa0\x80", "no state"),
    "a tuple without items": (plain(msgpack.TUPLE, b""), "no state"),
    "a tuple that is a map": (plain(msgpack.TUPLE, b"\x80"), "holds no array"),
    "a tuple that is cut off": (plain(msgpack.TUPLE, b"\x92\x01"), "no state"),
    "a tuple that reaches past its end": (plain(msgpack.TUPLE, b"\x92\x01") + b"\x01", "no state"),
    "a tuple with more than its items": (plain(msgpack.TUPLE, b"\x91\x01\x01"), "no state"),
    "a set of lists": (items(msgpack.SET, [1]), "unhashable"),
    "a key that is a list": (items(msgpack.PAIRS, [1], 2), "unhashable"),
    "a key without a value": (items(msgpack.PAIRS, 1, 2, 3), "a key without a value"),
    "an OrderedDict with half a pair": (items(msgpack.ORDEREDDICT, 1), "a key without a value"),
    "a deque longer than its maxlen": (items(msgpack.DEQUE, 1, "a", "b"), "maxlen"),
    "a deque with a maxlen below 0": (items(msgpack.DEQUE, -1), "non-negative"),
    "a deque without maxlen": (items(msgpack.DEQUE), "ValueError"),
    "an unknown factory": (items(msgpack.DEFAULTDICT, "eval"), "KeyError"),
    "a factory that is no name": (items(msgpack.DEFAULTDICT, ["list"]), "unhashable"),
    "a date of text": (items(msgpack.DATE, "2026", 1, 1), "whole numbers"),
    "a date of bools": (items(msgpack.DATE, 2026, True, True), "whole numbers"),
    "a date of floats": (items(msgpack.DATE, 2026.0, 1, 1), "whole numbers"),
    "a date that does not exist": (items(msgpack.DATE, 2026, 2, 30), "day is out of range"),
    "pickled bytes as a datetime": (items(msgpack.DATETIME, b"\x07\xea\x01\x01\0\0\0\0\0\0", None), "whole numbers"),
    "a datetime with a second fold": (items(msgpack.DATETIME, 2026, 1, 1, 0, 0, 0, 0, 2, None), "fold"),
    "a time of too few numbers": (items(msgpack.TIME, 1, 2, None), "whole numbers"),
    "a timedelta beyond its range": (items(msgpack.TIMEDELTA, 1 << 40, 0, 0), "OverflowError"),
    "a timezone beyond a day": (items(msgpack.TIMEZONE, 86_400_000_000), "strictly between"),
    "a timezone whose name is a number": (items(msgpack.TIMEZONE, 0, 1), "TypeError"),
    "a range of step 0": (items(msgpack.RANGE, 0, 1, 0), "must not be zero"),
    "a range of floats": (items(msgpack.RANGE, 0.0, 1.0, 1.0), "whole numbers"),
    "a slice of four": (items(msgpack.SLICE, 1, 2, 3, 4), "ValueError"),
    "a fraction over 0": (items(msgpack.FRACTION, 1, 0), "a fraction that is none"),
    "a fraction over less than 0": (items(msgpack.FRACTION, 1, -2), "a fraction that is none"),
    "a fraction of floats": (items(msgpack.FRACTION, 1.0, 2.0), "whole numbers"),
    "a complex number of 8 bytes": (plain(msgpack.COMPLEX, b"\0" * 8), "another length"),
    "a decimal that is text": (plain(msgpack.DECIMAL, b"ten"), "InvalidOperation"),
    "a decimal that is not ASCII": (plain(msgpack.DECIMAL, b"\xff"), "UnicodeDecodeError"),
    "a UUID of 15 bytes": (plain(msgpack.UUID, b"\0" * 15), "another length"),
    "a UUID of 18 bytes": (plain(msgpack.UUID, b"\0" * 18), "another length"),
    "a UUID of a strange safety": (plain(msgpack.UUID, b"\0" * 16 + b"\x05"), "SafeUUID"),
    "a path of no kind": (plain(msgpack.PATH, b""), "IndexError"),
    "a path of an unknown kind": (plain(msgpack.PATH, b"\x09a"), "KeyError"),
    "an address of an unknown kind": (plain(msgpack.IPADDRESS, b"\x0910.0.0.1"), "IndexError"),
    "an address that is none": (plain(msgpack.IPADDRESS, b"\x0010.0.0.999"), "AddressValueError"),
    "an Ellipsis with more": (plain(msgpack.ELLIPSIS, b"x"), "with a payload"),
    "surrogates that are no text": (plain(msgpack.SURROGATES, b"\xff"), "UnicodeDecodeError"),
    "a zone that is a path": (plain(msgpack.ZONEINFO, b"../../etc/passwd"), "no zone name"),
    "a zone that is a module": (plain(msgpack.ZONEINFO, b"os.path"), "no zone name"),
    "a zone that is a folder": (plain(msgpack.ZONEINFO, b"/Europe"), "no zone name"),
    "a zone of any length": (plain(msgpack.ZONEINFO, b"a" * 300), "no zone name"),
}  # fmt: skip


@pytest.mark.parametrize("what", MALFORMED)
def test_what_is_no_value_is_named(what):
    body, why = MALFORMED[what]
    error = failure(body)
    assert error.code is ErrorCode.DECODE_FAILED
    assert why in str(error)
    assert failure(b"\x82\xa1a\x01\xa1b" + body).code is ErrorCode.DECODE_FAILED


@pytest.mark.parametrize(
    "body",
    [
        items(msgpack.SET, 1, 1),
        items(msgpack.FROZENSET, 1, 1.0),
        items(msgpack.PAIRS, 1, "a", 1, "b"),
        items(msgpack.PAIRS, True, "a", 1, "b"),
        items(msgpack.ORDEREDDICT, "k", 1, "k", 2),
        items(msgpack.COUNTER, "k", 1, "k", 2),
        items(msgpack.DEFAULTDICT, None, "k", 1, "k", 2),
    ],
)
def test_equal_members_and_keys_are_never_merged(body):
    assert failure(body).code is ErrorCode.TYPE_MISMATCH


def test_a_zone_that_this_machine_does_not_have_says_what_to_install():
    error = failure(plain(msgpack.ZONEINFO, b"Europe/Atlantis"))
    assert error.code is ErrorCode.DECODE_FAILED
    assert "Europe/Atlantis" in str(error)
    assert "tzdata" in error.hint


def test_a_zone_of_an_unknown_class_is_a_mismatch():
    record = ormsgpack.Ext(msgpack.RECORD, ormsgpack.packb(["MyZone", 1, None, None]))
    error = failure(items(msgpack.DATETIME, 2026, 1, 1, 0, 0, 0, 0, 0, record))
    assert error.code is ErrorCode.TYPE_MISMATCH
    assert "MyZone" in str(error)
    assert "register" in error.hint


def test_a_decimal_is_checked_whatever_the_program_does_with_its_own_context():
    with decimal.localcontext() as context:
        context.traps[decimal.InvalidOperation] = False
        failure(plain(msgpack.DECIMAL, b"ten"))


def test_a_decimal_is_exact_whatever_the_program_does_with_its_own_context():
    value = decimal.Decimal("1.2345678901234567890123456789012345678901234567890E-7000")
    with decimal.localcontext() as context:
        context.prec, context.Emin, context.Emax = 3, -5, 5
        back = decode_value(encode_value(value, TYPES), TYPES)
    assert back.as_tuple() == value.as_tuple()


def test_a_class_that_only_claims_to_be_a_known_one_is_refused():
    claim = type("Decimal", (), {"__module__": "decimal", "__str__": lambda self: "1"})
    with pytest.raises(InvalidInputError):
        encode_value(claim(), TYPES)
    other = type("UUID", (), {"__module__": "uuid", "bytes": b"\0" * 16})
    with pytest.raises(InvalidInputError):
        encode_value(other(), TYPES)


def test_a_path_of_the_other_system_comes_back_as_its_pure_kind():
    value = decode_value(plain(msgpack.PATH, b"\x03C:\\work\\a.txt"), TYPES)
    assert type(value) is PureWindowsPath
    assert value.name == "a.txt"
