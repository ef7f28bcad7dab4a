"""Which values a tracked container may hold without looking at them again.

A str stays what it is, so a container that holds one needs to be encoded again only when something is written to it. A
set may change at any time without the container noticing. And a few kinds of value are encoded faithfully only by
asking about each: in bulk, a subclass of str would become a str, and a bytearray bytes.
"""

from __future__ import annotations

import datetime as dt
import pathlib
import sys
from enum import Enum
from types import EllipsisType
from typing import Any, Final

VOLATILE: Final = 1
"""There is something in it that may change unnoticed: it is encoded again for each save."""
EXACT: Final = 2
"""There is something in it that must not be encoded in bulk."""

PLAIN: Final = frozenset((type(None), bool, int, float, str, bytes))
"""Scalars that never change, and that encoding in bulk does right."""

# Equal values of these types are the same value; of floats there are two zeros and many NaN.
_COMPARED: Final = PLAIN - {float}

_ZONES: Final = frozenset((type(None), dt.timezone))
_UNCHANGING: Final = frozenset(
    (
        *PLAIN,
        complex,
        EllipsisType,
        range,
        dt.date,
        dt.timedelta,
        dt.timezone,
        pathlib.PurePosixPath,
        pathlib.PureWindowsPath,
        pathlib.PosixPath,
        pathlib.WindowsPath,
    )
)
# Not imported here, because importing them takes time: who has a value of one has imported its module.
_UNCHANGING_LATE: Final = frozenset(
    (
        ("decimal", "Decimal"),
        ("fractions", "Fraction"),
        ("uuid", "UUID"),
        ("zoneinfo", "ZoneInfo"),
        *(
            ("ipaddress", f"IPv{version}{kind}")
            for version in "46"
            for kind in ("Address", "Network", "Interface")
        ),
    )
)
_NESTING: Final = 16
"""Tuples in tuples; deeper ones are not looked through, and count as volatile."""


def is_same(old: Any, new: Any) -> bool:
    """Whether writing one over the other changes nothing."""
    return old is new or (type(old) is type(new) and type(new) in _COMPARED and bool(old == new))


def marks_of(value: Any) -> int:
    """The marks of a container that holds this value, which is neither a dict nor a list."""
    kind = type(value)
    if kind in PLAIN or _never_changes(value, _NESTING):
        return 0
    if isinstance(value, Enum):
        # There is one of each member. One that is a str or an int too is not to be taken for that.
        return EXACT if isinstance(value, str | int) else 0
    return VOLATILE if kind in (tuple, frozenset, set, dt.datetime, dt.time) else VOLATILE | EXACT


def _never_changes(value: Any, depth: int) -> bool:
    kind = type(value)
    if kind in _UNCHANGING:
        return True
    if kind is dt.datetime or kind is dt.time:
        # A time zone may be of a class of the application.
        zone = type(value.tzinfo)
        return zone in _ZONES or _is_late(zone)
    if kind is tuple or kind is frozenset:
        return depth > 0 and all(_never_changes(each, depth - 1) for each in value)
    return _is_late(kind)


def _is_late(kind: type) -> bool:
    name = (kind.__module__, kind.__qualname__)
    # A class may claim any name; only the one its module has under that name is meant.
    return name in _UNCHANGING_LATE and getattr(sys.modules.get(name[0]), name[1], None) is kind
