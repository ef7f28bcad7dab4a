"""A diff as rows for people: what went, what came, and a little of what is around it.

A row is a line of text in marked parts: `=` is on both sides, `-` only on the old one, `+` only on the new one. How
rows are drawn, one below the other or side by side, is for `_diff_drawing.py`. Texts are compared line by line, and
changed lines word by word; of lines that are the same only a few stay, with a count of the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal

from holdfast.cli._notation import Limits, Notation
from holdfast.cli._terminal import escape_controls
from holdfast.record import Record
from holdfast.store.wording import Mark, line_marks, word_marks

if TYPE_CHECKING:
    from holdfast import Change, Diff

_LONG = 72
"""Characters of a text from which on it is told line by line, and not behind its path."""
_AROUND = 30
"""Characters that stay on each side of a change in a line that is too long."""
_LEAST = 24


class Row(Record):
    """One line of a diff."""

    kind: Literal["same", "old", "new", "change", "fold", "head", "note"]
    marks: tuple[Mark, ...]
    number: int = 0
    """Which change it belongs to: only what belongs together stands side by side."""


class Rows:
    """Makes the rows of a diff; `cut` says afterwards whether a value was shown in part."""

    def __init__(self, *, fold: int, width: int, limits: Limits | None, mark: str) -> None:
        self._fold = fold
        self._width = width
        self._limits = limits
        self._mark = mark
        self.cut = False

    def of(self, diff: Diff) -> Iterator[Row]:
        """The rows of all changes, in order."""
        before: Change | None = None
        for number, change in enumerate(diff):
            if before is not None and (skipped := _between(before, change)):
                yield self._folded(skipped, "item")
            for row in self._change(change):
                yield row._replace(number=number)
            before = change

    def _change(self, change: Change) -> Iterator[Row]:
        path = change.path or "state"
        if change.op == "move":
            yield _plain("note", f"{path} moved from {_origin(change)}")
        elif change.op == "add":
            yield from self._value("new", path, change.new)
        elif change.op == "remove":
            yield from self._value("old", path, change.old)
        elif change.partial:
            yield from self._parts(path, change)
        elif isinstance(change.old, str) and isinstance(change.new, str):
            yield from self._texts(path, change.old, change.new)
        else:
            yield from self._value("old", path, change.old)
            yield from self._value("new", path, change.new)

    def _value(self, kind: Literal["old", "new"], path: str, value: Any) -> Iterator[Row]:
        room = max(_LEAST, self._width - len(path) - 2)
        notation = Notation(room, self._limits, mark=self._mark)
        sign: Literal["-", "+"] = "-" if kind == "old" else "+"
        for number, line in enumerate(notation.lines(value)):
            lead = f"{path}: " if number == 0 else "  "
            yield Row(kind, (Mark("=", escape_controls(lead)), Mark(sign, line)))
        self.cut = self.cut or bool(notation.cut)

    def _texts(self, path: str, old: str, new: str) -> Iterator[Row]:
        if "\n" not in old + new and max(len(old), len(new)) <= _LONG:
            yield self._words(f'{path}: "', old, new, end='"')
            return
        yield _plain("head", f"{path}:")
        yield from self._lines(old, new)

    def _parts(self, path: str, change: Change) -> Iterator[Row]:
        """The parts of a long text or of long bytes that differ; the rest was not even read."""
        yield _plain("head", f"{path}: parts of {change.old.size:,} and {change.new.size:,} bytes")
        for old, new in zip(change.old.parts, change.new.parts, strict=True):
            yield _plain("fold", f"  {self._mark}")
            if isinstance(old, str):
                yield from self._lines(old, new)
            else:
                yield from self._value("old", "  ", old)
                yield from self._value("new", "  ", new)
        yield _plain("fold", f"  {self._mark}")

    def _lines(self, old: str, new: str) -> Iterator[Row]:
        parts = line_marks(old, new)
        for number, part in enumerate(parts):
            if part.same:
                first, last = number == 0, number == len(parts) - 1
                yield from self._same(part.old, first=first, last=last)
                continue
            for before, after in zip_longest(part.old, part.new):
                if before is None or after is None:
                    kind: Literal["old", "new"] = "new" if before is None else "old"
                    text = after if before is None else before
                    marked = Mark("+" if before is None else "-", escape_controls(text))
                    yield Row(kind, (Mark("=", "  "), marked))
                else:
                    yield self._words("  ", before, after)

    def _same(self, lines: list[str], *, first: bool, last: bool) -> Iterator[Row]:
        """Lines that are the same, but for those far from a change."""
        head = 0 if first else self._fold
        tail = 0 if last else self._fold
        hidden = len(lines) - head - tail
        # A line that says that one line is hidden takes as much room as the line.
        shown = [lines] if hidden <= 1 else [lines[:head], lines[len(lines) - tail :]]
        for number, some in enumerate(shown):
            if number:
                yield self._folded(hidden, "line")
            for line in some:
                yield _plain("same", f"  {line}")

    def _words(self, lead: str, old: str, new: str, *, end: str = "") -> Row:
        marks = [mark._replace(text=escape_controls(mark.text)) for mark in word_marks(old, new)]
        if self._limits is not None and len(lead) + sum(len(mark.text) for mark in marks) > self._width:
            marks = list(self._around(marks))
        return Row("change", (Mark("=", escape_controls(lead)), *marks, Mark("=", end)))

    def _around(self, marks: list[Mark]) -> Iterator[Mark]:
        """What is the same in a long line, but for what is near a change."""
        for number, mark in enumerate(marks):
            text = mark.text
            if mark.sign == "=" and len(text) > 2 * _AROUND + 5:
                start = "" if number == 0 else text[:_AROUND]
                end = "" if number == len(marks) - 1 else text[-_AROUND:]
                text = f"{start}{self._mark}{end}"
            yield mark._replace(text=text)

    def _folded(self, count: int, what: str) -> Row:
        several = "" if count == 1 else "s"
        return _plain("fold", f"  {self._mark} {count:,} {what}{several} unchanged")


def _plain(kind: Literal["same", "fold", "head", "note"], text: str) -> Row:
    return Row(kind, (Mark("=", escape_controls(text)),))


def _origin(change: Change) -> str:
    step = change.steps[-1]
    return f"[{change.old}]" if step.kind == "index" else f"position {change.old + 1} to {change.new + 1}"


def _between(one: Change, other: Change) -> int:
    """How many items of a list lie between two changes in it, where both are in the same list."""
    before, after = one.place.chain(), other.place.chain()
    for left, right in zip(before, after, strict=False):
        if left is right:
            continue
        if left.parent is not right.parent:
            return 0
        # Positions of what was removed are those of the old list: only what both have can be counted.
        steps = left.new, right.new
        if any(step is None or step.kind != "index" or type(step.key) is not int for step in steps):
            return 0
        start, end = (step.key for step in steps if step is not None)
        return max(0, int(end) - int(start) - 1)
    return 0
