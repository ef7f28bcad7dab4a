"""A value as JSON that keeps every type apart, and the value again: tagged JSON.

What JSON has no word for is an object with `$type` and `$value`:

    (1, 2)            {"$type": "tuple", "$value": [1, 2]}
    b"hi"             {"$type": "bytes", "$value": "aGk="}
    {1: "a"}          {"$type": "dict", "$value": [[1, "a"]]}

An object is a tag if it has both keys, and beside them at most the others that tags have (`$name`, `$zone` ...). Any
other object is data, whatever its keys are; a dict of the user's own that looks like a tag is written as pairs. So the
way out and back gives the very same value: every type, every bit, the same root.

What is read may come from anybody. A `$type` is looked up in a table of our own and is never a place to import from.
Objects of classes are written as `Opaque` and come back as `Opaque`.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from holdfast.objects.codec import builtin_types, msgpack
from holdfast.objects.codec.errors import MalformedError, MismatchError
from holdfast.objects.codec.opaque import Opaque

TYPE, VALUE = "$type", "$value"

SAFE_INTEGER: Final = 2**53 - 1
"""The largest whole number that every JSON reader keeps exactly."""

_LONGEST_DECIMAL: Final = 12_000
"""Bits. Python refuses to write numbers of more than 4,300 digits in decimal; longer ones are written in hex."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ESCAPE: Final = re.compile(r"\\(?:\\|u(d[89a-f][0-9a-f]{2}))")
_INTEGER: Final = re.compile(r"-?(?:0x[0-9a-f]+|[0-9]+)")
_DOUBLE: Final = struct.Struct(">d")
_PLAIN_NAN: Final = bytes.fromhex("7ff8000000000000")

_CONTAINERS: Final = (dict, list)

_Where = tuple[Any, Any] | None
"""Where something is: the place that it is in, and its key or position there."""

Writer = Callable[[Any], dict[str, Any]]
"""Makes the object with `$type` and `$value` that stands for a value; what is in it is not in its JSON form yet."""


def json_form(value: Any) -> Any:
    """A value as plain JSON data; objects have to come as `Opaque`.

    Raises:
        MalformedError: It holds something that is neither of the types that a state may have nor `Opaque`.
    """
    top: list[Any] = [None]
    # What to turn into JSON, and where to put it: a stack, because a tagged value is several levels of JSON.
    left: list[tuple[Any, Any, Any]] = [(value, top, 0)]
    while left:
        item, holder, place = left.pop()
        kind = type(item)
        if kind is str or kind is int or kind is float:
            if not _is_json_scalar(item, kind):
                item = _WRITERS[kind.__name__](item)
            holder[place] = item
            continue
        if item is None or kind is bool:
            holder[place] = item
            continue
        if kind is not list and not (kind is dict and _is_json_object(item)):
            item = _WRITERS.get(kind.__name__, _refuse)(item)
        if type(item) is dict:
            holder[place] = made = dict.fromkeys(item)
            left += [(each, made, key) for key, each in item.items()]
        else:
            holder[place] = row = [None] * len(item)
            left += [(each, row, at) for at, each in enumerate(item)]
    return top[0]


def tagged_json(value: Any, *, one_line: bool = False) -> str:
    """The JSON text of a value; see `json_form`."""
    form = json_form(value)
    if one_line:
        return json.dumps(form, ensure_ascii=False, separators=(",", ": "))
    return json.dumps(form, ensure_ascii=False, indent=2)


def from_json(data: Any, *, canonical: bool = False) -> Any:
    """The value that JSON data stands for.

    Args:
        data: What a JSON parser has read; it is changed on the way.
        canonical: Refuse a scalar that is written in another way than we write it: in a file that a program wrote, it
            was changed since.

    Raises:
        MalformedError: A tag in it is not the notation of any value; the message has its place as a JSON Pointer.
    """
    top = [data]
    left: list[tuple[Any, Any, int, _Where]] = [(top, 0, 0, None)]
    tags: list[tuple[Any, Any, _Where]] = []
    while left:
        holder, place, depth, where = left.pop()
        item = holder[place]
        if type(item) is dict:
            if looks_like_tag(item):
                tags.append((holder, place, where))
                depth += 1
                if depth > msgpack.MAX_DEPTH:
                    raise MalformedError(f"more than {msgpack.MAX_DEPTH} tagged values in each other")
            left += [
                (item, key, depth, (where, key)) for key, each in item.items() if type(each) in _CONTAINERS
            ]
        elif type(item) is list:
            left += [
                (item, at, depth, (where, at)) for at, each in enumerate(item) if type(each) in _CONTAINERS
            ]
    # Each was found after what it stands in, so that backwards the inner ones come first.
    for holder, place, where in reversed(tags):
        try:
            holder[place] = _made(holder[place], canonical=canonical)
        except (MalformedError, MismatchError) as error:
            raise MalformedError(f"{_pointer(where) or 'the value'}: {error}") from error
    return top[0]


def looks_like_tag(keys: Iterable[Any]) -> bool:
    """Whether an object with these keys is read as a tag."""
    return TYPE in keys and VALUE in keys and _TAG_KEYS.issuperset(keys)


def tag(name: str, value: Any, /, **more: Any) -> dict[str, Any]:
    """The object that stands for a value; what else belongs to it is left out where it is None."""
    return {TYPE: name, VALUE: value} | {f"${key}": item for key, item in more.items() if item is not None}


def integer_text(number: int) -> str:
    """The digits of a number of any size: decimal, or hex where decimal would take too long."""
    return str(number) if number.bit_length() < _LONGEST_DECIMAL else hex(number)


def plain_text(value: Any) -> str:
    """`str` of a scalar, also where it holds a number too long for that."""
    if type(value).__name__ == "Fraction":
        return f"{integer_text(value.numerator)}/{integer_text(value.denominator)}"
    return str(value)


def member_order(value: Any) -> str:
    """What the members of a set are sorted by, so that two showings of the same state are the same text."""
    return json.dumps(json_form(value), ensure_ascii=False)


def type_name(value: Any) -> str:
    """The name of a type as people know it; paths are `Path` on every system."""
    name = type(value).__name__
    return "Path" if name in ("PosixPath", "WindowsPath") else name


def zone_name(value: Any) -> str | None:
    """The name of the zone of a datetime or time, where it has one that is more than an offset."""
    name = getattr(value.tzinfo, "key", None)
    return name if isinstance(name, str) else None


def _pointer(where: _Where) -> str:
    tokens: list[str] = []
    while where is not None:
        where, key = where
        tokens.append(str(key).replace("~", "~0").replace("/", "~1"))
    return "".join(f"/{token}" for token in reversed(tokens))


def _is_json_scalar(value: Any, kind: type) -> bool:
    if kind is str:
        return bool(value.isascii() or _SURROGATE.search(value) is None)
    return bool(-SAFE_INTEGER <= value <= SAFE_INTEGER) if kind is int else math.isfinite(value)


def _is_json_object(value: dict[Any, Any]) -> bool:
    return all(type(key) is str and _is_json_scalar(key, str) for key in value) and not looks_like_tag(value)


def _made(item: dict[str, Any], *, canonical: bool) -> Any:
    name = item[TYPE]
    reader = _READERS.get(name) if type(name) is str else None
    if reader is None:
        raise MalformedError(f"the $type {name!r:.60} is not one that holdfast writes")
    more = item.keys() - {TYPE, VALUE}
    if not more <= reader.more:
        raise MalformedError(f"a {name} has a $value and may have {sorted(reader.more)}, not {sorted(item)}")
    try:
        made = reader.make(item[VALUE], **{key[1:]: item[key] for key in more})
        if canonical and name in _ONE_TEXT and json_form(made) != item:
            raise MalformedError(f"a {name} that is written in another way than holdfast writes it")
    except (TypeError, ValueError, ArithmeticError, LookupError, OSError, RecursionError) as error:
        # What constructors of standard types raise for text and numbers that mean nothing, for keys without a hash, and
        # where a time zone turns out to be a folder of them.
        raise MalformedError(f"a {name} cannot be made: {type(error).__name__}: {error!s:.200}") from error
    return made


def _refuse(value: Any) -> dict[str, Any]:
    raise MalformedError(f"a {type(value).__name__} has no notation in JSON")


def _written_str(value: str) -> dict[str, Any]:
    doubled = value.replace("\\", "\\\\")
    return tag("str", _SURROGATE.sub(lambda found: f"\\u{ord(found.group()):04x}", doubled))


def _written_float(value: float) -> dict[str, Any]:
    bits = _DOUBLE.pack(value)
    return tag("float", str(value), bits=bits.hex() if math.isnan(value) and bits != _PLAIN_NAN else None)


def _written_complex(value: complex) -> dict[str, Any]:
    bits = _DOUBLE.pack(value.real) + _DOUBLE.pack(value.imag)
    again = complex(str(value))
    same = _DOUBLE.pack(again.real) + _DOUBLE.pack(again.imag) == bits
    return tag("complex", str(value), bits=None if same else bits.hex())


def _written_row(value: Iterable[Any]) -> dict[str, Any]:
    return tag(type(value).__name__, list(value))


def _written_set(value: Iterable[Any]) -> dict[str, Any]:
    return tag(type(value).__name__, sorted(value, key=member_order))


def _written_pairs(value: Any) -> dict[str, Any]:
    factory = getattr(getattr(value, "default_factory", None), "__name__", None)
    return tag(type(value).__name__, [[key, item] for key, item in value.items()], factory=factory)


def _written_bytes(value: bytes) -> dict[str, Any]:
    return tag(type(value).__name__, b64encode(value).decode("ascii"))


def _written_moment(value: Any) -> dict[str, Any]:
    zone = zone_name(value)
    if zone is None and value.tzinfo is not None and type(value.tzinfo) is not dt.timezone:
        raise MalformedError(f"a time zone that is a {type(value.tzinfo).__name__} has no notation in JSON")
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


def _written_uuid(value: Any) -> dict[str, Any]:
    safety = value.is_safe.value
    return tag("UUID", str(value), safe=None if safety is None else safety == 0)


def _written_bounds(value: Any) -> dict[str, Any]:
    return tag(type(value).__name__, [value.start, value.stop, value.step])


def _written_text(value: Any) -> dict[str, Any]:
    return tag(type(value).__name__, plain_text(value))


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


def _read_str(value: Any) -> str:
    if "\\" in _ESCAPE.sub("", _text(value)):
        raise MalformedError("a str with a backslash that stands for nothing")
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else "\\", value)


def _read_int(value: Any) -> int:
    if not _INTEGER.fullmatch(_text(value)):
        raise MalformedError(f"{value!r:.60} is no whole number")
    return int(value, 16 if "x" in value else 10)


def _read_float(value: Any, bits: Any = None) -> float:
    if bits is not None:
        if len(_text(bits)) != 2 * _DOUBLE.size:
            raise MalformedError("the $bits of a float that has others")
        number: float = _DOUBLE.unpack(bytes.fromhex(_text(bits)))[0]
        if not math.isnan(number):
            raise MalformedError("the $bits of a float that is a number")
        return number
    if value not in ("nan", "inf", "-inf"):
        raise MalformedError(f"{value!r:.60} is no float that JSON lacks")
    return float(value)


def _read_complex(value: Any, bits: Any = None) -> Any:
    return (
        complex(_text(value))
        if bits is None
        else builtin_types.FROM_BYTES[msgpack.COMPLEX](bytes.fromhex(bits))
    )


def _read_fraction(value: Any) -> Any:
    numerator, _, denominator = _text(value).partition("/")
    return builtin_types.FROM_ITEMS[msgpack.FRACTION](
        [_read_int(numerator), _read_int(denominator) if denominator else 1]
    )


def _read_uuid(value: Any, safe: Any = None) -> Any:
    import uuid

    return uuid.UUID(_text(value), is_safe=uuid.SafeUUID({None: None, True: 0, False: -1}[safe]))


def _moments(kind: type[dt.datetime | dt.time]) -> _Reader:
    def read(value: Any, zone: Any = None, zone_name: Any = None, fold: Any = 0) -> Any:
        made: Any = kind.fromisoformat(_text(value))
        if zone is not None:
            if made.tzinfo is not None:
                raise MalformedError("a time with both an offset and a zone")
            made = made.replace(tzinfo=builtin_types.FROM_BYTES[msgpack.ZONEINFO](_text(zone).encode()))
        elif zone_name is not None:
            made = made.replace(tzinfo=dt.timezone(made.utcoffset(), _text(zone_name)))
        return made.replace(fold=fold)

    return _Reader(read, frozenset(("$zone", "$zone_name", "$fold")))


def _read_bytes(value: Any) -> bytes:
    return b64decode(_text(value), validate=True)


def _read_opaque(value: Any, name: Any, version: Any, extra: Any = None) -> Opaque:
    # A word and a number: it is kept, and never looked for anywhere.
    if type(name) is not str or type(version) is not int or version < 1:
        raise MalformedError("an object whose name is no text, or whose version is no number")
    return Opaque(name, version, value, extra)


class _Reader(NamedTuple):
    """How a value is made of its notation."""

    make: Callable[..., Any]
    more: frozenset[str] = frozenset()
    """What it may have beside its `$value`."""


def _collected(code: int) -> _Reader:
    return _Reader(lambda value: builtin_types.FROM_ITEMS[code](_items(value)))


def _mapping(code: int) -> _Reader:
    return _Reader(lambda value: builtin_types.FROM_ITEMS[code](_pairs(value)))


def _scalar(code: int) -> _Reader:
    return _Reader(lambda value: builtin_types.FROM_BYTES[code](_text(value).encode()))


def _coded(code: int, kind: int) -> _Reader:
    return _Reader(
        lambda value: builtin_types.FROM_BYTES[code](
            bytes((kind,)) + builtin_types.surrogate_bytes(_text(value))
        )
    )


_PATHS: Final = ("PurePosixPath", "PureWindowsPath", "PosixPath", "WindowsPath")
_ADDRESSES: Final = tuple(f"IPv{v}{kind}" for kind in ("Address", "Network", "Interface") for v in (4, 6))

_WRITERS: Final[Mapping[str, Writer]] = {
    "str": _written_str,
    "int": lambda value: tag("int", integer_text(value)),
    "float": _written_float,
    "complex": _written_complex,
    **dict.fromkeys(("bytes", "bytearray"), _written_bytes),
    "tuple": _written_row,
    **dict.fromkeys(("set", "frozenset"), _written_set),
    **dict.fromkeys(("dict", "OrderedDict", "Counter", "defaultdict"), _written_pairs),
    "deque": lambda value: tag("deque", list(value), maxlen=value.maxlen),
    **dict.fromkeys(("datetime", "time"), _written_moment),
    "date": lambda value: tag("date", value.isoformat()),
    "timedelta": lambda value: tag("timedelta", [value.days, value.seconds, value.microseconds]),
    "timezone": lambda value: tag("timezone", builtin_types.TO_ITEMS[dt.timezone][1](value)),
    "UUID": _written_uuid,
    **dict.fromkeys(("range", "slice"), _written_bounds),
    "ellipsis": lambda _: tag("ellipsis", None),
    **dict.fromkeys(("Decimal", "Fraction", "ZoneInfo", *_PATHS, *_ADDRESSES), _written_text),
    "Opaque": lambda value: tag(
        "opaque", value.data, name=value.name, version=value.version, extra=value.extra
    ),
}

_READERS: Final[Mapping[str, _Reader]] = {
    "str": _Reader(_read_str),
    "int": _Reader(_read_int),
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
    "datetime": _moments(dt.datetime),
    "time": _moments(dt.time),
    "date": _Reader(lambda value: dt.date.fromisoformat(_text(value))),
    "timedelta": _collected(msgpack.TIMEDELTA),
    "timezone": _collected(msgpack.TIMEZONE),
    "ZoneInfo": _scalar(msgpack.ZONEINFO),
    "Decimal": _scalar(msgpack.DECIMAL),
    "Fraction": _Reader(_read_fraction),
    "UUID": _Reader(_read_uuid, frozenset(("$safe",))),
    "range": _collected(msgpack.RANGE),
    "slice": _collected(msgpack.SLICE),
    "ellipsis": _Reader(
        lambda value: builtin_types.FROM_BYTES[msgpack.ELLIPSIS](b"" if value is None else b"?")
    ),
    "opaque": _Reader(_read_opaque, frozenset(("$name", "$version", "$extra"))),
    **{name: _coded(msgpack.PATH, number) for number, name in enumerate(_PATHS)},
    **{name: _coded(msgpack.IPADDRESS, number) for number, name in enumerate(_ADDRESSES)},
}

_TAG_KEYS: Final = frozenset((TYPE, VALUE)).union(*(reader.more for reader in _READERS.values()))
_ONE_TEXT: Final = frozenset(_READERS) - {
    *("tuple", "set", "frozenset", "deque", "dict", "OrderedDict", "Counter", "defaultdict"),
    *("range", "slice", "ellipsis", "opaque"),
}
"""What is written as a text, or as a few numbers, and could be written in several ways."""
