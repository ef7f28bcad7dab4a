"""Paths that stand for conflicts: `beliefs.*`, `messages[*].content`, `notes['to do']`.

A pattern stands for what is at its path and for all that lies in it. `*` is any one step. A pattern with a `*` may well
fit nothing; a plain path names something, and whether there is such a thing can be looked up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.objects.codec import decode_value
from holdfast.objects.diffing.change import PathStep, path_text
from holdfast.objects.diffing.encoded import DICT, LIST, PAIRS, RECORD, Opened, Value
from holdfast.objects.merging.opening import Opening
from holdfast.objects.registry import TypeRegistry
from holdfast.objects.spelling import QUOTED
from holdfast.record import Record

_STEP: Final = re.compile(
    rf"""
      (?P<dot>\.)? (?P<name>[^.\[\]{{}}'"]+)
    | {QUOTED}
    | \[ (?P<index>[^\[\]'"]*) \]
    | (?P<other>\{{ .*? \}}) (?=[.\[{{]|$)
    """,
    re.VERBOSE | re.DOTALL,
)
_STRETCH: Final = re.compile(r"\[(\d+):(\d+)\]")
_ITEM: Final = re.compile(r"\[(\d+)\]")
_ANY: Final = "*"
_NO_TYPES: Final = TypeRegistry()


class Pattern(Record):
    """A path to decide on."""

    text: str
    names: tuple[str, ...]
    """Its steps, each as a path of one step is written."""

    @property
    def is_plain(self) -> bool:
        """Whether it names one thing: neither the whole state, nor whatever fits."""
        return bool(self.names) and _ANY not in self.names

    def fits(self, steps: Sequence[PathStep]) -> bool:
        """Whether something is there, or lies in it."""
        return len(self.names) <= len(steps) and all(
            wanted in (_ANY, _name(step)) for wanted, step in zip(self.names, steps, strict=False)
        )

    def is_in_stretch(self, steps: Sequence[PathStep]) -> bool:
        """Whether it names an item, or something in it, of a stretch that is there."""
        stretch = _STRETCH.fullmatch(_name(steps[-1])) if steps else None
        number = len(steps) - 1
        if stretch is None or len(self.names) <= number:
            return False
        item = _ITEM.fullmatch(self.names[number])
        around = self.names[:number] == tuple(map(_name, steps[:-1]))
        return around and item is not None and int(stretch[1]) <= int(item[1]) < int(stretch[2])


def parse(text: str) -> Pattern:
    """The pattern that was written.

    Raises:
        InvalidInputError: It is none (`bad-path`).
    """
    names: list[str] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None or (match["name"] and bool(match["dot"]) == (position == 0)):
            raise InvalidInputError(
                f"{text!r:.100} is not a path",
                code=ErrorCode.BAD_PATH,
                hint="write it like messages[3], beliefs.b7.confidence, messages[*].content or notes['to do']",
            )
        if match["name"] == _ANY or match["index"] == _ANY:
            names.append(_ANY)
        elif match["quote"] or match["name"]:
            names.append(_name(PathStep("key", match["text"] if match["quote"] else match["name"])))
        elif match["index"] is not None:
            names.append(f"[{match['index']}]")
        else:
            names.append(match["other"])
        position = match.end()
    return Pattern(text, tuple(names))


def is_there(pattern: Pattern, values: Iterable[Value], opening: Opening) -> bool:
    """Whether one of these states has something at a plain path."""
    return any(_has(value, pattern.names, opening) for value in values)


def _has(value: Value, names: Sequence[str], opening: Opening) -> bool:
    for number, name in enumerate(names):
        (opened,) = opening.open([value])
        if opened is None:
            return False
        stretch = _STRETCH.fullmatch(name)
        if opened.shape == LIST and stretch is not None:
            # Nothing lies in a stretch as such.
            last = number == len(names) - 1
            return last and int(stretch[1]) <= int(stretch[2]) <= len(opened.values)
        found = next((part for step, part in _parts(opened) if _name(step) == name), None)
        if found is None:
            return False
        value = found
    return True


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
