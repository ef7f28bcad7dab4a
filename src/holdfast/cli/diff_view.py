"""A diff for people: rows of what went, what came, and a little of what is around it, drawn in one column or two.

A row is a line of text in marked parts: `=` is on both sides, `-` only on the old one, `+` only on the new one. Texts
are compared line by line, changed lines word by word. Without colour the sign at the beginning says everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal

from holdfast.cli.pretty import Limits, Notation
from holdfast.cli.terminal import escape_controls, paint, shorten, text_width
from holdfast.record import Record
from holdfast.reports.text import Mark, line_marks, path_text, word_marks

if TYPE_CHECKING:
    from holdfast.reports import Change, Diff


_LONG = 72
"""Characters of a text from which on it is told line by line, and not behind its path."""
_AROUND = 30
"""Characters that stay on each side of a change in a line that is too long, where there is room for them."""
_LEAST = 24
_ONE_PIECE = ("int", "bytes", "bytearray", "Decimal", "Fraction")
"""Types of values that may be long, and are written in one piece."""


class Row(Record):
    """One line of a diff."""

    kind: Literal["same", "old", "new", "change", "fold", "head", "note"]
    marks: tuple[Mark, ...]
    number: int = 0
    """Which change it belongs to: only what belongs together stands side by side."""


class Rows:
    """Makes the rows of a diff; `cut` says afterwards whether a value was shown in part."""

    def __init__(self, *, fold: int, width: int, limits: Limits | None, short: bool, mark: str) -> None:
        self._fold = fold
        self._width = width
        self._limits = limits
        self._short = short
        """Whether lines are cut to the width."""
        self._mark = mark
        self.cut = False

    def was_cut(self) -> None:
        """Remember that something was left out; who draws the rows may have to leave out more."""
        self.cut = True

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
        if change.op in ("add", "remove") and change.steps and change.steps[-1].kind == "member":
            yield from self._member(change)
        elif change.op == "move":
            yield _plain("note", f"{path} moved from {_origin(change)}")
        elif change.op == "add":
            yield from self._value("new", f"{path}: ", change.new)
        elif change.op == "remove":
            yield from self._value("old", f"{path}: ", change.old)
        elif isinstance(change.old, str) and isinstance(change.new, str):
            yield from self._texts(path, change.old, change.new)
        else:
            yield from self._replaced(path, change.old, change.new)

    def _member(self, change: Change) -> Iterator[Row]:
        """A member of a set is its own place: it is written once, and as a whole."""
        lead = path_text(change.steps[:-1]) + "{"
        if change.op == "add":
            yield from self._value("new", lead, change.new, end="}")
        else:
            yield from self._value("old", lead, change.old, end="}")

    def _replaced(self, path: str, old: Any, new: Any) -> Iterator[Row]:
        name = type(old).__name__
        if type(old) is type(new) and name in _ONE_PIECE and not isinstance(old, bool):
            before, after = ("".join(Notation(self._width).lines(each)) for each in (old, new))
            if len(path) + 2 + max(len(before), len(after)) > self._width:
                # Both may begin with the same: the place where they differ is what counts.
                yield _plain("head", f"{path}:")
                yield self._words("  ", before, after)
                return
        yield from self._value("old", f"{path}: ", old)
        yield from self._value("new", f"{path}: ", new)

    def _value(self, kind: Literal["old", "new"], lead: str, value: Any, *, end: str = "") -> Iterator[Row]:
        room = max(_LEAST, self._width - len(lead) - len(end))
        notation = Notation(room, self._limits, mark=self._mark)
        sign: Literal["-", "+"] = "-" if kind == "old" else "+"
        lines = list(notation.lines(value))
        for number, line in enumerate(lines, 1):
            before = escape_controls(lead) if number == 1 else "  "
            after = (Mark("=", end),) if end and number == len(lines) else ()
            yield Row(kind, (Mark("=", before), Mark(sign, line), *after))
        self.cut = self.cut or bool(notation.cut)

    def _texts(self, path: str, old: str, new: str) -> Iterator[Row]:
        longest = max(len(old), len(new))
        fits = not self._short or len(path) + len(': ""') + longest <= self._width
        if "\n" not in old + new and longest <= _LONG and (fits or len(path) <= self._width // 3):
            yield self._words(f'{path}: "', old, new, end='"')
            return
        yield _plain("head", f"{path}:")
        yield from self._lines(old, new)

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
        lead = escape_controls(lead)
        marks = [mark._replace(text=escape_controls(mark.text)) for mark in word_marks(old, new)]
        room = self._width - text_width(lead) - len(end)
        if self._short and max(_columns(marks, "-"), _columns(marks, "+")) > room:
            marks = list(self._around(list(_narrowed(marks, room // 3)), room))
        return Row("change", (Mark("=", lead), *marks, Mark("=", end)))

    def _around(self, marks: list[Mark], room: int) -> Iterator[Mark]:
        """What is the same in a long line, but for what is near a change."""
        before, after = _context(marks, room - 2 * len(self._mark))
        for number, mark in enumerate(marks):
            text = mark.text
            end = before if number < len(marks) - 1 else 0
            start = after if number else 0
            if mark.sign == "=" and len(text) > start + end + len(self._mark):
                self.cut = True
                text = f"{text[:start]}{self._mark}{text[len(text) - end :]}"
            yield mark._replace(text=text)

    def _folded(self, count: int, what: str) -> Row:
        several = "" if count == 1 else "s"
        return _plain("fold", f"  {self._mark} {count:,} {what}{several} unchanged")


def _context(marks: list[Mark], room: int) -> tuple[int, int]:
    """How many characters to leave before a change, and how many after it."""
    # Not more than a third before the first change: the rest is for what it is.
    around = max(4, min(_AROUND, room // 3))
    same = [mark.text for mark in marks if mark.sign == "="]
    pre = marks[0].text if marks[0].sign == "=" else ""
    post = marks[-1].text if marks[-1].sign == "=" else ""
    left = room - max(_columns(marks, sign) for sign in ("-", "+")) + sum(map(text_width, same))
    if len(same) > bool(pre) + bool(post) or left < 2 * around or not (pre + post).isascii():
        return around, around
    # One change, and more room: all of it is used, and the change is in the middle unless it is near an end.
    before = min(len(pre), max(left // 2, left - len(post)))
    return before, left - before


def _columns(marks: list[Mark], sign: Literal["-", "+"]) -> int:
    """How wide one side of a line is."""
    return sum(text_width(mark.text) for mark in marks if mark.sign in ("=", sign))


def _narrowed(marks: list[Mark], most: int) -> Iterator[Mark]:
    """The same marks, but what a long word and the one in its place begin or end with is the same on both sides."""
    at = 0
    while at < len(marks):
        pair = marks[at : at + 2]
        if [mark.sign for mark in pair] != ["-", "+"] or max(len(mark.text) for mark in pair) <= most:
            yield marks[at]
            at += 1
            continue
        old, new = (mark.text for mark in pair)
        front = _shared(old, new)
        back = _shared(old[front:][::-1], new[front:][::-1])
        parts = (
            Mark("=", old[:front]),
            Mark("-", old[front : len(old) - back]),
            Mark("+", new[front : len(new) - back]),
            Mark("=", old[len(old) - back :]),
        )
        yield from (mark for mark in parts if mark.text)
        at += 2


def _shared(one: str, other: str) -> int:
    """With how many characters both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))


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


NARROWEST = 60
"""Columns from which on two sides fit beside each other."""
IN_A_PIPE = 160
"""Columns for two sides beside each other, where there is no terminal that has a width."""

_Part = tuple[str, bool]
"""A piece of a line, and whether it stands out."""

_SIGNS = {"old": "-", "new": "+", "same": " ", "fold": " ", "head": " ", "note": "~"}
_STYLES = {"old": "red", "new": "green", "same": None, "fold": "dim", "head": "cyan", "note": "yellow"}


class Pen(Record):
    """How to draw: with colour or not, how wide (None: as wide as it gets), and the sign for what is left out.

    With `full` what is too wide goes on in the next line; otherwise it is cut, and `was_cut` is called.
    """

    color: bool
    width: int | None
    mark: str
    full: bool = False
    was_cut: Callable[[], object] = lambda: None


def unified(rows: Iterable[Row], pen: Pen, *, words: bool) -> Iterator[str]:
    """The lines of a diff, one below the other."""
    for row in rows:
        if row.kind != "change":
            yield from _drawn(row, pen)
        elif words:
            yield _both_sides(row.marks, pen)
        else:
            yield from _lines("-", _side(row.marks, "-"), "red", pen, bold="-")
            yield from _lines("+", _side(row.marks, "+"), "green", pen, bold="+")


def side_by_side(rows: Iterable[Row], pen: Pen) -> Iterator[str]:
    """The lines of a diff in two columns, the old side on the left."""
    room = ((pen.width or IN_A_PIPE) - 3) // 2
    column = pen._replace(width=room)
    waiting: list[Row] = []
    for row in [*rows, None]:
        # What came right after something went stands beside it.
        if row is not None and row.kind == "old" and (not waiting or waiting[0].number == row.number):
            waiting.append(row)
            continue
        if row is not None and row.kind == "new" and waiting and waiting[0].number == row.number:
            yield from _two(_drawn(waiting.pop(0), column), _drawn(row, column), room)
            continue
        for each in waiting:
            yield from _two(_drawn(each, column), [], room)
        waiting = []
        if row is not None and row.kind == "old":
            waiting.append(row)
        elif row is not None:
            yield from _beside(row, column, room)


def _beside(row: Row, pen: Pen, room: int) -> Iterator[str]:
    if row.kind == "change":
        left = _lines("-", _side(row.marks, "-"), "red", pen, bold="-")
        yield from _two(left, _lines("+", _side(row.marks, "+"), "green", pen, bold="+"), room)
    elif row.kind == "new":
        yield from _two([], _drawn(row, pen), room)
    elif row.kind == "same":
        yield from _two(_drawn(row, pen), _drawn(row, pen), room)
    else:
        yield from _drawn(row, pen._replace(width=2 * room + 3))


def _drawn(row: Row, pen: Pen) -> list[str]:
    return _lines(_SIGNS[row.kind], row.marks, _STYLES[row.kind], pen)


def _two(left: list[str], right: list[str], room: int) -> Iterator[str]:
    for one, other in zip_longest(left, right, fillvalue=""):
        yield f"{one}{' ' * max(0, room - _visible(one))} | {other}".rstrip()


def _visible(text: str) -> int:
    """How many columns a painted text takes."""
    plain = text.split("\x1b[")
    return text_width(plain[0] + "".join(part.partition("m")[2] for part in plain[1:]))


def _side(marks: Iterable[Mark], sign: str) -> list[Mark]:
    return [mark for mark in marks if mark.sign in ("=", sign)]


def _lines(sign: str, marks: Iterable[Mark], style: str | None, pen: Pen, bold: str = "") -> list[str]:
    """One line of a side, or as many as it takes where nothing may be cut."""
    parts = [(mark.text, mark.sign == bold) for mark in marks]
    if pen.width is None:
        fitted = [parts]
    else:
        room = max(1, pen.width - 2)
        fitted = _wrapped(parts, room) if pen.full else [_fitted(parts, room, pen)]
    return [
        f"{_painted(sign, style, pen)} "
        f"{''.join(_painted(text, style, pen, strong=strong) for text, strong in line)}".rstrip()
        for line in fitted
    ]


def _both_sides(marks: Iterable[Mark], pen: Pen) -> str:
    """Both sides of a changed line in one."""
    drawn = []
    for mark in marks:
        if mark.sign == "=":
            drawn.append(mark.text)
        elif pen.color:
            drawn.append(_painted(mark.text, "red" if mark.sign == "-" else "green", pen, strong=True))
        else:
            drawn.append(f"[-{mark.text}-]" if mark.sign == "-" else f"{{+{mark.text}+}}")
    return f"{_painted('~', 'yellow', pen)} {''.join(drawn)}".rstrip()


def _painted(text: str, style: str | None, pen: Pen, *, strong: bool = False) -> str:
    shown = paint(text, style, on=pen.color) if style else text
    return paint(shown, "bold", on=pen.color) if strong else shown


def _fitted(parts: list[_Part], room: int, pen: Pen) -> list[_Part]:
    """As much of the parts as fits into so many columns, with a sign where something is left out."""
    if sum(text_width(text) for text, _ in parts) <= room:
        return parts
    pen.was_cut()
    room -= text_width(pen.mark)
    kept: list[_Part] = []
    for text, strong in parts:
        width = text_width(text)
        if width > room:
            return [*kept, (shorten(text, room, mark="") + pen.mark, strong)]
        kept.append((text, strong))
        room -= width
    return kept


def _wrapped(parts: list[_Part], room: int) -> list[list[_Part]]:
    """All of the parts, in lines of so many columns."""
    lines: list[list[_Part]] = [[]]
    left = room
    for text, strong in parts:
        rest = text
        while rest:
            # A character that is wider than a column may have to stand alone, however narrow that is.
            some = shorten(rest, left, mark="") or ("" if left < room else rest[0])
            if some:
                lines[-1].append((some, strong))
            rest, left = rest[len(some) :], left - text_width(some)
            if rest:
                lines.append([])
                left = room
    return lines
