"""The types of the standard library that LangGraph's serializer names in its bytes, each with a maker of our own.

The bytes say module, name and arguments. Nothing is imported or called by these words: they are looked up in a table,
and each maker checks what it is given before it calls a constructor. What is not in the table is no standard type.
"""

from __future__ import annotations

import datetime as dt
import decimal
import ipaddress
import pathlib
import re
import sys
import uuid
import zoneinfo
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from holdfast.objects.collected import few_collisions

Maker = Callable[[Any], Any]
"""Takes what the bytes hold (one argument, a list of them, or a dict) and gives the value; raises where it cannot."""

_ZONE_KEY = re.compile(r"[\w+-]+(/[\w+-]+)*", re.ASCII)
_MOST_DIGITS = 100_000
"""More would take minutes to read as a decimal, and nobody has such a number."""


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("not a text")
    return value


def _items(value: Any) -> list[Any]:
    if type(value) is not list:
        raise TypeError("not a list")
    return value


def _members(value: Any) -> list[Any]:
    if not few_collisions(_items(value)):
        # Each would be compared with all before it.
        raise ValueError("too many members with equal hashes")
    return list(value)


def _ints(value: Any, count: int) -> list[int]:
    # These constructors take more than numbers: datetime.date takes the bytes of a pickle.
    if len(_items(value)) != count or any(type(item) is not int for item in value):
        raise TypeError(f"not {count} whole numbers")
    return list(value)


def _decimal(value: Any) -> decimal.Decimal:
    if len(_text(value)) > _MOST_DIGITS:
        raise ValueError("a number of too many digits")
    # A program may have switched this signal off; bad text would then silently become NaN.
    return decimal.Decimal(value, decimal.Context(traps=[decimal.InvalidOperation]))


def _uuid(value: Any) -> uuid.UUID:
    return uuid.UUID(hex=_text(value))


def _zone(value: Any) -> zoneinfo.ZoneInfo:
    # zoneinfo looks keys up as files and as modules of the tzdata package: nothing but a plain name may get there.
    if _ZONE_KEY.fullmatch(_text(value)) is None:
        raise ValueError("not the name of a time zone")
    return zoneinfo.ZoneInfo(value)


def _address(kind: Callable[[str], Any]) -> Maker:
    return lambda value: kind(_text(value))


def _path(kind: type[pathlib.PurePath]) -> Maker:
    return lambda value: kind(*[_text(part) for part in _items(value)])


def _timezone(value: Any) -> dt.timezone:
    offset, *name = _items(value)
    if not isinstance(offset, dt.timedelta) or len(name) > 1:
        raise TypeError("not the offset of a time zone")
    return dt.timezone(offset, *[_text(each) for each in name])


def _time(value: Any) -> dt.time:
    if type(value) is not dict:
        raise TypeError("not the fields of a time")
    fields = dict(value)
    zone, fold = fields.pop("tzinfo", None), fields.pop("fold", 0)
    if zone is not None and not isinstance(zone, dt.tzinfo):
        raise TypeError("not a time zone")
    names = ("hour", "minute", "second", "microsecond")
    if not fields.keys() <= set(names):
        raise TypeError("not the fields of a time")
    hour, minute, second, microsecond, fold = _ints([*(fields.get(name, 0) for name in names), fold], 5)
    return dt.time(hour, minute, second, microsecond, zone, fold=fold)


def _pattern(value: Any) -> re.Pattern[Any]:
    pattern, flags = _items(value)
    if type(pattern) not in (str, bytes) or type(flags) is not int:
        raise TypeError("not a pattern and its flags")
    # DEBUG makes `compile` print.
    return re.compile(pattern, flags & ~re.DEBUG.value)


_WINDOWS = sys.platform == "win32"
_POSIX_PATH = pathlib.PurePosixPath if _WINDOWS else pathlib.PosixPath
_WINDOWS_PATH = pathlib.WindowsPath if _WINDOWS else pathlib.PureWindowsPath
# Python 3.13 has the classes in a module of their own.
_PATH_MODULES = ("pathlib", "pathlib._local")

SINGLE: Final[dict[tuple[str, str], Maker]] = {
    ("uuid", "UUID"): _uuid,
    ("decimal", "Decimal"): _decimal,
    ("builtins", "set"): lambda value: set(_members(value)),
    ("builtins", "frozenset"): lambda value: frozenset(_members(value)),
    ("collections", "deque"): lambda value: deque(_items(value)),
    ("zoneinfo", "ZoneInfo"): _zone,
    **{
        ("ipaddress", kind.__name__): _address(kind)
        for kind in (
            ipaddress.IPv4Address,
            ipaddress.IPv4Interface,
            ipaddress.IPv4Network,
            ipaddress.IPv6Address,
            ipaddress.IPv6Interface,
            ipaddress.IPv6Network,
        )
    },
}
"""By one argument."""

SEVERAL: Final[dict[tuple[str, str], Maker]] = {
    ("re", "compile"): _pattern,
    ("datetime", "timedelta"): lambda value: dt.timedelta(*_ints(value, 3)),
    ("datetime", "date"): lambda value: dt.date(*_ints(value, 3)),
    ("datetime", "timezone"): _timezone,
    **{(module, "Path"): _path(pathlib.Path) for module in _PATH_MODULES},
    **{(module, "PosixPath"): _path(_POSIX_PATH) for module in _PATH_MODULES},
    **{(module, "WindowsPath"): _path(_WINDOWS_PATH) for module in _PATH_MODULES},
    **{("pathlib", kind.__name__): _path(kind) for kind in (pathlib.PurePosixPath, pathlib.PureWindowsPath)},
}
"""By a list of arguments."""

FIELDS: Final[dict[tuple[str, str], Maker]] = {("datetime", "time"): _time}
"""By names."""

METHODS: Final[dict[tuple[str, str, str], Maker]] = {
    ("datetime", "datetime", "fromisoformat"): lambda value: dt.datetime.fromisoformat(_text(value)),
}
"""By a method of the class."""
