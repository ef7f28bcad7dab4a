"""Who changed what is at a path: `blame` for the newest change, `history_of` for all of them.

Both look for neighbours with different values. Exactly, that takes a look into every state with a root of its own. The
other way is to leap: 1, 2, 4, 8 ... steps, as long as the value is the same, and then to halve the last leap. That
finds a change for certain, in a number of looks that grows with the logarithm of the distance; but a value that went
away and came back between two looks is passed over. Each answer says whether that can be.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.errors import ErrorCode, InvalidInputError, NotFoundError
from holdfast.history.checkpoint import Checkpoint
from holdfast.objects.diffing.encoded import Value
from holdfast.objects.registry import TypeRegistry
from holdfast.objects.selection import missing, parse_path, select_part
from holdfast.store.place import Place
from holdfast.store.searching.line import Line, Stop
from holdfast.store.searching.parts import Parts
from holdfast.store.searching.reports import Blame, ChangeOp, PathChange

_MOST_AT_ONCE: Final = 64
"""States that are looked into in one view, where each of them has to be."""


def blame(
    place: Place, types: TypeRegistry, path: str, ref: str | Checkpoint = "@", *, exact: bool = False
) -> Blame:
    """The newest change of what is at a path; see `Session.blame`."""
    parts = Parts(Line(place, ref, ranges=False), parse_path(_checked(path)), types)
    places = _Places(parts, oldest_first=False)
    at = places.change_after(0, exact=exact)
    if at is None:
        raise _nowhere(parts, path, types, exact=exact)
    change = places.change(at, path)
    certain = all(parts.knows(stop) for step in range(at + 1) if (stop := parts.line.at(step)) is not None)
    return Blame(*change, certain=exact or certain, loads=parts.loads)


def history_of(
    place: Place,
    types: TypeRegistry,
    path: str,
    ref: str | Checkpoint = "@",
    *,
    oldest_first: bool = False,
    exact: bool = True,
) -> Iterator[PathChange]:
    """Every change of what is at a path; see `Session.history_of`. What is wrong with the call is raised at once."""
    parts = Parts(Line(place, ref), parse_path(_checked(path)), types)
    return _changes(parts, path, types, oldest_first=oldest_first, exact=exact)


def _changes(
    parts: Parts, path: str, types: TypeRegistry, *, oldest_first: bool, exact: bool
) -> Iterator[PathChange]:
    places = _Places(parts, oldest_first=oldest_first)
    at = places.change_after(0, exact=exact)
    if at is None and not parts.seen:
        raise _nowhere(parts, path, types, exact=exact)
    while at is not None:
        yield places.change(at, path)
        at = places.change_after(at + 1, exact=exact)


class _Places:
    """The values along a line, in the order in which they are asked for; the place behind the oldest is one, too."""

    def __init__(self, parts: Parts, *, oldest_first: bool) -> None:
        self._parts = parts
        self._line = parts.line
        # Only the other way round needs to know how long the line is.
        self._last = parts.line.count() if oldest_first else None
        self._at_once = 1

    def change(self, place: int, path: str) -> PathChange:
        """The change between a place and the next one."""
        newer, older = sorted((self._position(place), self._position(place + 1)))
        stop, before = self._line.at(newer), self._line.at(older)
        assert stop is not None
        value, old = self._parts.value(newer), self._parts.value(older)
        op: ChangeOp = "add" if old is None else "remove" if value is None else "replace"
        return PathChange(
            checkpoint=self._line.checkpoint(stop),
            op=op,
            path=path,
            value=self._parts.decoded(value, stop),
            old=self._parts.decoded(old, before),
            before=None if before is None else self._line.checkpoint(before),
        )

    def change_after(self, place: int, *, exact: bool) -> int | None:
        """The first place from `place` on whose value is not that of the next one; None where there is none."""
        return self._each(place) if exact else self._leap(place)

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

    def _value(self, place: int) -> Value | None:
        return self._parts.value(self._position(place))

    def _equal(self, one: int, other: int) -> bool:
        left, right = (self._line.at(self._position(place)) for place in (one, other))
        if left is not None and right is not None and left.root == right.root:
            return True
        return self._parts.equal(self._value(one), self._value(other))

    def _read_ahead(self, place: int) -> None:
        """Look into the next states together: few at first, for those who want only the newest change."""
        following = self._stop(place + 1)
        if following is None or self._parts.knows(following):
            return
        ahead = (self._stop(place + step) for step in range(self._at_once + 1) if self._there(place + step))
        self._parts.learn([stop for stop in ahead if stop is not None])
        self._at_once = min(self._at_once * 2, _MOST_AT_ONCE)

    def _stop(self, place: int) -> Stop | None:
        return self._line.at(self._position(place))


def _checked(path: object) -> str:
    if not isinstance(path, str) or not path:
        raise InvalidInputError(
            f"{path!r:.100} is not a path",
            code=ErrorCode.BAD_PATH,
            hint="write it like score, messages[-1].role or notes['to do'][0]",
        )
    return path


def _nowhere(parts: Parts, path: str, types: TypeRegistry, *, exact: bool) -> NotFoundError:
    """The error for a path that leads nowhere in any state that was looked at: it says what the newest has instead."""
    newest = parts.line.at(0)
    if newest is None:
        return NotFoundError(
            "there is no checkpoint in that range",
            code=ErrorCode.CHECKPOINT_MISSING,
            hint="s.log() (holdfast list) shows the history",
        )
    steps = parse_path(path)
    error = missing(steps, len(steps) - 1, "no state has it")
    try:
        parts.line.view(lambda reader: select_part(newest.root, path, reader.chunks, types))
    except NotFoundError as found:
        error = found
    where = "in any state of the history" if exact else "in the newest state, nor in the older ones looked at"
    error.args = (f"{error} (it is not {where})", *error.args[1:])
    if not exact:
        error.hint = f"{error.hint}; exact=True looks into every state"
    return error
