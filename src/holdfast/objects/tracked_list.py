"""The list of a document: every method that changes it notes what it changes, then does it.

A slice is often assigned what mostly was there before (`messages[:] = messages[-40:]`). Items that are the same objects
at both ends of it did not change, and containers that only changed places within it keep their identity.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress, count, repeat
from operator import index, is_, is_not
from typing import Any, Self, SupportsIndex

from holdfast.objects.tracked import Tracked, start
from holdfast.objects.trust import PLAIN, is_same
from holdfast.objects.writes import MAX_HOLES, ListWrites


class TrackedList(Tracked, list[Any]):
    """A list that has its place in a document."""

    __slots__ = ("_hint", "_marks", "_node", "_place", "_writes")

    _plain = list

    def __new__(cls, *_args: Any) -> Self:  # noqa: D102
        self = super().__new__(cls)
        start(self)
        return self

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self[:] = items

    def _new_writes(self) -> ListWrites:
        return ListWrites(len(self))

    def _places(self) -> Iterable[tuple[Any, Any]]:
        return enumerate(self)

    def _put(self, place: Any, value: Any) -> None:
        list.__setitem__(self, place, value)

    def append(self, item: Any) -> None:
        """Add an item at the end."""
        end = len(self)
        made = item if type(item) in PLAIN else self._taken_in(item, end)
        self._wrote().splice(end, end, 1)
        list.append(self, made)

    def extend(self, items: Iterable[Any]) -> None:
        """Add items at the end: all of them, or none where one is refused or the iterator fails."""
        end = len(self)
        self._replace(end, end, list(items))

    def insert(self, place: SupportsIndex, item: Any) -> None:
        """Add an item before a position."""
        at, _, _ = slice(index(place), None).indices(len(self))
        self._replace(at, at, [item])

    def __setitem__(self, place: Any, value: Any) -> None:
        if not isinstance(place, slice):
            self._set(index(place), value)
            return
        start_, stop, step = place.indices(len(self))
        items = list(value)
        if step == 1:
            self._replace(start_, max(start_, stop), items)
        else:
            self._replace_each(place, range(start_, stop, step), items)

    def _set(self, place: int, value: Any) -> None:
        old = list.__getitem__(self, place)
        if is_same(old, value):
            return
        at = place % len(self)
        made = value if type(value) in PLAIN else self._taken_in(value, at)
        self._wrote().touch(at)
        list.__setitem__(self, at, made)
        self._let_go(old)

    def _replace(self, start_: int, stop: int, items: list[Any]) -> None:
        """Put items in the place of those from `start_` to `stop`."""
        old = list.__getitem__(self, slice(start_, stop))
        head, tail = _common_ends(old, items)
        start_, stop = start_ + head, stop - tail
        old, items = old[head : len(old) - tail], items[head : len(items) - tail]
        if not old and not items:
            return
        made, leaving = self._rearranged(old, items, count(start_))
        self._wrote().splice(start_, stop, len(made))
        list.__setitem__(self, slice(start_, stop), made)
        for item in leaving:
            self._let_go(item)

    def _replace_each(self, place: slice, positions: range, items: list[Any]) -> None:
        """Put items in the place of those at some positions, one by one."""
        if len(items) != len(positions):
            raise ValueError(
                f"attempt to assign sequence of size {len(items)} to extended slice of size {len(positions)}"
            )
        made, leaving = self._rearranged(list.__getitem__(self, place), items, positions)
        for position in positions:
            self._wrote().touch(position)
        list.__setitem__(self, place, made)
        for item in leaving:
            self._let_go(item)

    def _rearranged(
        self, old: list[Any], items: list[Any], hints: Iterable[int]
    ) -> tuple[list[Any], Iterable[Any]]:
        """Return what to store for items that come into the place of old ones, and which of those are left over."""
        leaving = {id(item): item for item in old if isinstance(item, Tracked)}
        staying = [leaving.pop(id(item), None) for item in items] if leaving else [None] * len(items)
        others = [None if stays is not None else item for stays, item in zip(staying, items, strict=True)]
        made = self._all_taken_in(others, hints)
        return [
            each if stays is None else stays for stays, each in zip(staying, made, strict=True)
        ], leaving.values()

    def __delitem__(self, place: Any) -> None:
        if not isinstance(place, slice):
            self.pop(place)
            return
        positions = range(*place.indices(len(self)))
        if not positions:
            return
        writes = self._wrote()
        old = list.__getitem__(self, place)
        first, last = min(positions), max(positions)
        if positions.step in (1, -1) or len(positions) > MAX_HOLES:
            writes.splice(first, last + 1, last + 1 - first - len(positions))
        else:
            # From the right, so that the positions of those that are still to go stay what they are.
            for position in sorted(positions, reverse=True):
                writes.splice(position, position + 1, 0)
        list.__delitem__(self, place)
        for item in old:
            self._let_go(item)

    def pop(self, place: SupportsIndex = -1, /) -> Any:
        """Remove and return an item, the last one by default."""
        at = index(place)
        item = list.__getitem__(self, at) if self else list.pop(self)
        at %= len(self)
        self._wrote().splice(at, at + 1, 0)
        list.__delitem__(self, at)
        self._let_go(item)
        return item

    def remove(self, item: Any) -> None:
        """Remove the first item that equals this one."""
        del self[self.index(item)]

    def clear(self) -> None:
        """Remove everything."""
        del self[:]

    def __iadd__(self, items: Iterable[Any]) -> Self:  # type: ignore[misc]
        self.extend(items)
        return self

    def __imul__(self, times: SupportsIndex) -> Self:
        number = index(times)
        if number < 1:
            self.clear()
        else:
            self.extend(list(self) * (number - 1))
        return self

    def sort(self, *, key: Any = None, reverse: bool = False) -> None:
        """Sort in place. Where `key` or a comparison fails, the items are all there, in some order."""
        before = list(self)
        writes = self._wrote()
        # While it runs, and if it fails, items may be anywhere.
        writes.unsure, was = True, writes.unsure
        list.sort(self, key=key, reverse=reverse)
        head, tail = _common_ends(before, self)
        end = len(self) - tail
        if end > head:
            writes.splice(head, end, end - head)
        writes.unsure = was

    def reverse(self) -> None:
        """Turn the order around."""
        self._wrote().splice(0, len(self), len(self))
        list.reverse(self)


def _common_ends(old: list[Any], new: list[Any]) -> tuple[int, int]:
    """How many objects are the same at the beginning of both, and how many at the end."""
    shorter = min(len(old), len(new))
    head = next(compress(count(), map(is_not, old, new)), shorter)
    tail = next(compress(count(), map(is_not, reversed(old), reversed(new))), shorter)
    return head, min(tail, shorter - head)


def positions(items: TrackedList, children: Iterable[Tracked]) -> list[int]:
    """Where these are among the items; those that are not are left out.

    A container remembers a position it once had, and rarely moved far from it.
    """
    found, missing = [], []
    for child in children:
        if child._place is items:
            at = _near(items, child)
            if at is None:
                missing.append(child)
            else:
                child._hint = at
                found.append(at)
    if missing:
        wanted = {id(child): child for child in missing}
        for at, item in enumerate(items):
            if id(item) in wanted:
                item._hint = at
                found.append(at)
    return found


def _near(items: TrackedList, child: Tracked) -> int | None:
    hint: int = child._hint
    for reach in (0, 64, 1024):
        first = max(hint - reach, 0)
        window = items[first : hint + reach + 1]
        at = next(compress(count(first), map(is_, window, repeat(child))), None)
        if at is not None:
            return at
    return None
