"""Which values a tracked container may hold without looking at them again.

A str stays what it is, so a container that holds one needs to be encoded again only when something is written to it. A
set may change at any time without the container noticing. And a few kinds of value are encoded faithfully only by
asking about each: in bulk, a subclass of str would become a str, and a bytearray bytes.
"""

from __future__ import annotations

import datetime as dt
import pathlib
import sys
from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from itertools import compress, count, islice
from types import EllipsisType
from typing import Any, Final

from holdfast.record import Record

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


MAX_HOLES: Final = 64
"""So many places where items came or went are told apart; more are joined in pairs, and what lies between counts as
changed. Every operation looks at them one by one."""


class Edit(Record):
    """Items `old_start` to `old_stop` of the sequence before are `new_start` to `new_stop` of the sequence now."""

    old_start: int
    old_stop: int
    new_start: int
    new_stop: int


class Hole(Record):
    """Items `start` to `stop` before, in whose place there are `fresh` others now."""

    start: int
    stop: int
    fresh: int

    @property
    def growth(self) -> int:
        """By how much it moves the items after it."""
        return self.fresh - (self.stop - self.start)


class ListWrites:
    """What was written to a list."""

    __slots__ = ("_holes", "_shift", "children", "length", "touched", "unsure")

    def __init__(self, length: int) -> None:
        self.length = length
        """How many items there were before."""
        self.children: dict[int, Any] = {}
        """The containers in it that were written to themselves, by id; they are held, so that the id stays theirs."""
        self.unsure = False
        """Whether anything may have changed."""
        self.touched: set[int] = set()
        """The old positions of items in whose place there is another."""
        self._holes: list[Hole] = []
        self._shift = 0

    def touch(self, position: int) -> None:
        """Item `position` is to be replaced by another."""
        old = self.before(position)
        if old is not None:
            self.touched.add(old)

    def before(self, position: int) -> int | None:
        """Where the item that is at `position` now was before; None where it is new."""
        shift = self._shift
        for hole in reversed(self._holes):
            after = hole.stop + shift
            if position >= after:
                break
            if position >= after - hole.fresh:
                return None
            shift -= hole.growth
        return position - shift

    def splice(self, start: int, stop: int, fresh: int) -> None:
        """Items `start` to `stop`, as they are now, are to be replaced by `fresh` others."""
        holes = self._holes
        right, shift = len(holes), self._shift
        while right and holes[right - 1].stop + shift - holes[right - 1].fresh > stop:
            right -= 1
            shift -= holes[right].growth
        # The holes from `left` to `right` are touched, and become one with this.
        left, old_start, old_stop = right, start - shift, stop - shift
        begin, end = start, stop
        while left and holes[left - 1].stop + shift >= start:
            left -= 1
            hole = holes[left]
            if left == right - 1 and hole.stop + shift >= stop:
                end, old_stop = hole.stop + shift, hole.stop
            shift -= hole.growth
            begin = min(start, hole.start + shift)
            old_start = begin - shift
        joined = Hole(old_start, old_stop, end - begin - (stop - start) + fresh)
        # First, so that the lengths do not add up if Ctrl-C comes in between.
        self._shift += fresh - (stop - start)
        # What came and went again leaves nothing.
        holes[left:right] = [joined] if joined.fresh or joined.start != joined.stop else []
        if len(holes) > MAX_HOLES:
            self._join_pairs()

    def _join_pairs(self) -> None:
        pairs = zip(self._holes[::2], self._holes[1::2], strict=False)
        joined = [Hole(a.start, b.stop, a.fresh + b.start - a.stop + b.fresh) for a, b in pairs]
        self._holes = joined if len(self._holes) % 2 == 0 else [*joined, self._holes[-1]]

    def then(self, later: ListWrites) -> ListWrites:
        """These, and those of `later`, which began where these ended, as one."""
        both = ListWrites(self.length)
        both.children = {**self.children, **later.children}
        both.unsure = self.unsure or later.unsure or self.length + self._shift != later.length
        both._holes, both.touched, both._shift = list(self._holes), set(self.touched), self._shift
        for position in later.touched:
            both.touch(position)
        # From the right, so that the positions of those that are still to come stay what they are.
        for hole in reversed(later._holes):
            both.splice(hole.start, hole.stop, hole.fresh)
        return both

    def edits(self, length: int, more: Iterable[int] = ()) -> list[Edit] | None:
        """The edits that lead to a list of `length` items; `more` old positions count as touched. None: all of it."""
        if self.unsure or self.length + self._shift != length:
            return None
        return list(_merged(self._holes, sorted(self.touched.union(more))))


def _merged(holes: list[Hole], touched: list[int]) -> Iterator[Edit]:
    shift = at = 0
    for hole in [*holes, None]:
        while at < len(touched) and (hole is None or touched[at] < hole.start):
            old = touched[at]
            yield Edit(old, old + 1, old + shift, old + 1 + shift)
            at += 1
        if hole is not None:
            start = hole.start + shift
            yield Edit(hole.start, hole.stop, start, start + hole.fresh)
            shift += hole.growth
            while at < len(touched) and touched[at] < hole.stop:
                at += 1


class DictWrites:
    """What was written to a dict. New keys need no note: they stand behind all that were there before."""

    __slots__ = ("_gone", "_order", "children", "length", "touched", "unsure")

    def __init__(self, length: int) -> None:
        self.length = length
        """How many pairs there were before."""
        self.children: dict[int, Any] = {}
        """The containers in it that were written to themselves, by id; they are held, so that the id stays theirs."""
        self.unsure = False
        """Whether anything may have changed."""
        self.touched: set[Any] = set()
        """Keys whose value is another; keys that are new may be among them."""
        self._gone: set[Any] = set()
        self._order: list[Any] | None = None

    def touch(self, key: Any) -> None:
        """The value of `key` is to be replaced by another."""
        self.touched.add(key)

    def remove(self, keys: Collection[Any], now: dict[Any, Any]) -> None:
        """These keys of the dict as it is `now` are to go."""
        if self._order is None:
            # Nothing has gone so far, so the old keys are still in front, in their order.
            self._order = list(now)
        self._gone.update(keys)

    def then(self, later: DictWrites) -> DictWrites:
        """These, and those of `later`, which began where these ended, as one."""
        both = DictWrites(self.length)
        both.children = {**self.children, **later.children}
        both.unsure = self.unsure or later.unsure
        both.touched = self.touched | later.touched
        both._gone = self._gone | later._gone
        both._order = self._order if self._order is not None else later._order
        return both

    def gone(self) -> set[Any]:
        """The keys from before that have gone; one that came back stands at the end now."""
        return self._gone.intersection(islice(self._order or (), self.length))

    def edits(
        self, now: dict[Any, Any], more: Iterable[Any] = (), at: Iterable[int] = (), *, tail: int = 0
    ) -> list[Edit] | None:
        """The edits that lead to the dict as it is `now`. None: all of it.

        Args:
            now: The dict.
            more: Keys of it that count as touched.
            at: Old positions that count as touched.
            tail: So many of the old keys at the end are looked through first: where all that is wanted is among them,
                the others need not be.
        """
        touched = self.touched.union(more)
        gone = self.gone()
        kept = self.length - len(gone)
        if self.unsure or kept > len(now):
            return None
        if gone:
            order = list(islice(self._order or (), self.length))
            if [key for key in order if key not in gone] != list(islice(now, kept)):
                return None
            holes = [Hole(at, at + 1, 0) for at in compress(count(), map(gone.__contains__, order))]
            places = list(compress(count(), map((touched - gone).__contains__, order)))
        else:
            holes, places = [], self._places(now, touched, tail)
        if len(now) > kept:
            holes.append(Hole(self.length, self.length, len(now) - kept))
        return list(_merged(holes, sorted({*places, *at})))

    def _places(self, now: dict[Any, Any], touched: set[Any], tail: int) -> list[int]:
        """The old positions of those keys, where nothing has gone."""
        if not touched:
            return []
        last = list(islice(reversed(now), len(now) - self.length + tail))
        if touched.issubset(last):
            first, keys = len(now) - len(last), reversed(last)
        else:
            first, keys = 0, iter(now)
        return [at for at in compress(count(first), map(touched.__contains__, keys)) if at < self.length]
