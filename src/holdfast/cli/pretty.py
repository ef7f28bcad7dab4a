"""States and values as text: Python's own notation for people, tagged JSON for programs.

Containers that fit on a line stay on it. Types keep their marks: `(1,)`, `{1, 2}`, `deque([...])`, `datetime("...")`.
With limits, long texts, containers and deep branches are cut with a count of what is left out.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Any

from holdfast.cli.terminal import escape_controls, escape_json, text_width
from holdfast.record import Record
from holdfast.reports.text import integer_text, json_form, member_order, plain_text, type_name, zone_name
from holdfast.reports.text import tagged_json as plain_tagged_json

_MAX_MARGIN = 32
"""Levels that are indented further; beyond, the margin would be all there is to see."""


class Limits(Record):
    """How much of each part to show."""

    items: int = 24
    characters: int = 240
    depth: int = 7
    lines: int = 120


class _Block(Record):
    """A container: what opens and closes it, and its items, each with the text before it."""

    start: str
    end: str
    items: Iterable[tuple[str, Any]]
    length: int
    lone_comma: bool = False
    gap: str = ""
    """Between the start and the first item, where both are on one line."""
    comma: str = ","
    """After each item that has lines of its own."""


_SHORT = 28
"""Characters of an item up to which a row of them is written like text, not one to a line."""
_NOTHING = _Block("", "", (), 0)


class Notation:
    """Writes one value; `cut` says afterwards whether anything was left out."""

    def __init__(self, width: int = 100, limits: Limits | None = None, *, mark: str = "…") -> None:
        self.width = width
        self.limits = limits
        self.mark = mark
        self.cut = False

    def lines(self, value: Any) -> Iterator[str]:
        """The value, line by line."""
        limit = self.limits.lines if self.limits else None
        for number, line in enumerate(self._lines(value)):
            if limit is not None and number >= limit:
                self.cut = True
                yield self.mark
                return
            yield line

    def _lines(self, value: Any) -> Iterator[str]:
        # Values may lie thousands of levels deep: a stack of our own instead of recursion.
        stack: list[tuple[_Block, Iterator[tuple[str, Any]]]] = []
        step: tuple[str, Any] | None = ("", value)
        while step is not None or stack:
            if step is None:
                block, _ = stack.pop()
                if hidden := self._hidden(block):
                    yield f"{_margin(len(stack) + 1)}{self.mark} {hidden:,} more"
                yield _margin(len(stack)) + block.end + (stack[-1][0].comma if stack else "")
            else:
                head, suffix = _margin(len(stack)) + step[0], stack[-1][0].comma if stack else ""
                line = self._one_line(step[1], self.width - text_width(head) - len(suffix), len(stack))
                inner = self._block(step[1], len(stack)) if line is None else None
                if inner is None:
                    yield head + (self._scalar(step[1]) if line is None else line) + suffix
                else:
                    yield head + inner.start
                    filled = self._filled(step[1], len(stack) + 1)
                    yield from filled
                    stack.append((inner, iter(()) if filled else self._shown(inner)))
            step = next(stack[-1][1], None) if stack else None

    def _filled(self, value: Any, level: int) -> list[str]:
        """The items of a long row of short words or numbers, as many on a line as fit; nothing for other values."""
        items = list(self._shown(self._container(value) or _NOTHING))
        if any(before or self._container(item) is not None for before, item in items):
            return []
        texts = [self._scalar(item) + "," for _, item in items]
        if max(map(len, texts), default=_SHORT + 1) > _SHORT:
            return []
        lines = [_margin(level) + texts[0]]
        for text in texts[1:]:
            if text_width(lines[-1]) + 1 + text_width(text) <= self.width:
                lines[-1] += " " + text
            else:
                lines.append(_margin(level) + text)
        return lines

    def _one_line(self, value: Any, room: int, depth: int) -> str | None:
        """The value on one line, or None where it needs more room; no more is written than fits."""
        written: list[str] = []
        for piece in self._pieces(value, depth):
            room -= text_width(piece)
            if room < 0:
                return None
            written.append(piece)
        return "".join(written)

    def _pieces(self, value: Any, depth: int) -> Iterator[str]:
        block = self._block(value, depth)
        if block is None:
            yield self._scalar(value)
            return
        if not self.limits and block.length > self.width:
            # Each item takes a character at least: it will not fit, and going through a million of them can be spared.
            yield " " * (self.width + 1)
            return
        yield block.start
        between = block.gap
        for before, item in self._shown(block):
            yield between + before
            yield from self._pieces(item, depth + 1)
            between = ", "
        if hidden := self._hidden(block):
            yield f"{between}{self.mark} {hidden:,} more"
        yield "," + block.end if block.lone_comma else block.end

    def _shown(self, block: _Block) -> Iterator[tuple[str, Any]]:
        for number, item in enumerate(block.items):
            if self.limits and number >= self.limits.items:
                return
            yield item

    def _hidden(self, block: _Block) -> int:
        hidden = max(0, block.length - self.limits.items) if self.limits else 0
        self.cut = self.cut or hidden > 0
        return hidden

    def _block(self, value: Any, depth: int) -> _Block | None:
        """The parts of a container; None for everything that is written as one piece."""
        block = self._container(value)
        if block is None or not block.length or self.limits is None or depth < self.limits.depth:
            return block
        return None

    def _container(self, value: Any) -> _Block | None:
        name = type(value).__name__
        if isinstance(value, dict):
            start, end = ("{", "}") if name == "dict" else (f"{name}({{", "})")
            return _Block(
                start, end, ((f"{self._key(key)}: ", item) for key, item in value.items()), len(value)
            )
        if name in _BRACKETS:
            start, end = _BRACKETS[name] if value or name in ("list", "tuple") else (f"{name}(", ")")
            lone_comma = name == "tuple" and len(value) == 1
            return _Block(start, end, _members(value, name), len(value), lone_comma)
        if name == "deque":
            end = "])" if value.maxlen is None else f"], maxlen={value.maxlen})"
            return _Block("deque([", end, _members(value, name), len(value))
        return self._of_type(value) if name == "Opaque" else None

    def _of_type(self, value: Any) -> _Block | None:
        """An object of a type that is not known here: the name of the type, and its data in their own brackets."""
        start = _type_mark(value)
        if type(value.data).__name__ == "Opaque":
            # A level of its own, because there may be thousands of them.
            return _Block(start, ">", [("", value.data)], 1, gap=" ", comma="")
        inner = self._container(value.data)
        return inner and inner._replace(start=f"{start} {inner.start}", end=f"{inner.end}>")

    def _key(self, key: Any) -> str:
        return "".join(self._pieces(key, 0))

    def _scalar(self, value: Any) -> str:
        if (block := self._container(value)) is not None:
            self.cut = True
            return f"{block.start}{block.gap}{self.mark} {block.length:,} inside{block.end}"
        name = type_name(value)
        if name == "Opaque":
            return f"{_type_mark(value)} {self._scalar(value.data)}>"
        if name in ("int", "str", "bytes", "bytearray"):
            return self._plain(value, name)
        if name in ("datetime", "time", "date"):
            zone = None if name == "date" else zone_name(value)
            return f'{name}("{value.isoformat()}{f"[{zone}]" if zone else ""}")'
        if name in _QUOTED:
            return f"{name}({self._quoted(plain_text(value))})"
        return (
            self._bounds(value, name)
            if name in ("range", "slice")
            else escape_controls(repr(value).removeprefix("datetime.").removeprefix("zoneinfo."))
        )

    def _plain(self, value: Any, name: str) -> str:
        if name == "int":
            return self._shortened(integer_text(value), "digits")
        return self._quoted(value) if name == "str" else self._raw(value)

    def _bounds(self, value: Any, name: str) -> str:
        # As Python writes them, but for numbers that Python refuses to write.
        bounds = (value.start, value.stop, value.step)
        shown = bounds[:2] if name == "range" and value.step == 1 else bounds
        return f"{name}({', '.join(map(self._scalar, shown))})"

    def _quoted(self, text: str) -> str:
        most = self.limits.characters if self.limits else len(text)
        # json leaves C1 controls and marks that reorder text as they are; those are escaped after it.
        quoted = escape_controls(json.dumps(text[:most], ensure_ascii=False))
        return quoted + self._rest(len(text) - most, "characters")

    def _raw(self, value: bytes | bytearray) -> str:
        most = self.limits.characters // 4 if self.limits else len(value)
        shown = repr(value[:most])
        return shown + self._rest(len(value) - most, "bytes")

    def _shortened(self, text: str, unit: str) -> str:
        most = self.limits.characters if self.limits else len(text)
        return text[:most] + self._rest(len(text) - most, unit)

    def _rest(self, hidden: int, unit: str) -> str:
        if hidden <= 0:
            return ""
        self.cut = True
        return f"{self.mark} {hidden:,} more {unit}"


_BRACKETS = {"list": ("[", "]"), "tuple": ("(", ")"), "set": ("{", "}"), "frozenset": ("frozenset({", "})")}
_QUOTED = ("Decimal", "UUID", "Fraction", "Path", "PurePosixPath", "PureWindowsPath")


def _members(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    # A set has no order of its own; sorting makes two showings of the same state the same text. It waits until the
    # items are asked for, because most attempts to fit a large set on a line end before that.
    for item in sorted(value, key=member_order) if name in ("set", "frozenset") else value:
        yield "", item


def _type_mark(value: Any) -> str:
    return f"<{escape_controls(value.name)} v{value.version}"


def _margin(level: int) -> str:
    return "  " * min(level, _MAX_MARGIN)


def tagged_json(value: Any) -> str:
    """The JSON text of a state, safe to look at."""
    return escape_json(plain_tagged_json(value))


NO_VALUE = "-"
"""In a pipe: the place of a value that is not there; no JSON text is this, and an empty field is easily lost."""
_SHOWN = 400
"""Characters of a value in a table, before it is cut to the width of the terminal."""
_CONTEXT = 12
"""Characters of a text that are shown before what is new in it."""
_ITEMS = 3
"""Items that are shown from the first one on that is new."""


def one_line(value: Any) -> str:
    """A value as people write it, on one line and not too long."""
    return _line(value)[0]


def _line(value: Any) -> tuple[str, bool]:
    """The line, and whether something of the value is not in it."""
    notation = Notation(_SHOWN, Limits(items=8, characters=160, depth=3, lines=12))
    text = " ".join(line.strip() for line in notation.lines(value))
    return text, notation.cut


def what_is_new(value: Any, old: Any, width: int) -> str:
    """A value on one line; one too long for `width` as how much it is, and what of it `old` has not.

    What grows step by step begins the same every time, and where it is cut nobody sees what became of it.
    """
    text, cut = _line(value)
    if not cut and text_width(text) <= width:
        return text
    for kinds, told in _TOLD:
        if isinstance(value, kinds) and isinstance(old, kinds) and value:
            return told(value, old)
    return text


def _text(value: str, old: str) -> str:
    shared = _shared(value, old)
    rest = _line(value[max(0, min(shared, len(value) - 1) - _CONTEXT) :])[0]
    return f"{len(value):,} characters, \u2026 {rest}"


def _row(value: Sequence[Any], old: Sequence[Any]) -> str:
    # Where it is only shorter, its end is what is new about it.
    at = min(_shared(value, old), len(value) - 1)
    shown = ", ".join(_line(each)[0] for each in islice(value, at, at + _ITEMS))
    more = len(value) - at - _ITEMS
    return f"{_counted(value, 'item')}, [{at}]: {shown}" + (f" and {more:,} more" if more > 0 else "")


def _keyed(value: Mapping[Any, Any], old: Mapping[Any, Any]) -> str:
    new = {key: each for key, each in value.items() if key not in old or not _same(each, old[key])}
    gone = [key for key in old if key not in value]
    return ", ".join([_counted(value, "key"), *_parts(_line(new)[0] if new else "", gone)])


def _set_members(value: AbstractSet[Any], old: AbstractSet[Any]) -> str:
    new, gone = value - old, old - value
    return ", ".join([_counted(value, "member"), *_parts(f"new {_line(set(new))[0]}" if new else "", gone)])


def _parts(new: str, gone: Collection[Any]) -> Iterator[str]:
    if new:
        yield new
    if gone:
        yield f"without {_line(next(iter(gone)))[0]}" + (f" and {len(gone) - 1:,} more" * (len(gone) > 1))


def _counted(value: Collection[Any], one: str) -> str:
    return f"{len(value):,} {one}{'' if len(value) == 1 else 's'}"


def _shared(value: Sequence[Any], old: Sequence[Any]) -> int:
    """With how many items both begin."""
    pairs = enumerate(zip(value, old, strict=False))
    return next((at for at, (new, was) in pairs if not _same(new, was)), min(len(value), len(old)))


def _same(new: Any, old: Any) -> bool:
    try:
        return type(new) is type(old) and bool(new == old)
    except RecursionError:
        # Too deep for Python to compare: shown as changed, which costs a few columns.
        return False


_TOLD: tuple[tuple[Any, Callable[[Any, Any], str]], ...] = (
    (str, _text),
    ((list, tuple, deque), _row),
    (dict, _keyed),
    ((set, frozenset), _set_members),
)


def json_line(value: Any) -> str:
    """A value as tagged JSON, on one line and whole."""
    return escape_json(json.dumps(json_form(value), ensure_ascii=False))
