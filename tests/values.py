"""Values that are hard to keep, and an equality that sees what `==` does not.

`identical` compares types, order, the bits of floats, the names of time zones, the limits of deques; `1 == 1.0 == True`
are three different values to it. `values` is a Hypothesis strategy for arbitrary nested values of every type that a
state may hold; Hypothesis is imported only when it is called.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import fractions
import ipaddress
import pathlib
import struct
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

ZONES: Final = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")

_FACTORIES: Final = (
    None,
    list,
    dict,
    set,
    int,
    str,
    float,
    bool,
    tuple,
    frozenset,
    bytes,
    bytearray,
    complex,
)


def identical(one: Any, other: Any) -> bool:
    """Whether two values are the same in everything that a state keeps. Depth is no matter: it does not recurse."""
    pairs = [(one, other)]
    while pairs:
        left, right = pairs.pop()
        if type(left) is not type(right):
            return False
        if isinstance(left, set | frozenset):
            if not _same_members(left, right):
                return False
            continue
        left_parts, right_parts = _parts(left), _parts(right)
        if left_parts is None or right_parts is None:
            if left is not right and not _same_scalar(left, right):
                return False
        elif len(left_parts) != len(right_parts):
            return False
        else:
            pairs.extend(zip(left_parts, right_parts, strict=True))
    return True


def _same_members(left: Any, right: Any) -> bool:
    """Sets have no order: every member must find one that is identical, and each only once."""
    unmatched = list(right)
    for member in left:
        match = next((at for at, candidate in enumerate(unmatched) if identical(member, candidate)), None)
        if match is None:
            return False
        del unmatched[match]
    return not unmatched


def _same_scalar(left: Any, right: Any) -> bool:
    if isinstance(left, float):
        return struct.pack(">d", left) == struct.pack(">d", right)
    if isinstance(left, decimal.Decimal):
        return bool(left.as_tuple() == right.as_tuple())
    if isinstance(left, pathlib.PurePath):
        # Windows paths are equal in any case of their letters.
        return bool(str(left) == str(right) and left == right)
    if isinstance(left, Enum):
        # There is one of each member; a combination of flags is made when it is asked for.
        return bool(left.value == right.value and left.name == right.name)
    return bool(left == right)


_PARTS: Final[dict[type, Callable[[Any], list[Any]]]] = {
    list: list,
    tuple: list,
    dict: lambda value: [part for pair in value.items() for part in pair],
    OrderedDict: lambda value: [part for pair in value.items() for part in pair],
    Counter: lambda value: [part for pair in value.items() for part in pair],
    defaultdict: lambda value: [value.default_factory, *(part for pair in value.items() for part in pair)],
    deque: lambda value: [value.maxlen, *value],
    complex: lambda value: [value.real, value.imag],
    range: lambda value: [value.start, value.stop, value.step],
    slice: lambda value: [value.start, value.stop, value.step],
    fractions.Fraction: lambda value: [value.numerator, value.denominator],
    uuid.UUID: lambda value: [value.int, value.is_safe],
    zoneinfo.ZoneInfo: lambda value: [value.key],
    dt.timezone: lambda value: list(value.__getinitargs__()),
    # `replace` takes the zone off: two dates with zones are compared by the moment they mean.
    dt.datetime: lambda value: [value.replace(tzinfo=None).isoformat(), value.fold, value.tzinfo],
    dt.time: lambda value: [value.replace(tzinfo=None).isoformat(), value.fold, value.tzinfo],
}


def _parts(value: Any) -> list[Any] | None:
    """What a value consists of; None where it is compared as a whole."""
    if isinstance(value, Enum):
        return None
    parts = _PARTS.get(type(value))
    if parts is not None:
        return parts(value)
    if isinstance(value, tuple):
        return list(value)
    return list(_fields(value)) or None


def _fields(value: Any) -> Iterator[Any]:
    """The fields of an object, and for a pydantic model what it keeps beside them."""
    if dataclasses.is_dataclass(value):
        yield from (getattr(value, field.name) for field in dataclasses.fields(value))
    elif hasattr(value, "__attrs_attrs__"):
        yield from (getattr(value, field.name) for field in value.__attrs_attrs__)
    elif hasattr(value, "__pydantic_fields_set__"):
        yield from (getattr(value, name) for name in type(value).__pydantic_fields__)
        yield value.__pydantic_fields_set__
        yield value.__pydantic_extra__
        yield value.__pydantic_private__


def values(
    *,
    max_leaves: int = 25,
    records: SearchStrategy[Any] | None = None,
    keys: SearchStrategy[Any] | None = None,
) -> SearchStrategy[Any]:
    """Arbitrary nested values of every type that a state may hold.

    Args:
        max_leaves: How large a value may get.
        records: Further leaves: objects of classes that the caller has registered.
        keys: Further keys of dicts and members of sets, likewise.
    """
    from hypothesis import strategies as st

    every_key = hashables() if keys is None else st.one_of(hashables(), keys)
    leaves = st.one_of(scalars(), every_key) if records is None else st.one_of(scalars(), every_key, records)
    return st.recursive(leaves, lambda inner: _containers(inner, every_key), max_leaves=max_leaves)


def scalars() -> SearchStrategy[Any]:
    """Values that hold no others."""
    from hypothesis import strategies as st

    zoned = st.builds(
        lambda value, zone, fold: value.replace(tzinfo=zone, fold=fold), st.times(), zones(), _folds()
    )
    return st.one_of(
        hashable_scalars(),
        st.binary(max_size=20).map(bytearray),
        st.sampled_from(("sNaN", "-sNaN", "sNaN42")).map(decimal.Decimal),
        slices(),
        zoned,
    )


def hashables() -> SearchStrategy[Any]:
    """Values that can be members of a set and keys of a dict."""
    from hypothesis import strategies as st

    return st.recursive(
        hashable_scalars(),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(tuple),
            st.frozensets(inner, max_size=3),
        ),
        max_leaves=4,
    )


def hashable_scalars() -> SearchStrategy[Any]:
    """Values that hold no others and have a hash."""
    from hypothesis import strategies as st

    return st.one_of(
        st.sampled_from(
            (None, True, False, ..., "", b"", 0, -1, 1 << 63, -(1 << 63), 1 << 64, -(1 << 63) - 1)
        ),
        st.integers(),
        st.integers(min_value=-(1 << 200), max_value=1 << 200),
        floats(),
        st.builds(complex, floats(), floats()),
        texts(),
        st.binary(max_size=40),
        # A signalling NaN has no hash; `scalars` has them.
        st.decimals(allow_nan=False),
        st.sampled_from(("-0", "NaN", "NaN123", "-NaN", "Infinity", "0E+5", "1E-999999", "-0E-7")).map(
            decimal.Decimal
        ),
        st.fractions(),
        uuids(),
        st.builds(range, st.integers(), st.integers(), st.integers(1, 9) | st.integers(-9, -1)),
        dates(),
        paths(),
        addresses(),
    )


def floats() -> SearchStrategy[float]:
    """Floats of every bit pattern, NaNs with a payload included."""
    from hypothesis import strategies as st

    bits = st.integers(0, (1 << 64) - 1).map(lambda number: struct.unpack(">d", number.to_bytes(8, "big"))[0])
    return st.one_of(st.floats(), bits, st.sampled_from((0.0, -0.0, float("nan"), float("-inf"))))


def texts() -> SearchStrategy[str]:
    """Text of every code point, lone surrogates included."""
    from hypothesis import strategies as st

    return st.one_of(st.text(max_size=20), st.text(st.characters(categories=("Cs", "L")), max_size=5))


def uuids() -> SearchStrategy[uuid.UUID]:
    """UUIDs, also ones that say how safely they were made."""
    from hypothesis import strategies as st

    number = st.integers(0, (1 << 128) - 1)
    return st.builds(
        lambda value, safe: uuid.UUID(int=value, is_safe=safe), number, st.sampled_from(uuid.SafeUUID)
    )


def zones() -> SearchStrategy[dt.tzinfo]:
    """Time zones: fixed ones with and without a name, and regions."""
    from hypothesis import strategies as st

    offsets = st.timedeltas(dt.timedelta(hours=-23), dt.timedelta(hours=23))
    return st.one_of(
        st.just(dt.UTC),
        st.builds(dt.timezone, offsets),
        st.builds(dt.timezone, offsets, texts()),
        st.sampled_from(ZONES).map(zoneinfo.ZoneInfo),
    )


def dates() -> SearchStrategy[Any]:
    """Everything of the datetime module."""
    from hypothesis import strategies as st

    zone = st.none() | zones()
    return st.one_of(
        st.dates(),
        st.timedeltas(),
        zones(),
        st.builds(
            lambda value, tz, fold: value.replace(tzinfo=tz, fold=fold), st.datetimes(), zone, _folds()
        ),
        # With a zone they are in `scalars`: a zone may refuse to hash a time that has no date.
        st.builds(lambda value, fold: value.replace(fold=fold), st.times(), _folds()),
    )


def paths() -> SearchStrategy[pathlib.PurePath]:
    """Paths of both systems, and of this one."""
    from hypothesis import strategies as st

    text = st.lists(
        st.sampled_from(("a", "b.txt", "..", "C:", "/", "\\", " ", "ü", "\udcff", ".")), max_size=5
    )
    kinds = st.sampled_from((pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.Path))
    made = st.builds(lambda kind, parts: kind("".join(parts)), kinds, text)
    # Some versions of Python read a few odd Windows paths back as others; those cannot be saved.
    return made.filter(lambda path: type(path)(str(path)) == path)


def addresses() -> SearchStrategy[Any]:
    """Everything of the ipaddress module."""
    from hypothesis import strategies as st

    four = st.ip_addresses(v=4)
    six = st.ip_addresses(v=6)
    return st.one_of(
        four,
        six,
        six.map(lambda value: ipaddress.IPv6Address(f"{value}%eth0")),
        st.builds(lambda value, bits: ipaddress.IPv4Interface(f"{value}/{bits}"), four, st.integers(0, 32)),
        st.builds(lambda value, bits: ipaddress.IPv6Interface(f"{value}/{bits}"), six, st.integers(0, 128)),
        st.builds(
            lambda v, bits: ipaddress.IPv4Network(f"{v}/{bits}", strict=False), four, st.integers(0, 32)
        ),
        st.builds(
            lambda v, bits: ipaddress.IPv6Network(f"{v}/{bits}", strict=False), six, st.integers(0, 128)
        ),
    )


def slices() -> SearchStrategy[Any]:
    """Slices, of numbers and of nothing."""
    from hypothesis import strategies as st

    end = st.none() | st.integers()
    return st.builds(slice, end, end, end)


def _folds() -> SearchStrategy[int]:
    from hypothesis import strategies as st

    return st.integers(0, 1)


def _containers(inner: SearchStrategy[Any], keys: SearchStrategy[Any]) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    named = st.dictionaries(st.text(max_size=8), inner, max_size=4)
    keyed = st.dictionaries(keys, inner, max_size=4)
    several = st.lists(inner, max_size=5)
    return st.one_of(
        several,
        several.map(tuple),
        named,
        keyed,
        st.sets(keys, max_size=4),
        st.frozensets(keys, max_size=4),
        st.builds(deque, several, st.none() | st.integers(5, 9)),
        st.builds(defaultdict, st.sampled_from(_FACTORIES), keyed),
        keyed.map(OrderedDict),
        st.builds(_counter, keyed),
    )


def _counter(content: dict[Any, Any]) -> Counter[Any]:
    counter: Counter[Any] = Counter()
    counter.update(dict.fromkeys(content, 0))
    for key, value in content.items():
        counter[key] = value
    return counter
