"""Rows of a diff on a terminal or in a pipe: one below the other, or side by side.

Without colour the sign at the beginning of a line says everything; colour only repeats it. Words that changed stand out
in bold; with `--words` both sides are one line, and without colour `[-gone-]` and `{+come+}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from holdfast.cli._terminal import paint, shorten, text_width
from holdfast.record import Record

if TYPE_CHECKING:
    from holdfast.cli._diffing import Row
    from holdfast.store.wording import Mark

NARROWEST = 60
"""Columns from which on two sides fit beside each other."""

_SIGNS = {"old": "-", "new": "+", "same": " ", "fold": " ", "head": " ", "note": "~"}
_STYLES = {"old": "red", "new": "green", "same": None, "fold": "dim", "head": "cyan", "note": "yellow"}


class Pen(Record):
    """How to draw: with colour or not, how wide (None: as wide as it gets), and the sign for what is left out."""

    color: bool
    width: int | None
    mark: str


def unified(rows: Iterable[Row], pen: Pen, *, words: bool) -> Iterator[str]:
    """The lines of a diff, one below the other."""
    for row in rows:
        if row.kind != "change":
            yield _line(_SIGNS[row.kind], row.marks, _STYLES[row.kind], pen)
        elif words:
            yield _both_sides(row.marks, pen)
        else:
            yield _line("-", _side(row.marks, "-"), "red", pen, bold="-")
            yield _line("+", _side(row.marks, "+"), "green", pen, bold="+")


def side_by_side(rows: Iterable[Row], pen: Pen) -> Iterator[str]:
    """The lines of a diff in two columns, the old side on the left."""
    room = ((pen.width or 160) - 3) // 2
    column = pen._replace(width=room)
    waiting: list[Row] = []
    for row in [*rows, None]:
        # What came right after something went stands beside it.
        if row is not None and row.kind == "old" and (not waiting or waiting[0].number == row.number):
            waiting.append(row)
            continue
        if row is not None and row.kind == "new" and waiting and waiting[0].number == row.number:
            yield _two(_drawn(waiting.pop(0), column), _drawn(row, column), room)
            continue
        for each in waiting:
            yield _two(_drawn(each, column), "", room)
        waiting = []
        if row is not None and row.kind == "old":
            waiting.append(row)
        elif row is not None:
            yield _beside(row, column, room)


def _beside(row: Row, pen: Pen, room: int) -> str:
    if row.kind == "change":
        left = _line("-", _side(row.marks, "-"), "red", pen, bold="-")
        return _two(left, _line("+", _side(row.marks, "+"), "green", pen, bold="+"), room)
    if row.kind == "new":
        return _two("", _drawn(row, pen), room)
    if row.kind == "same":
        return _two(_drawn(row, pen), _drawn(row, pen), room)
    return _drawn(row, pen._replace(width=2 * room + 3))


def _drawn(row: Row, pen: Pen) -> str:
    return _line(_SIGNS[row.kind], row.marks, _STYLES[row.kind], pen)


def _two(left: str, right: str, room: int) -> str:
    return f"{left}{' ' * max(0, room - _visible(left))} | {right}".rstrip()


def _visible(text: str) -> int:
    """How many columns a painted text takes."""
    plain = text.split("\x1b[")
    return text_width(plain[0] + "".join(part.partition("m")[2] for part in plain[1:]))


def _side(marks: Iterable[Mark], sign: str) -> list[Mark]:
    return [mark for mark in marks if mark.sign in ("=", sign)]


def _line(sign: str, marks: Iterable[Mark], style: str | None, pen: Pen, bold: str = "") -> str:
    room = None if pen.width is None else pen.width - 2
    parts = [(mark.text, mark.sign == bold) for mark in marks]
    drawn = "".join(
        _painted(text, style, pen, strong=strong) for text, strong in _fitted(parts, room, pen.mark)
    )
    return f"{_painted(sign, style, pen)} {drawn}".rstrip()


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


def _fitted(parts: list[tuple[str, bool]], room: int | None, mark: str) -> Iterator[tuple[str, bool]]:
    """As much of the parts as fits into so many columns."""
    for text, strong in parts:
        if room is None:
            yield text, strong
            continue
        if room <= 0:
            return
        width = text_width(text)
        yield (text if width <= room else shorten(text, room, mark=mark)), strong
        room -= width
