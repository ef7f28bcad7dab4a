"""Paths that stand for conflicts: `beliefs.*`, `messages[*].content`, `messages[3:5]`, `notes['to do']`.

A pattern stands for what is at its path and for all that lies in it. `*` is any one step, a slice is each item in it
and each stretch that lies in it. A pattern with a `*` may well fit nothing; a plain path names something, and whether
there is such a thing can be looked up. Positions count from the beginning: from the end, each side has its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.objects.codec.decode import decode_value
from holdfast.objects.codec.paths import QUOTED
from holdfast.objects.codec.registry import TypeRegistry
from holdfast.objects.diffing.change import PathStep, path_text
from holdfast.objects.diffing.encoded import DICT, LIST, PAIRS, RECORD, Opened, Value
from holdfast.objects.merging.opening import Opening
from holdfast.record import Record

_STEP: Final = re.compile(
    rf"""
      (?P<dot>\.)? (?P<name>[^.\[\]{{}}'"]+)
    | {QUOTED}
    | \[ (?P<index>\*|-?\d{{1,18}}) \]
    | \[ (?P<slice>(?P<start>-?\d{{1,18}})? : (?P<stop>-?\d{{1,18}})?) \]
    | (?P<other>\{{ .*? \}}) (?=[.\[{{]|$)
    """,
    re.VERBOSE | re.DOTALL,
)
_ANY: Final = "*"
_NO_TYPES: Final = TypeRegistry()


class Slice(Record):
    """Several places of a list that are next to each other."""

    start: int
    stop: float
    """Infinite where it goes on to the end."""

    def covers(self, other: Slice) -> bool:
        """Whether all of the other one lies in it.

        A stretch with nothing in it stands before the item of its number, and belongs to who has that item: `[1:1]` is
        in `[1:2]`, and not in `[0:1]`, which ends where it is.
        """
        if other.start < other.stop:
            return self.start <= other.start and other.stop <= self.stop
        return self.start <= other.start < self.stop or self == other

    def is_end_of(self, opened: Opened) -> bool:
        """Whether it is the place behind the last item: where something would stand."""
        end = len(opened.values)
        return opened.shape == LIST and self.start == end and self.stop in (end, float("inf"))

    def meets(self, other: Slice) -> bool:
        """Whether both have a place in common."""
        return max(self.start, other.start) < min(self.stop, other.stop)


Name = str | Slice
"""A step of a pattern: as a path of one step is written, `*`, or a slice."""


class Pattern(Record):
    """A path to decide on."""

    text: str
    names: tuple[Name, ...]

    @property
    def is_plain(self) -> bool:
        """Whether it names one thing: neither the whole state, nor whatever fits."""
        return bool(self.names) and _ANY not in self.names

    def fits(self, steps: Sequence[PathStep]) -> bool:
        """Whether something is there, or lies in it."""
        return len(self.names) <= len(steps) and all(map(_fits, self.names, steps))

    def is_part_of(self, steps: Sequence[PathStep]) -> bool:
        """Whether it names some of a stretch that is there, or something in it, and not all of the stretch."""
        number = len(steps) - 1
        if number < 0 or not isinstance(steps[-1].key, str) or len(self.names) <= number or self.fits(steps):
            return False
        stretch, named = _slice_of(steps[-1]), _places(self.names[number])
        around = all(map(_fits, self.names[:number], steps[:-1]))
        return around and stretch is not None and named is not None and named.meets(stretch)


def _fits(wanted: Name, step: PathStep) -> bool:
    if isinstance(wanted, Slice):
        there = _slice_of(step)
        return there is not None and wanted.covers(there)
    return wanted in (_ANY, _name(step))


def _slice_of(step: PathStep) -> Slice | None:
    """Where in a list a step leads: to one item, or to a stretch."""
    if step.kind != "index":
        return None
    if isinstance(step.key, int):
        return Slice(step.key, step.key + 1)
    start, _, stop = step.key.partition(":")
    return Slice(int(start), int(stop))


def _places(name: Name) -> Slice | None:
    """Which places of a list a name stands for, if it is about a list."""
    if isinstance(name, Slice):
        return name
    index = re.fullmatch(r"\[(\d+)\]", name)
    return None if index is None else Slice(int(index[1]), int(index[1]) + 1)


def parse(text: str) -> Pattern:
    """The pattern that was written.

    Raises:
        InvalidInputError: It is none, or counts from the end of a list (`bad-path`).
    """
    names: list[Name] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None or (match["name"] and bool(match["dot"]) == (position == 0)):
            raise _bad_path(
                f"{text!r:.100} is not a path",
                "write it like messages[3], beliefs.b7.confidence, messages[*].content or notes['to do']",
            )
        if "-" in (match["index"] or match["slice"] or ""):
            raise _bad_path(
                f"{text!r:.100} counts from the end of a list, which is not the same place on both sides",
                "name the place as the conflict does, counted from the beginning, or any item with [*]",
            )
        names.append(_named(match))
        position = match.end()
    return Pattern(text, tuple(names))


def _named(match: re.Match[str]) -> Name:
    if match["slice"]:
        return Slice(int(match["start"] or 0), int(match["stop"]) if match["stop"] else float("inf"))
    if match["index"]:
        return _ANY if match["index"] == _ANY else f"[{int(match['index'])}]"
    if match["quote"]:
        return _name(PathStep("key", match["text"]))
    if match["name"]:
        return _ANY if match["name"] == _ANY else _name(PathStep("key", match["name"]))
    return match["other"]


def _bad_path(why: str, hint: str) -> InvalidInputError:
    return InvalidInputError(why, code=ErrorCode.BAD_PATH, hint=hint)


def is_there(pattern: Pattern, values: Iterable[Value], opening: Opening) -> bool:
    """Whether one of these states has something at a plain path."""
    return any(_has(value, pattern.names, opening) for value in values)


def _has(value: Value, names: Sequence[Name], opening: Opening) -> bool:
    """Whether something is there; the way goes to every item that a slice names."""
    waiting = [(value, 0)]
    while waiting:
        here, number = waiting.pop()
        if number == len(names):
            return True
        (opened,) = opening.open([here])
        if opened is None:
            continue
        name = names[number]
        if isinstance(name, Slice) and name.is_end_of(opened) and number == len(names) - 1:
            return True
        waiting += [(part, number + 1) for step, part in _parts(opened) if _fits(name, step)]
    return False


def _parts(opened: Opened) -> Iterator[tuple[PathStep, Any]]:
    if opened.shape == LIST:
        return ((PathStep("index", at), value) for at, value in enumerate(opened.values))
    pairs = zip(opened.keys, opened.values, strict=False)
    if opened.shape == PAIRS:
        return ((PathStep("key", decode_value(key, _NO_TYPES)), value) for key, value in pairs)
    if opened.shape in (DICT, RECORD):
        return ((PathStep("key", key), value) for key, value in pairs)
    return iter(())


def _name(step: PathStep) -> str:
    return path_text([step])
