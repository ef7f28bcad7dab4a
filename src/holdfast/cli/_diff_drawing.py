"""Rows of a diff on a terminal or in a pipe: one below the other, or side by side.

Without colour the sign at the beginning of a line says everything; colour only repeats it. Words that changed stand out
in bold; with `--words` both sides are one line, and without colour `[-gone-]` and `{+come+}`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING

from holdfast.cli._terminal import paint, shorten, text_width
from holdfast.record import Record

if TYPE_CHECKING:
    from holdfast.cli._diffing import Row
    from holdfast.store.wording import Mark

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
