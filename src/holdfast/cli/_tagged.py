"""A state as JSON that keeps every type apart: what JSON has no word for is an object with `$type` and `$value`.

    (1, 2)            {"$type": "tuple", "$value": [1, 2]}
    b"hi"             {"$type": "bytes", "$value": "aGk="}
    {1: "a"}          {"$type": "dict", "$value": [[1, "a"]]}

A dict of the user's own that has a `$type` key is written in the pair form too, so an object with `$type` is always
ours. docs/reference/cli.md lists the forms. Types are told apart by name, so that no module is imported only to ask.
Values may lie thousands of levels deep, so the text is written with a stack of our own instead of recursion.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from holdfast.cli._terminal import escape_json

TYPE, VALUE = "$type", "$value"

SAFE_INTEGER = 2**53 - 1
"""The largest whole number that every JSON reader keeps exactly."""

_LONGEST_DECIMAL = 12_000
"""Bits. Python refuses to write numbers of more than 4,300 digits in decimal; longer ones are written in hex."""

_MAX_MARGIN = 32
"""Levels that are indented further; 10,000 levels of growing margins would be 200 MB of spaces."""

_Parts = tuple[str, str, Iterator[tuple[str, Any]]]


def tagged_json(value: Any, *, depth: int = 0) -> Iterator[str]:
    """The JSON text of a state, in pieces; `depth` is where in a larger document it will stand."""
    stack: list[_Parts] = []
    step: tuple[str, Any] | None = ("", value)
    fresh = True
    while step is not None or stack:
        if step is None:
            _, end, _ = stack.pop()
            yield end if fresh else _margin(depth + len(stack)) + end
            fresh = False
        else:
            if stack:
                yield _margin(depth + len(stack)) if fresh else "," + _margin(depth + len(stack))
            before, item = step
            parts = _parts(item)
            fresh = not isinstance(parts, str)
            yield before + (parts if isinstance(parts, str) else parts[0])
            if not isinstance(parts, str):
                stack.append(parts)
        step = next(stack[-1][2], None) if stack else None


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
    if type(value) is int:
        return integer_text(value)
    try:
        return repr(value)
    except ValueError:
        # Python refuses to write out very long numbers; somewhere in it there is one.
        return type(value).__name__


def type_name(value: Any) -> str:
    """The name under which a value is tagged; paths are `Path` on every system."""
    name = type(value).__name__
    return "Path" if name in ("PosixPath", "WindowsPath") else name


def zone_name(value: Any) -> str | None:
    """The name of the zone of a datetime or time, where it has one that is more than an offset."""
    name = getattr(value.tzinfo, "key", None)
    return name if isinstance(name, str) else None


def _margin(level: int) -> str:
    return "\n" + "  " * min(level, _MAX_MARGIN)


def _parts(value: Any) -> str | _Parts:
    """One level of a value: its whole text, or what opens and closes it and the items between."""
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return _text(value)
    if kind is int and -SAFE_INTEGER <= value <= SAFE_INTEGER:
        return str(value)
    if kind is float and math.isfinite(value):
        return repr(value)
    if kind is list:
        return "[", "]", (("", item) for item in value)
    if kind is dict and TYPE not in value and all(type(key) is str for key in value):
        return _object(value)
    return _object(_WRITERS.get(kind.__name__, _unknown)(value))


def _object(value: dict[str, Any]) -> _Parts:
    return "{", "}", ((_text(key) + ": ", item) for key, item in value.items())


def _text(value: Any) -> str:
    return escape_json(json.dumps(value, ensure_ascii=False))


def _tag(name: str, value: Any, /, **more: Any) -> dict[str, Any]:
    return {TYPE: name, VALUE: value} | {f"${key}": item for key, item in more.items() if item is not None}


def _non_finite(value: Any) -> dict[str, Any]:
    return _tag("float", str(value))


def _items(value: Iterable[Any]) -> dict[str, Any]:
    return _tag(type_name(value), list(value))


def _unordered(value: Iterable[Any]) -> dict[str, Any]:
    # A set has no order of its own; sorting makes two showings of the same state the same text.
    return _tag(type_name(value), sorted(value, key=member_order))


def _pairs(value: Any) -> dict[str, Any]:
    factory = getattr(getattr(value, "default_factory", None), "__name__", None)
    return _tag(type_name(value), [[key, item] for key, item in value.items()], factory=factory)


def _base64(value: bytes) -> dict[str, Any]:
    from base64 import b64encode

    return _tag(type_name(value), b64encode(value).decode("ascii"))


def _moment(value: Any) -> dict[str, Any]:
    return _tag(type_name(value), value.isoformat(), zone=zone_name(value), fold=value.fold or None)


def _bounds(value: Any) -> dict[str, Any]:
    return _tag(type_name(value), [value.start, value.stop, value.step])


def _str(value: Any) -> dict[str, Any]:
    return _tag(type_name(value), plain_text(value))


def _unknown(value: Any) -> dict[str, Any]:
    return _tag(type_name(value), repr(value))


_AS_TEXT = (
    *("Decimal", "Fraction", "UUID", "complex", "ZoneInfo"),
    *("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath"),
    *(f"IPv{version}{kind}" for version in (4, 6) for kind in ("Address", "Network", "Interface")),
)

_WRITERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "int": lambda value: _tag("int", integer_text(value)),
    "float": _non_finite,
    "dict": _pairs,
    "OrderedDict": _pairs,
    "Counter": _pairs,
    "defaultdict": _pairs,
    "tuple": _items,
    "deque": lambda value: _tag("deque", list(value), maxlen=value.maxlen),
    "set": _unordered,
    "frozenset": _unordered,
    "bytes": _base64,
    "bytearray": _base64,
    "datetime": _moment,
    "time": _moment,
    "date": lambda value: _tag("date", value.isoformat()),
    "timedelta": lambda value: _tag("timedelta", [value.days, value.seconds, value.microseconds]),
    "range": _bounds,
    "slice": _bounds,
    "ellipsis": lambda _: _tag("ellipsis", None),
    "Opaque": lambda value: _tag(
        "opaque", value.data, name=value.name, version=value.version, extra=value.extra
    ),
} | dict.fromkeys(_AS_TEXT, _str)
