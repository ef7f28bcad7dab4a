"""The values along a line, place by place, and where neighbours differ.

Exactly, that takes a look into every state with a root of its own. The other way is to leap: 1, 2, 4, 8 ... steps, as
long as the value is the same, and then to halve the last leap. That finds a change for certain, in a number of looks
that grows with the logarithm of the distance; but a value that went away and came back in between is passed over.

A state that cannot be read counts as if it had what the next older one has that can be. So a change is always told of a
checkpoint whose state was seen, with the ones right before it that may have made it instead.
"""

from __future__ import annotations

from typing import Final

from holdfast.reports.search import ChangeOp, PathChange
from holdfast.store.searching.findings import OF_ONE_STATE
from holdfast.store.searching.line import Line, Stop
from holdfast.store.searching.parts import Parts

_MOST_AT_ONCE: Final = 64
"""States that are looked into in one view, where each of them has to be."""


class Places:
    """The values along a line, in the order in which they are asked for; the place behind the oldest is one, too."""

    def __init__(self, parts: Parts, line: Line, *, oldest_first: bool = False) -> None:
        self._parts = parts
        self._line = line
        # Only the other way round needs to know how long the line is.
        self._last = line.count() if oldest_first else None
        self._at_once = 1
        self._older: dict[int, int] = {}

    def newest(self) -> Stop | None:
        """The newest checkpoint whose state can be read; None where there is none."""
        return self._line.at(self._readable(0))

    def next_change(self, start: int, path: str, *, exact: bool) -> tuple[int, PathChange] | None:
        """The first change from a place on: its place, and what it is. None where there is none."""
        while True:
            at = self._each(start) if exact else self._leap(start)
            if at is None:
                return None
            change = self._change(at, path)
            # Where a value turned out to be damaged on the way out, its state counts as such, and we look again.
            if change is not None:
                return at, change

    def certain(self, at: int, *, exact: bool) -> bool:
        """Whether no change can have been passed over between the newest and the one at a place."""
        stops = [self._line.at(position) for position in range(self._readable(at + 1))]
        for stop in stops:
            if stop is not None and self._parts.gave_up(stop):
                return False
        return exact or all(self._parts.knows(stop) for stop in stops[: at + 1] if stop is not None)

    def _change(self, place: int, path: str) -> PathChange | None:
        """The change between a place and the next one; None where it cannot be read after all."""
        newer, older = sorted((self._position(place), self._position(place + 1)))
        before_at = self._readable(older)
        stop, before = self._line.at(newer), self._line.at(before_at)
        assert stop is not None
        there, was_there = self._parts.value(stop) is not None, self._parts.value(before) is not None
        op: ChangeOp = "replace" if there and was_there else "add" if there else "remove"
        decoded = []
        for each in (stop, before):
            try:
                decoded.append(self._parts.decoded(each))
            except OF_ONE_STATE as error:
                assert each is not None
                self._parts.give_up(each, error)
                self._older.clear()
                return None
        passed = (self._line.at(position) for position in range(older, before_at))
        return PathChange(
            checkpoint=self._line.checkpoint(stop),
            op=op,
            path=path,
            value=decoded[0],
            old=decoded[1],
            before=None if before is None else self._line.checkpoint(before),
            skipped=tuple(self._line.checkpoint(each) for each in passed if each is not None),
        )

    def _each(self, place: int) -> int | None:
        while self._there(place + 1):
            self._read_ahead(place)
            if not self._equal(place, place + 1):
                return place
            place += 1
        return None

    def _leap(self, place: int) -> int | None:
        equal, step = place, 1
        while True:
            differs = self._no_further(place + step)
            if differs <= equal:
                return None
            if not self._equal(place, differs):
                break
            equal, step = differs, step * 2
        while differs - equal > 1:
            middle = (equal + differs) // 2
            if self._equal(place, middle):
                equal = middle
            else:
                differs = middle
        return equal

    def _no_further(self, place: int) -> int:
        """The place, or the last one if that is nearer."""
        if self._there(place):
            return place
        return self._line.count() if self._last is None else self._last

    def _there(self, place: int) -> bool:
        """Whether there is such a place: each stop of the line, and the one behind the oldest."""
        if self._last is not None:
            return place <= self._last
        return place == 0 or self._line.has(place - 1)

    def _position(self, place: int) -> int:
        return place if self._last is None else self._last - place

    def _readable(self, position: int) -> int:
        """The position, or the next older one whose state can be read; behind the oldest there is nothing to read."""
        passed = []
        while (stop := self._line.at(position)) is not None and self._parts.damaged(stop):
            passed.append(position)
            position = self._older.get(position, position + 1)
        # Long stretches of damage are gone through once.
        self._older.update(dict.fromkeys(passed, position))
        return position

    def _equal(self, one: int, other: int) -> bool:
        while True:
            left, right = (self._readable(self._position(place)) for place in (one, other))
            if left == right:
                return True
            first, second = self._line.at(left), self._line.at(right)
            if first is not None and second is not None and first.root == second.root:
                return True
            found = self._parts.equal(first, second)
            if found is not None:
                return found
            self._older.clear()

    def _read_ahead(self, place: int) -> None:
        """Look into the next states together: few at first, for those who want only the newest change."""
        following = self._stop(place + 1)
        if following is None or self._parts.knows(following) or self._parts.gave_up(following):
            return
        ahead = (self._stop(place + step) for step in range(self._at_once + 1) if self._there(place + step))
        self._parts.learn([stop for stop in ahead if stop is not None])
        self._at_once = min(self._at_once * 2, _MOST_AT_ONCE)

    def _stop(self, place: int) -> Stop | None:
        return self._line.at(self._position(place))
