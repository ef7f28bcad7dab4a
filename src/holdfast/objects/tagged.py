"""A value as JSON that keeps every type apart: what JSON has no word for is an object with `$type` and `$value`.

    (1, 2)            {"$type": "tuple", "$value": [1, 2]}
    b"hi"             {"$type": "bytes", "$value": "aGk="}
    {1: "a"}          {"$type": "dict", "$value": [[1, "a"]]}

A dict of the user's own that has a `$type` key is written in the pair form too, so an object with `$type` is always
ours. docs/reference/cli.md lists the forms. Types are told apart by name, so that no module is imported only to ask.
Values may lie thousands of levels deep, so the text is written with a stack of our own instead of recursion.

An object of a registered class has to come as `Opaque`, as it does where it is loaded without its class: the notation
writes what is stored of it, and knows no classes itself. It is for showing: a few rare values look alike in it (a NaN
with other bits, half a surrogate pair). `exact.py` has the form from which the very same value is made again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from json.encoder import encode_basestring
from typing import Any, NamedTuple

TYPE, VALUE = "$type", "$value"

SAFE_INTEGER = 2**53 - 1
"""The largest whole number that every JSON reader keeps exactly."""

_LONGEST_DECIMAL = 12_000
"""Bits. Python refuses to write numbers of more than 4,300 digits in decimal; longer ones are written in hex."""

_MAX_MARGIN = 32
"""Levels that are indented further; 10,000 levels of growing margins would be 200 MB of spaces."""

_SURROGATE = "[\ud800-\udfff]"

_WORDS = {None: "null", True: "true", False: "false"}

_Parts = tuple[str, str, Iterator[tuple[str, Any]]]

Writer = Callable[[Any], dict[str, Any]]
"""Makes the object with `$type` and `$value` that stands for a value."""


class Form(NamedTuple):
    """How values are written that JSON has no word for."""

    writers: Mapping[str, Writer]
    """By the name of the type."""
    unknown: Writer
    """For every other type."""
    whole_text: Callable[[str], bool]
    """Whether a text can be written as it is."""


def tagged_json(
    value: Any, *, depth: int = 0, form: Form | None = None, one_line: bool = False
) -> Iterator[str]:
    """The JSON text of a state, in pieces.

    Args:
        value: The state.
        depth: Where in a larger document it will stand.
        form: Another than the one that is shown to people.
        one_line: Leave out the line breaks between values.
    """
    form = form or _SHOWN
    margin = _no_margin if one_line else _margin
    stack: list[_Parts] = []
    step: tuple[str, Any] | None = ("", value)
    fresh = True
    while step is not None or stack:
        if step is None:
            _, end, _ = stack.pop()
            yield end if fresh else margin(depth + len(stack)) + end
            fresh = False
        else:
            if stack:
                yield margin(depth + len(stack)) if fresh else "," + margin(depth + len(stack))
            before, item = step
            level = depth + len(stack)
            parts = _flat(item, form, margin(level + 1), margin(level)) or _parts(item, form)
            fresh = not isinstance(parts, str)
            yield before + (parts if isinstance(parts, str) else parts[0])
            if not isinstance(parts, str):
                stack.append(parts)
        step = next(stack[-1][2], None) if stack else None


def json_form(value: Any) -> Any:
    """The same as plain Python data, as `json.loads` of the text would give it; to apply JSON patches to, say."""
    top: list[Any] = [None]
    # What to turn into JSON, and where to put it: a stack, as above.
    left: list[tuple[Any, Any, Any]] = [(value, top, 0)]
    while left:
        item, holder, place = left.pop()
        kind = type(item)
        if item is None or kind is bool or kind is str:
            holder[place] = item
            continue
        if kind is not list and not _is_plain(item, kind, _SHOWN):
            item = WRITERS.get(kind.__name__, _unknown)(item)
        if type(item) is dict:
            holder[place] = made = dict.fromkeys(item)
            left += [(each, made, key) for key, each in item.items()]
        elif type(item) is list:
            holder[place] = row = [None] * len(item)
            left += [(each, row, at) for at, each in enumerate(item)]
        else:
            holder[place] = item
    return top[0]


def integer_text(number: int) -> str:
    """The digits of a number of any size: decimal, or hex where decimal would take too long."""
    return str(number) if number.bit_length() < _LONGEST_DECIMAL else hex(number)


def plain_text(value: Any) -> str:
    """`str` of a scalar, also where it holds a number too long for that."""
    if type(value).__name__ == "Fraction":
        return f"{integer_text(value.numerator)}/{integer_text(value.denominator)}"
    return str(value)


def member_order(value: Any) -> str:
    """What the members of a set are sorted by, so that two showings of the same state are the same text.

    It is much like `repr`, but sets inside have an order here: theirs is that in which they happened to be filled.
    """
    whole: list[str] = []
    # What is being written, what is left of it, and the texts so far: a stack, as above.
    stack: list[tuple[Any, Iterator[Any], list[str]]] = [(None, iter((value,)), whole)]
    while stack:
        holder, left, texts = stack[-1]
        for item in left:
            inside = _inside(item)
            if inside is not None:
                stack.append((item, iter(inside), []))
                break
            texts.append(_leaf_order(item))
        else:
            stack.pop()
            if stack:
                stack[-1][2].append(_joined_order(holder, texts))
    return whole[0]


def type_name(value: Any) -> str:
    """The name under which a value is tagged; paths are `Path` on every system."""
    name = type(value).__name__
    return "Path" if name in ("PosixPath", "WindowsPath") else name


def zone_name(value: Any) -> str | None:
    """The name of the zone of a datetime or time, where it has one that is more than an offset."""
    name = getattr(value.tzinfo, "key", None)
    return name if isinstance(name, str) else None


def _inside(value: Any) -> Iterable[Any] | None:
    """What a value that may be in a set holds; None where it holds nothing that has to be asked one by one."""
    match type(value).__name__:
        case "tuple" | "list" | "set" | "frozenset" | "deque":
            return list(value)
        case "dict" | "OrderedDict" | "Counter" | "defaultdict":
            return [part for pair in value.items() for part in pair]
        case "Opaque":
            return (value.name, value.version, value.data, value.extra)
        case "Fraction":
            return (value.numerator, value.denominator)
        case "range" | "slice":
            return (value.start, value.stop, value.step)
    return None


def _joined_order(holder: Any, texts: list[str]) -> str:
    if isinstance(holder, set | frozenset):
        texts.sort()
    name = "" if type(holder) is tuple else type_name(holder)
    return f"{name}({', '.join(texts)})"


def _leaf_order(value: Any) -> str:
    if type(value) is int:
        return integer_text(value)
    try:
        return repr(value)
    except ValueError:
        # Python refuses to write out very long numbers; somewhere in it there is one.
        return type(value).__name__


def _margin(level: int) -> str:
    return "\n" + "  " * min(level, _MAX_MARGIN)


def _no_margin(_level: int) -> str:
    return ""


def _parts(value: Any, form: Form) -> str | _Parts:
    """One level of a value: its whole text, or what opens and closes it and the items between."""
    kind = type(value)
    if value is None or kind is bool or (kind is str and form.whole_text(value)):
        return _text(value)
    if kind is list:
        return "[", "]", (("", item) for item in value)
    if not _is_plain(value, kind, form):
        return _object(form.writers.get(kind.__name__, form.unknown)(value))
    return _object(value) if kind is dict else repr(value)


def _flat(value: Any, form: Form, inner: str, outer: str) -> str | None:
    """The whole text of a list or dict that holds nothing but plain scalars, as most do; None for any other value.

    It is what the steps one by one would give, in a third of the time.
    """
    kind = type(value)
    texts: list[str] = []
    if kind is list:
        for each in value:
            text = _scalar(each, form)
            if text is None:
                return None
            texts.append(text)
    elif kind is dict and TYPE not in value:
        for key, each in value.items():
            text = _scalar(each, form)
            if text is None or type(key) is not str or not form.whole_text(key):
                return None
            texts.append(f"{_text(key)}: {text}")
    if not texts:
        return None
    joined = f",{inner}".join(texts)
    return f"[{inner}{joined}{outer}]" if kind is list else f"{{{inner}{joined}{outer}}}"


def _scalar(value: Any, form: Form) -> str | None:
    """The text of a scalar that JSON has; None for any other value."""
    kind = type(value)
    if kind is str:
        return _text(value) if form.whole_text(value) else None
    if kind is int:
        return repr(value) if -SAFE_INTEGER <= value <= SAFE_INTEGER else None
    if kind is float:
        return repr(value) if math.isfinite(value) else None
    return _WORDS[value] if value is None or kind is bool else None


def _is_plain(value: Any, kind: type, form: Form) -> bool:
    """Whether JSON has a number or an object for a value that is no list, text, boolean or null."""
    if kind is int:
        return bool(-SAFE_INTEGER <= value <= SAFE_INTEGER)
    if kind is float:
        return math.isfinite(value)
    return (
        kind is dict and TYPE not in value and all(type(key) is str and form.whole_text(key) for key in value)
    )


def _object(value: dict[str, Any]) -> _Parts:
    return "{", "}", ((_text(key) + ": ", item) for key, item in value.items())


def _text(value: Any) -> str:
    if type(value) is not str:
        return _WORDS[value]
    # What `json.dumps` does with a text; asked for one by one it would make an encoder for each.
    text = encode_basestring(value)
    if text.isascii():
        return text
    # Half a surrogate pair cannot be encoded; everything else is left to whoever knows where the text goes.
    return re.sub(_SURROGATE, lambda found: f"\\u{ord(found.group()):04x}", text)


def tag(name: str, value: Any, /, **more: Any) -> dict[str, Any]:
    """The object that stands for a value; what else belongs to it is left out where it is None."""
    return {TYPE: name, VALUE: value} | {f"${key}": item for key, item in more.items() if item is not None}


def _non_finite(value: Any) -> dict[str, Any]:
    return tag("float", str(value))


def _items(value: Iterable[Any]) -> dict[str, Any]:
    return tag(type_name(value), list(value))


def _unordered(value: Iterable[Any]) -> dict[str, Any]:
    # A set has no order of its own; sorting makes two showings of the same state the same text.
    return tag(type_name(value), sorted(value, key=member_order))


def _pairs(value: Any) -> dict[str, Any]:
    factory = getattr(getattr(value, "default_factory", None), "__name__", None)
    return tag(type_name(value), [[key, item] for key, item in value.items()], factory=factory)


def _base64(value: bytes) -> dict[str, Any]:
    from base64 import b64encode

    return tag(type_name(value), b64encode(value).decode("ascii"))


def _moment(value: Any) -> dict[str, Any]:
    return tag(type_name(value), value.isoformat(), zone=zone_name(value), fold=value.fold or None)


def _bounds(value: Any) -> dict[str, Any]:
    return tag(type_name(value), [value.start, value.stop, value.step])


def _str(value: Any) -> dict[str, Any]:
    return tag(type_name(value), plain_text(value))


def _unknown(value: Any) -> dict[str, Any]:
    return tag(type_name(value), repr(value))


_AS_TEXT = (
    *("Decimal", "Fraction", "UUID", "complex", "ZoneInfo"),
    *("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath"),
    *(f"IPv{version}{kind}" for version in (4, 6) for kind in ("Address", "Network", "Interface")),
)

WRITERS: Mapping[str, Writer] = {
    "int": lambda value: tag("int", integer_text(value)),
    "float": _non_finite,
    "dict": _pairs,
    "OrderedDict": _pairs,
    "Counter": _pairs,
    "defaultdict": _pairs,
    "tuple": _items,
    "deque": lambda value: tag("deque", list(value), maxlen=value.maxlen),
    "set": _unordered,
    "frozenset": _unordered,
    "bytes": _base64,
    "bytearray": _base64,
    "datetime": _moment,
    "time": _moment,
    "date": lambda value: tag("date", value.isoformat()),
    "timedelta": lambda value: tag("timedelta", [value.days, value.seconds, value.microseconds]),
    "range": _bounds,
    "slice": _bounds,
    "ellipsis": lambda _: tag("ellipsis", None),
    "Opaque": lambda value: tag(
        "opaque", value.data, name=value.name, version=value.version, extra=value.extra
    ),
} | dict.fromkeys(_AS_TEXT, _str)

_SHOWN = Form(WRITERS, _unknown, lambda _text: True)
