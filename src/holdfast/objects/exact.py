"""Tagged JSON from which the very same value is made again: every type, every bit, the same root.

It is the notation of `tagged.py`, with a few rare values written so that nothing is lost: a NaN with bits of its own, a
text with half a surrogate pair, a time zone with a name, the kind of a path. `exact_json` writes it, and `from_json`
makes the value of what a JSON parser read.

What is read may come from anybody. A `$type` is looked up in a table of our own and is never a place to import from;
whatever does not fit is a `MalformedError`, and so is a scalar in another notation than the one it is written in.
Objects of classes are written as `Opaque` and come back as `Opaque`.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from holdfast.objects.codec import builtin_types, msgpack
from holdfast.objects.codec.errors import MalformedError
from holdfast.objects.codec.opaque import Opaque
from holdfast.objects.tagged import TYPE, VALUE, WRITERS, Form, tag, tagged_json, zone_name

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ESCAPE: Final = re.compile(r"\\(?:\\|u(d[89a-f][0-9a-f]{2}))")
_INTEGER: Final = re.compile(r"-?(?:0x[0-9a-f]+|[0-9]+)")
_DOUBLE: Final = struct.Struct(">d")
_PLAIN_NAN: Final = bytes.fromhex("7ff8000000000000")
_CONTAINERS: Final = (dict, list)


def exact_json(value: Any, *, depth: int = 0, one_line: bool = False) -> Iterator[str]:
    """The JSON text of a state, in pieces; see `tagged_json`.

    Raises:
        MalformedError: It holds something that is neither of the types that a state may have nor `Opaque`.
    """
    return tagged_json(value, depth=depth, form=_EXACT, one_line=one_line)


def from_json(data: Any) -> Any:
    """The value whose notation a JSON parser has read as `data`, which is changed on the way.

    Raises:
        MalformedError: It is not the notation of any value.
        MismatchError: Members of a set, or keys, that are equal to each other.
    """
    top = [data]
    left: list[tuple[Any, Any, int]] = [(top, 0, 0)]
    tags: list[tuple[Any, Any]] = []
    # A stack instead of recursion: what is read may lie thousands of levels deep.
    while left:
        holder, place, depth = left.pop()
        item = holder[place]
        if type(item) is dict:
            if TYPE in item:
                tags.append((holder, place))
                depth += 1
                if depth > msgpack.MAX_DEPTH:
                    raise MalformedError(f"more than {msgpack.MAX_DEPTH} tagged values in each other")
            left += [(item, key, depth) for key, each in item.items() if type(each) in _CONTAINERS]
        elif type(item) is list:
            left += [(item, at, depth) for at, each in enumerate(item) if type(each) in _CONTAINERS]
    # Each was found after what it stands in, so that backwards the inner ones come first.
    for holder, place in reversed(tags):
        holder[place] = _made(holder[place])
    return top[0]


def _made(item: dict[str, Any]) -> Any:
    name = item[TYPE]
    reader = _READERS.get(name) if type(name) is str else None
    if reader is None:
        raise MalformedError(f"the $type {name!r:.60} is not one that holdfast writes")
    more = item.keys() - {TYPE, VALUE}
    if VALUE not in item or not more <= reader.more:
        raise MalformedError(f"a {name} has a $value and may have {sorted(reader.more)}, not {sorted(item)}")
    try:
        made = reader.make(item[VALUE], **{key[1:]: item[key] for key in more})
        # Many texts stand for the same number or moment. One is the right one: any other was changed since.
        differs = name in _ONE_TEXT and _EXACT.writers[type(made).__name__](made) | {TYPE: name} != item
    except (TypeError, ValueError, ArithmeticError, LookupError, OSError, RecursionError) as error:
        # What constructors of standard types raise for text and numbers that mean nothing, for keys without a hash, and
        # where a time zone turns out to be a folder of them.
        raise MalformedError(f"a {name} cannot be made: {type(error).__name__}: {error!s:.200}") from error
    if differs:
        raise MalformedError(f"a {name} that is written in another way than holdfast writes it")
    return made


def _whole(text: str) -> bool:
    return text.isascii() or _SURROGATE.search(text) is None


def _escape(text: str) -> dict[str, Any]:
    doubled = text.replace("\\", "\\\\")
    return tag("str", _SURROGATE.sub(lambda found: f"\\u{ord(found.group()):04x}", doubled))


def _unescape(value: Any) -> str:
    if type(value) is not str or "\\" in _ESCAPE.sub("", value):
        raise MalformedError("a str with a backslash that stands for nothing")
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else "\\", value)


def _non_finite(value: float) -> dict[str, Any]:
    bits = _DOUBLE.pack(value)
    return tag("float", str(value), bits=bits.hex() if math.isnan(value) and bits != _PLAIN_NAN else None)


def _read_float(value: Any, bits: Any = None) -> float:
    if bits is not None:
        if len(_text(bits)) != 2 * _DOUBLE.size:
            raise MalformedError("the $bits of a float that has others")
        number: float = _DOUBLE.unpack(bytes.fromhex(bits))[0]
        if not math.isnan(number):
            raise MalformedError("the $bits of a float that is a number")
        return number
    if value not in ("nan", "inf", "-inf"):
        raise MalformedError(f"{value!r:.60} is no float that JSON lacks")
    return float(value)


def _complex(value: complex) -> dict[str, Any]:
    bits = _DOUBLE.pack(value.real) + _DOUBLE.pack(value.imag)
    again = complex(str(value))
    same = _DOUBLE.pack(again.real) + _DOUBLE.pack(again.imag) == bits
    return tag("complex", str(value), bits=None if same else bits.hex())


def _read_complex(value: Any, bits: Any = None) -> Any:
    return (
        complex(_text(value))
        if bits is None
        else builtin_types.FROM_BYTES[msgpack.COMPLEX](bytes.fromhex(bits))
    )


def _text(value: Any) -> str:
    if type(value) is not str:
        raise MalformedError(f"a {type(value).__name__} where a text belongs")
    return value


def _items(value: Any) -> list[Any]:
    if type(value) is not list:
        raise MalformedError(f"a {type(value).__name__} where a list belongs")
    return value


def _pairs(value: Any) -> list[Any]:
    flat: list[Any] = []
    for pair in _items(value):
        key, item = _items(pair)
        flat += (key, item)
    return flat


def _whole_number(value: Any) -> int:
    if not _INTEGER.fullmatch(_text(value)):
        raise MalformedError(f"{value!r:.60} is no whole number")
    return int(value, 16 if "x" in value else 10)


def _read_fraction(value: Any) -> Any:
    numerator, _, denominator = _text(value).partition("/")
    return builtin_types.FROM_ITEMS[msgpack.FRACTION](
        [_whole_number(numerator), _whole_number(denominator) if denominator else 1]
    )


def _uuid(value: Any) -> dict[str, Any]:
    safety = value.is_safe.value
    return tag("UUID", str(value), safe=None if safety is None else safety == 0)


def _read_uuid(value: Any, safe: Any = None) -> Any:
    import uuid

    safety = {None: None, True: 0, False: -1}[safe]
    return uuid.UUID(_text(value), is_safe=uuid.SafeUUID(safety))


def _moment(value: Any) -> dict[str, Any]:
    zone = zone_name(value)
    if zone is None and value.tzinfo is not None and type(value.tzinfo) is not dt.timezone:
        raise MalformedError(f"a time zone that is a {type(value.tzinfo).__name__}")
    # The offset of a zone is for whoever knows the zone to say; a plain time of day has none.
    told = value if zone is None else value.replace(tzinfo=None)
    given = (
        builtin_types.TO_ITEMS[dt.timezone][1](value.tzinfo)[1:] if type(value.tzinfo) is dt.timezone else ()
    )
    return tag(
        type(value).__name__,
        told.isoformat(),
        zone=zone,
        zone_name=next(iter(given), None),
        fold=value.fold or None,
    )


def _reader_of_moments(kind: type[dt.datetime | dt.time]) -> Callable[..., Any]:
    def read(value: Any, zone: Any = None, zone_name: Any = None, fold: Any = 0) -> Any:
        made: Any = kind.fromisoformat(_text(value))
        if zone is not None:
            if made.tzinfo is not None:
                raise MalformedError("a time with both an offset and a zone")
            made = made.replace(tzinfo=builtin_types.FROM_BYTES[msgpack.ZONEINFO](_text(zone).encode()))
        elif zone_name is not None:
            made = made.replace(tzinfo=dt.timezone(made.utcoffset(), _text(zone_name)))
        return made.replace(fold=fold)

    return read


def _timezone(value: dt.timezone) -> dict[str, Any]:
    return tag("timezone", builtin_types.TO_ITEMS[dt.timezone][1](value))


def _read_bytes(value: Any) -> bytes:
    from base64 import b64decode

    return b64decode(_text(value), validate=True)


def _path(value: Any) -> dict[str, Any]:
    return tag(type(value).__name__, str(value))


def _read_opaque(value: Any, name: Any, version: Any, extra: Any = None) -> Opaque:
    # A word and a number: it is kept, and never looked for anywhere.
    if type(name) is not str or type(version) is not int or version < 1:
        raise MalformedError("an object whose name is no text, or whose version is no number")
    return Opaque(name, version, value, extra)


def _refuse(value: Any) -> dict[str, Any]:
    raise MalformedError(f"a {type(value).__name__} has no notation")


_EXACT: Final = Form(
    {
        **WRITERS,
        "str": _escape,
        "float": _non_finite,
        "complex": _complex,
        "UUID": _uuid,
        "datetime": _moment,
        "time": _moment,
        "timezone": _timezone,
        "PosixPath": _path,
        "WindowsPath": _path,
    },
    _refuse,
    _whole,
)


class _Reader(NamedTuple):
    make: Callable[..., Any]
    more: frozenset[str] = frozenset()
    """What it may have beside its `$value`."""


def _collected(code: int) -> _Reader:
    return _Reader(lambda value: builtin_types.FROM_ITEMS[code](_items(value)))


def _mapping(code: int) -> _Reader:
    return _Reader(lambda value: builtin_types.FROM_ITEMS[code](_pairs(value)))


def _coded(code: int, kind: int) -> _Reader:
    return _Reader(
        lambda value: builtin_types.FROM_BYTES[code](
            bytes((kind,)) + builtin_types.surrogate_bytes(_text(value))
        )
    )


_READERS: Final[dict[str, _Reader]] = {
    "str": _Reader(_unescape),
    "int": _Reader(_whole_number),
    "float": _Reader(_read_float, frozenset(("$bits",))),
    "complex": _Reader(_read_complex, frozenset(("$bits",))),
    "bytes": _Reader(_read_bytes),
    "bytearray": _Reader(lambda value: bytearray(_read_bytes(value))),
    "tuple": _collected(msgpack.TUPLE),
    "set": _collected(msgpack.SET),
    "frozenset": _collected(msgpack.FROZENSET),
    "deque": _Reader(
        lambda value, maxlen=None: builtin_types.FROM_ITEMS[msgpack.DEQUE]([maxlen, *_items(value)]),
        frozenset(("$maxlen",)),
    ),
    "dict": _mapping(msgpack.PAIRS),
    "OrderedDict": _mapping(msgpack.ORDEREDDICT),
    "Counter": _mapping(msgpack.COUNTER),
    "defaultdict": _Reader(
        lambda value, factory=None: builtin_types.FROM_ITEMS[msgpack.DEFAULTDICT]([factory, *_pairs(value)]),
        frozenset(("$factory",)),
    ),
    "datetime": _Reader(_reader_of_moments(dt.datetime), frozenset(("$zone", "$zone_name", "$fold"))),
    "time": _Reader(_reader_of_moments(dt.time), frozenset(("$zone", "$zone_name", "$fold"))),
    "date": _Reader(lambda value: dt.date.fromisoformat(_text(value))),
    "timedelta": _collected(msgpack.TIMEDELTA),
    "timezone": _collected(msgpack.TIMEZONE),
    "ZoneInfo": _Reader(lambda value: builtin_types.FROM_BYTES[msgpack.ZONEINFO](_text(value).encode())),
    "Decimal": _Reader(lambda value: builtin_types.FROM_BYTES[msgpack.DECIMAL](_text(value).encode())),
    "Fraction": _Reader(_read_fraction),
    "UUID": _Reader(_read_uuid, frozenset(("$safe",))),
    "range": _collected(msgpack.RANGE),
    "slice": _collected(msgpack.SLICE),
    "ellipsis": _Reader(
        lambda value: builtin_types.FROM_BYTES[msgpack.ELLIPSIS](b"" if value is None else b"?")
    ),
    "opaque": _Reader(_read_opaque, frozenset(("$name", "$version", "$extra"))),
    "PurePosixPath": _coded(msgpack.PATH, 0),
    "PureWindowsPath": _coded(msgpack.PATH, 1),
    "PosixPath": _coded(msgpack.PATH, 2),
    "WindowsPath": _coded(msgpack.PATH, 3),
    "IPv4Address": _coded(msgpack.IPADDRESS, 0),
    "IPv6Address": _coded(msgpack.IPADDRESS, 1),
    "IPv4Network": _coded(msgpack.IPADDRESS, 2),
    "IPv6Network": _coded(msgpack.IPADDRESS, 3),
    "IPv4Interface": _coded(msgpack.IPADDRESS, 4),
    "IPv6Interface": _coded(msgpack.IPADDRESS, 5),
}

_ONE_TEXT: Final = frozenset(
    (
        *("str", "int", "float", "complex", "bytes", "bytearray", "Decimal", "Fraction", "UUID"),
        *("datetime", "time", "date", "timedelta", "timezone", "ZoneInfo"),
        *(name for name in _READERS if name.endswith("Path") or name.startswith("IPv")),
    )
)
"""What is written as a text, or as a few numbers, and could be written in several ways."""
