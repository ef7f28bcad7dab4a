"""What is dirty in a document: which values may change unnoticed, and what was written to a container.

A str stays what it is, so a container that holds one needs to be encoded again only when something is written to it. A
set may change at any time without the container noticing. And a few kinds of value are encoded faithfully only by
asking about each: in bulk, a subclass of str would become a str, and a bytearray bytes.

And what was written to a container since it was encoded last: where, not what it held before. Outside of what is noted,
items are the same and in the same order. Notes may say too much, never too little: an operation that fails half-way
leaves a note of something that did not happen.
"""

from __future__ import annotations

import datetime as dt
import pathlib
import sys
from collections.abc import Iterable
from enum import Enum
from itertools import islice
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


class ListWrites:
    """What was written to a list: so many items at its beginning and at its end are the same as before."""

    __slots__ = ("children", "length", "prefix", "suffix")

    def __init__(self, length: int) -> None:
        self.length = self.prefix = self.suffix = length
        self.children: dict[int, Any] = {}
        """The containers in it that were written to themselves, by id; they are held, so that the id stays theirs."""

    def splice(self, start: int, stop: int, length: int) -> None:
        """Items `start` to `stop` of the `length` that there are now are to be replaced by others."""
        self.prefix = min(self.prefix, start)
        self.suffix = min(self.suffix, length - stop)

    def forget(self) -> None:
        """Anything may have changed."""
        self.prefix = self.suffix = 0

    def ends(self, now: list[Any]) -> tuple[int, int]:
        """How many items are the same at the beginning, and how many behind those at the end."""
        prefix = min(self.prefix, len(now), self.length)
        return prefix, min(self.suffix, len(now) - prefix, self.length - prefix)

    def then(self, later: ListWrites) -> ListWrites:
        """These, and those of `later`, which began where these ended, as one."""
        both = ListWrites(self.length)
        both.children = {**self.children, **later.children}
        both.prefix, both.suffix = min(self.prefix, later.prefix), min(self.suffix, later.suffix)
        return both


class DictWrites:
    """What was written to a dict. New keys need no note: they stand behind all that were there before."""

    __slots__ = ("children", "gone", "length", "order", "touched", "unsure")

    def __init__(self, length: int) -> None:
        self.length = length
        """How many pairs there were before."""
        self.children: dict[int, Any] = {}
        """As in a list."""
        self.unsure = False
        self.touched: set[Any] = set()
        """Keys whose value is another; keys that are new may be among them."""
        self.gone: set[Any] = set()
        """Keys that went; one that came back stands at the end now. New ones may be among them."""
        self.order: list[Any] | None = None
        """All keys as they were when the first one went."""

    def remove(self, keys: Iterable[Any], now: dict[Any, Any]) -> None:
        """These keys of the dict as it is `now` are to go."""
        if self.order is None:
            # Nothing has gone so far, so the old keys are still in front, in their order.
            self.order = list(now)
        self.gone.update(keys)

    def forget(self) -> None:
        """Anything may have changed."""
        self.unsure = True

    def before(self) -> list[Any]:
        """The old keys in their order, where one has gone."""
        return (self.order or [])[: self.length]

    def prefix(self, now: dict[Any, Any]) -> int:
        """How many pairs at the beginning have the same keys as before."""
        if self.unsure:
            return 0
        if self.order is None:
            return self.length if self.length <= len(now) else 0
        first = next((at for at, key in enumerate(self.before()) if key in self.gone), self.length)
        return first if list(islice(now, first)) == self.before()[:first] else 0

    def kept(self, now: dict[Any, Any]) -> int | None:
        """How many old keys stand in front, in their order; None where that is not known."""
        kept = [key for key in self.before() if key not in self.gone] if self.order is not None else None
        count = self.length if kept is None else len(kept)
        if self.unsure or count > len(now) or (kept is not None and kept != list(islice(now, count))):
            return None
        return count

    def then(self, later: DictWrites) -> DictWrites:
        """These, and those of `later`, which began where these ended, as one."""
        both = DictWrites(self.length)
        both.children = {**self.children, **later.children}
        both.unsure = self.unsure or later.unsure
        both.touched, both.gone = self.touched | later.touched, self.gone | later.gone
        both.order = self.order if self.order is not None else later.order
        return both
