"""Built-in and standard types that MessagePack has no type for, as extensions and back.

`TO_BYTES` and `FROM_BYTES` have those whose payload is fixed bytes: big ints, decimals, paths and the like. `TO_ITEMS`
and `FROM_ITEMS` have those whose payload is one array of further values: tuples, sets, mappings, dates, ranges. Sets
come out in any order here; whoever writes them sorts them by their encoded bytes.

Modules that cost time to import are not imported here: `late_taker` recognises their classes once the program itself
has imported them, and a maker imports what it needs when such a value is met.
"""

from __future__ import annotations

import datetime as dt
import pathlib
import struct
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from types import EllipsisType
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from holdfast.errors import ErrorCode
from holdfast.objects.codec import msgpack
from holdfast.objects.codec.errors import MalformedError, MismatchError, RefusedError
from holdfast.objects.codec.paths import field_step

if TYPE_CHECKING:
    import uuid
    import zoneinfo


_COMPLEX: Final = struct.Struct(">dd")


def big_int_bytes(value: int) -> bytes:
    """Two's complement, big-endian, as short as it can be."""
    magnitude = value if value >= 0 else ~value
    return value.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def _complex_bytes(value: complex) -> bytes:
    return _COMPLEX.pack(value.real, value.imag)


def surrogate_bytes(value: str) -> bytes:
    """UTF-8 in which each lone surrogate takes three bytes of its own."""
    return value.encode("utf-8", "surrogatepass")


def _decimal_bytes(value: Any) -> bytes:
    return str(value).encode("ascii")


def _uuid_bytes(value: uuid.UUID) -> bytes:
    safety = value.is_safe.value
    # Most say nothing about how they were made.
    return value.bytes if safety is None else value.bytes + safety.to_bytes(1, "big", signed=True)


# zoneinfo looks keys up as files and as modules of the tzdata package: nothing but a plain name may get there.
_ZONE_KEY: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/"
_ZONE_KEY_LIMIT: Final = 255


def _is_zone_key(key: bytes) -> bool:
    return len(key) <= _ZONE_KEY_LIMIT and not key.translate(None, _ZONE_KEY) and all(key.split(b"/"))


def _zone_bytes(value: zoneinfo.ZoneInfo) -> bytes:
    key = (value.key or "").encode("utf-8", "surrogatepass")
    if not _is_zone_key(key):
        raise RefusedError(
            "this ZoneInfo was made from a file, or has a key that is no zone name, and cannot be saved",
            code=ErrorCode.VALUE_UNSUPPORTED,
            hint='use ZoneInfo("Area/City"), or keep the offset as a datetime.timezone',
        )
    return key


_PATHS: Final[dict[type, int]] = {
    pathlib.PurePosixPath: 0,
    pathlib.PureWindowsPath: 1,
    pathlib.PosixPath: 2,
    pathlib.WindowsPath: 3,
}
_PATH_MAKERS: Final[dict[int, type[pathlib.PurePath]]] = {
    0: pathlib.PurePosixPath,
    1: pathlib.PureWindowsPath,
    # A path of the other system cannot be touched here, but it can be read and joined.
    2: pathlib.PurePosixPath if sys.platform == "win32" else pathlib.PosixPath,
    3: pathlib.WindowsPath if sys.platform == "win32" else pathlib.PureWindowsPath,
}


def _path_bytes(value: pathlib.PurePath) -> bytes:
    text = str(value)
    # Some versions of Python read a few odd Windows paths, such as `//a//`, back as others.
    if isinstance(value, pathlib.PureWindowsPath) and type(value)(text) != value:
        raise RefusedError(
            f"the path {text!r} does not come back from its own text",
            code=ErrorCode.VALUE_UNSUPPORTED,
            hint="save str(path)",
        )
    return bytes((_PATHS[type(value)],)) + text.encode("utf-8", "surrogatepass")


_ADDRESSES: Final = (
    "IPv4Address",
    "IPv6Address",
    "IPv4Network",
    "IPv6Network",
    "IPv4Interface",
    "IPv6Interface",
)


def _address_bytes(value: Any) -> bytes:
    return bytes((_ADDRESSES.index(type(value).__name__),)) + str(value).encode("utf-8", "surrogatepass")


def _no_bytes(_value: EllipsisType) -> bytes:
    return b""


BytesTaker = tuple[int, Callable[[Any], bytes]]

TO_BYTES: Final[dict[type, BytesTaker]] = {
    int: (msgpack.BIG_INT, big_int_bytes),
    complex: (msgpack.COMPLEX, _complex_bytes),
    bytearray: (msgpack.BYTEARRAY, bytes),
    EllipsisType: (msgpack.ELLIPSIS, _no_bytes),
    **dict.fromkeys(_PATHS, (msgpack.PATH, _path_bytes)),
}

_LATE: Final[dict[tuple[str, str], BytesTaker]] = {
    ("decimal", "Decimal"): (msgpack.DECIMAL, _decimal_bytes),
    ("uuid", "UUID"): (msgpack.UUID, _uuid_bytes),
    ("zoneinfo", "ZoneInfo"): (msgpack.ZONEINFO, _zone_bytes),
    **{("ipaddress", name): (msgpack.IPADDRESS, _address_bytes) for name in _ADDRESSES},
}


def late_taker(cls: type) -> BytesTaker | None:
    """The taker of a class from a module that is imported only where it is used."""
    taker = _LATE.get((cls.__module__, cls.__qualname__))
    # A class may claim any name; only the one its module has under that name is meant.
    if taker is None or getattr(sys.modules.get(cls.__module__), cls.__qualname__, None) is not cls:
        return None
    TO_BYTES[cls] = taker
    return taker


def _make_big_int(payload: bytes) -> int:
    return int.from_bytes(payload, "big", signed=True)


def _make_surrogates(payload: bytes) -> str:
    return payload.decode("utf-8", "surrogatepass")


def _make_complex(payload: bytes) -> complex:
    if len(payload) != _COMPLEX.size:
        raise MalformedError("a complex number of another length")
    return complex(*_COMPLEX.unpack(payload))


def _make_decimal(payload: bytes) -> Any:
    import decimal

    # A program may have switched this signal off; bad text would then silently become NaN.
    context = decimal.Context(traps=[decimal.InvalidOperation])
    return decimal.Decimal(payload.decode("ascii"), context)


def _make_uuid(payload: bytes) -> uuid.UUID:
    import uuid

    if len(payload) == 16:
        return uuid.UUID(bytes=payload)
    if len(payload) != 17:
        raise MalformedError("a UUID of another length")
    safety = uuid.SafeUUID(int.from_bytes(payload[16:], "big", signed=True))
    return uuid.UUID(bytes=payload[:16], is_safe=safety)


def _make_zone(payload: bytes) -> zoneinfo.ZoneInfo:
    import zoneinfo

    if not _is_zone_key(payload):
        raise MalformedError("a time zone whose key is no zone name")
    return zoneinfo.ZoneInfo(payload.decode("ascii"))


def _make_path(payload: bytes) -> pathlib.PurePath:
    return _PATH_MAKERS[payload[0]](payload[1:].decode("utf-8", "surrogatepass"))


def _make_address(payload: bytes) -> Any:
    import ipaddress

    return getattr(ipaddress, _ADDRESSES[payload[0]])(payload[1:].decode("utf-8", "surrogatepass"))


def _make_ellipsis(payload: bytes) -> EllipsisType:
    if payload:
        raise MalformedError("an Ellipsis with a payload")
    return ...


FROM_BYTES: Final[dict[int, Callable[[bytes], Any]]] = {
    msgpack.BIG_INT: _make_big_int,
    msgpack.SURROGATES: _make_surrogates,
    msgpack.BYTEARRAY: bytearray,
    msgpack.COMPLEX: _make_complex,
    msgpack.DECIMAL: _make_decimal,
    msgpack.UUID: _make_uuid,
    msgpack.ZONEINFO: _make_zone,
    msgpack.PATH: _make_path,
    msgpack.IPADDRESS: _make_address,
    msgpack.ELLIPSIS: _make_ellipsis,
}


M = TypeVar("M", bound=dict[Any, Any])

_INT: Final = frozenset((int,))
_MICROSECOND: Final = dt.timedelta(microseconds=1)

# A default factory is code. Only these, which everybody has, can be kept by name.
FACTORIES: Final[dict[str, Callable[[], Any]]] = {
    factory.__name__: factory
    for factory in (list, dict, set, int, str, float, bool, tuple, frozenset, bytes, bytearray, complex)
}


def few_collisions(keys: list[Any]) -> bool:
    """Whether these keys can be put into a set or dict in bounded time."""
    count = len(keys)
    return count <= msgpack.MAX_COLLISIONS or count - len(set(map(hash, keys))) <= msgpack.MAX_COLLISIONS


def pair_items(mapping: Mapping[Any, Any]) -> list[Any]:
    """Keys and values in turn, in their order."""
    # One step in C takes the pairs: another thread may be changing the mapping.
    items = list(chain.from_iterable(list(mapping.items())))
    _refuse_collisions(items[::2])
    return items


def set_items(members: set[Any] | frozenset[Any]) -> list[Any]:
    """The members, in no order."""
    items = list(members)
    _refuse_collisions(items)
    return items


def _refuse_collisions(keys: list[Any]) -> None:
    if not few_collisions(keys):
        raise RefusedError(
            f"more than {msgpack.MAX_COLLISIONS} of its keys have equal hashes",
            code=ErrorCode.VALUE_UNSUPPORTED,
            hint="keep them in a list",
        )


def _attributed_pairs(mapping: Mapping[Any, Any]) -> list[Any]:
    # These two classes let attributes be set on their instances, which the pairs would lose.
    for name in vars(mapping):
        raise RefusedError(
            f"an attribute was set on a {type(mapping).__name__}, and would be lost",
            code=ErrorCode.VALUE_UNSUPPORTED,
            hint="keep it under a key, or register a class of your own for it",
            step=field_step(name),
        )
    return pair_items(mapping)


def _defaultdict_items(value: defaultdict[Any, Any]) -> list[Any]:
    factory = value.default_factory
    name = None if factory is None else getattr(factory, "__name__", None)
    if factory is not None and FACTORIES.get(str(name)) is not factory:
        raise RefusedError(
            "the default factory of a defaultdict is code, and cannot be saved",
            code=ErrorCode.VALUE_UNSUPPORTED,
            hint=f"use one of {', '.join(FACTORIES)}, or save dict(value)",
            step=".default_factory",
        )
    return [name, *pair_items(value)]


def _deque_items(value: deque[Any]) -> list[Any]:
    return [value.maxlen, *value]


def _datetime_items(value: dt.datetime) -> list[Any]:
    return [
        value.year,
        value.month,
        value.day,
        value.hour,
        value.minute,
        value.second,
        value.microsecond,
        value.fold,
        value.tzinfo,
    ]


def _date_items(value: dt.date) -> list[Any]:
    return [value.year, value.month, value.day]


def _time_items(value: dt.time) -> list[Any]:
    return [value.hour, value.minute, value.second, value.microsecond, value.fold, value.tzinfo]


def _timedelta_items(value: dt.timedelta) -> list[Any]:
    return [value.days, value.seconds, value.microseconds]


def _timezone_items(value: dt.timezone) -> list[Any]:
    # The only way to tell a zone with a name of its own from one that is named after its offset.
    offset, *name = value.__getinitargs__()  # type: ignore[attr-defined]
    return [offset // _MICROSECOND, *name]


def _range_items(value: Any) -> list[Any]:
    return [value.start, value.stop, value.step]


def fraction_items(value: Any) -> list[Any]:
    """Numerator and denominator, in lowest terms."""
    return [value.numerator, value.denominator]


ItemsTaker = tuple[int, Callable[[Any], list[Any]]]

TO_ITEMS: Final[dict[type, ItemsTaker]] = {
    tuple: (msgpack.TUPLE, list),
    set: (msgpack.SET, set_items),
    frozenset: (msgpack.FROZENSET, set_items),
    deque: (msgpack.DEQUE, _deque_items),
    defaultdict: (msgpack.DEFAULTDICT, _defaultdict_items),
    OrderedDict: (msgpack.ORDEREDDICT, _attributed_pairs),
    Counter: (msgpack.COUNTER, _attributed_pairs),
    dt.datetime: (msgpack.DATETIME, _datetime_items),
    dt.date: (msgpack.DATE, _date_items),
    dt.time: (msgpack.TIME, _time_items),
    dt.timedelta: (msgpack.TIMEDELTA, _timedelta_items),
    dt.timezone: (msgpack.TIMEZONE, _timezone_items),
    range: (msgpack.RANGE, _range_items),
    slice: (msgpack.SLICE, _range_items),
}


def _mapping(build: Callable[[Iterable[Any]], M], items: list[Any]) -> M:
    keys, values = items[::2], items[1::2]
    if len(keys) != len(values):
        raise MalformedError("a key without a value")
    if not few_collisions(keys):
        raise MalformedError("too many keys with equal hashes")
    mapping = build(zip(keys, values, strict=True))
    if len(mapping) != len(keys):
        raise _equal_now("keys of a mapping")
    return mapping


def _equal_now(what: str) -> MismatchError:
    return MismatchError(
        f"two {what} that were different when they were saved are equal now",
        code=ErrorCode.TYPE_MISMATCH,
        hint="register their classes, with the __eq__ and __hash__ they were saved with",
    )


def _make_set(items: list[Any]) -> set[Any]:
    if not few_collisions(items):
        raise MalformedError("too many members with equal hashes")
    members = set(items)
    if len(members) != len(items):
        raise _equal_now("members of a set")
    return members


def _make_frozenset(items: list[Any]) -> frozenset[Any]:
    return frozenset(_make_set(items))


def _make_deque(items: list[Any]) -> deque[Any]:
    maxlen, *rest = items
    value = deque(rest, maxlen)
    if len(value) != len(rest):
        raise MalformedError("a deque longer than its maxlen")
    return value


def _make_defaultdict(items: list[Any]) -> defaultdict[Any, Any]:
    name, *rest = items
    factory = None if name is None else FACTORIES[name]
    return _mapping(lambda pairs: defaultdict(factory, pairs), rest)


def _make_counter(items: list[Any]) -> Counter[Any]:
    # Not Counter(pairs), which counts the pairs, nor its update, which adds.
    counter: Counter[Any] = Counter()
    dict.update(counter, _mapping(dict, items))
    return counter


def _ints(items: list[Any], count: int) -> list[Any]:
    # These constructors take more than numbers (datetime takes pickled bytes): nothing else gets through to them.
    if len(items) != count or not _INT.issuperset(map(type, items)):
        raise MalformedError(f"not {count} whole numbers")
    return items


def _make_datetime(items: list[Any]) -> dt.datetime:
    *numbers, zone = items
    year, month, day, hour, minute, second, microsecond, fold = _ints(numbers, 8)
    return dt.datetime(year, month, day, hour, minute, second, microsecond, _zone(zone), fold=fold)


def _make_time(items: list[Any]) -> dt.time:
    *numbers, zone = items
    hour, minute, second, microsecond, fold = _ints(numbers, 5)
    return dt.time(hour, minute, second, microsecond, _zone(zone), fold=fold)


def _zone(zone: Any) -> dt.tzinfo | None:
    if zone is None or isinstance(zone, dt.tzinfo):
        return zone
    raise MismatchError(
        f"the time zone of a date is a {getattr(zone, 'name', type(zone).__qualname__)!r}, which is not registered",
        code=ErrorCode.TYPE_MISMATCH,
        hint="register the time zone class it was saved with",
    )


def _make_timezone(items: list[Any]) -> dt.timezone:
    (offset,) = _ints(items[:1], 1)
    return dt.timezone(offset * _MICROSECOND, *items[1:])


def _make_slice(items: list[Any]) -> slice[Any, Any, Any]:
    start, stop, step = items
    return slice(start, stop, step)


def _make_fraction(items: list[Any]) -> Any:
    from fractions import Fraction

    numerator, denominator = _ints(items, 2)
    if denominator <= 0:
        raise MalformedError("a fraction that is none")
    value = object.__new__(Fraction)
    # Going through Fraction(n, d) would look for a common divisor, in quadratic time on numbers of a hostile size.
    value._numerator = numerator  # type: ignore[attr-defined]
    value._denominator = denominator  # type: ignore[attr-defined]
    return value


FROM_ITEMS: Final[dict[int, Callable[[list[Any]], Any]]] = {
    msgpack.TUPLE: tuple,
    msgpack.SET: _make_set,
    msgpack.FROZENSET: _make_frozenset,
    msgpack.PAIRS: lambda items: _mapping(dict, items),
    msgpack.DEQUE: _make_deque,
    msgpack.DEFAULTDICT: _make_defaultdict,
    msgpack.ORDEREDDICT: lambda items: _mapping(OrderedDict, items),
    msgpack.COUNTER: _make_counter,
    msgpack.DATETIME: _make_datetime,
    msgpack.DATE: lambda items: dt.date(*_ints(items, 3)),
    msgpack.TIME: _make_time,
    msgpack.TIMEDELTA: lambda items: dt.timedelta(*_ints(items, 3)),
    msgpack.TIMEZONE: _make_timezone,
    msgpack.RANGE: lambda items: range(*_ints(items, 3)),
    msgpack.SLICE: _make_slice,
    msgpack.FRACTION: _make_fraction,
}


class EncodedAsPlain:
    """Base of dict and list subclasses that are encoded as the dict or list that they equal: those of a document."""

    __slots__ = ()

    _plain: ClassVar[type[Any]]


def encoded_type(value: Any) -> type:
    """What a value is encoded as."""
    return value._plain if isinstance(value, EncodedAsPlain) else type(value)  # noqa: SLF001 - its own class


def plain_shell(value: EncodedAsPlain) -> Any:
    """The dict or list that it equals; what is in it stays as it is."""
    return value._plain(value)  # noqa: SLF001 - its own class
