"""Data on stdout, in the three forms that a reader can ask for: a table, TSV or JSON.

A column says how to show a checkpoint to a person and how to write it for a program. The two differ on purpose: people
get short ids, ages and cut texts; programs get whole ids, ISO times in UTC and every character, one line a row whatever
the text contains. TSV columns keep their order; new ones are added at the end.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._terminal import (
    ellipsis_for,
    escape_controls,
    escape_field,
    escape_json,
    iso,
    pad,
    paint,
    shorten,
    terminal_width,
    text_width,
)
from holdfast.record import Record

if TYPE_CHECKING:
    from holdfast import Checkpoint
    from holdfast.cli._settings import Settings

_GAP = "  "
_STATUS_STYLE = {"completed": "green", "failed": "red", "interrupted": "yellow", "paused": "yellow"}


class Column(Record):
    """One column of the table for people; a row is a checkpoint, or whatever else a command lists."""

    title: str
    text: Callable[[Any], str]
    right: bool = False
    most: int = 20
    style: Callable[[Any], str | None] = lambda _: None
    whole: bool = False
    """Never cut, even where the line gets longer than the terminal is wide; for the last column."""


_ID = Column("ID", lambda c: c.id[:8], style=lambda _: "yellow")
_SEQ = Column("SEQ", lambda c: f"#{c.seq}", right=True)
_SESSION = Column("SESSION", lambda c: c.session, most=24)
_STEP = Column("STEP", lambda c: "" if c.step is None else str(c.step), right=True)
_STATUS = Column("STATUS", lambda c: c.status, style=lambda c: _STATUS_STYLE.get(c.status))
_TAGS = Column("TAGS", lambda c: ",".join(c.tags), most=24, style=lambda _: "cyan")
_MESSAGE = Column("MESSAGE", lambda c: c.message, most=10_000)

TSV_COLUMNS: dict[str, Callable[[Checkpoint], str]] = {
    "id": lambda c: c.id,
    "seq": lambda c: str(c.seq),
    "created_at": lambda c: iso(c.created_at),
    "session": lambda c: c.session,
    "branch": lambda c: c.branch,
    "trigger": lambda c: c.trigger,
    "status": lambda c: c.status,
    "step": lambda c: "" if c.step is None else str(c.step),
    "tags": lambda c: ",".join(c.tags),
    "message": lambda c: c.message,
}
"""The fields of a row in a pipe, in order."""


def checkpoint_rows(
    settings: Settings,
    checkpoints: Iterable[Checkpoint],
    *,
    sessions: bool = False,
    labels: Mapping[str, str] | None = None,
    here: Mapping[str, str | None] | None = None,
) -> None:
    """Write checkpoints as a table for people, or as TSV for programs.

    Args:
        settings: How.
        checkpoints: Which.
        sessions: Whether people are told the session of each.
        labels: For people, by id: what to call those without a message.
        here: For people, by id: the branch that leads to each (`_placing`). Without it they are told which one it was
            saved on.
    """
    if settings.for_people():
        shown = list(checkpoints)
        columns = [_ID, _SEQ, time_column(settings), _STEP, _STATUS, _TAGS, _MESSAGE]
        if labels:
            columns[-1] = message_column(labels)
        if sessions:
            columns.insert(2, _SESSION)
        branch = saved_on_column() if here is None else branch_column(here)
        if len({branch.text(c) for c in shown}) > 1:
            columns.insert(-4, branch)
        for line in table(settings, columns, shown):
            data(line, color=True)
        return
    for checkpoint in checkpoints:
        data("\t".join(escape_field(field(checkpoint)) for field in TSV_COLUMNS.values()))


def message_column(labels: Mapping[str, str]) -> Column:
    """Messages, and in the place of those that are missing what `labels` has for the id, dimmed."""
    return _MESSAGE._replace(
        text=lambda c: c.message or labels.get(c.id, ""),
        style=lambda c: "dim" if not c.message and c.id in labels else None,
    )


def branch_column(here: Mapping[str, str | None]) -> Column:
    """The branch that leads to a checkpoint (`_placing`)."""
    from holdfast.cli._placing import label

    return Column("BRANCH", lambda c: label(c, here), most=16, style=lambda _: "blue")


def saved_on_column() -> Column:
    """The branch that a checkpoint was saved on, where many sessions are shown: placing each would read all of them."""
    return Column("SAVED ON", lambda c: c.branch, most=16, style=lambda _: "blue")


def time_column(settings: Settings) -> Column:
    """When a row was made (its `created_at`), in the form that the person likes."""
    title = "AGE" if settings.time == "relative" else "TIME"
    return Column(title, lambda row: settings.when(row.created_at), right=True, style=lambda _: "dim")


def table(settings: Settings, columns: Sequence[Column], rows: Sequence[Any]) -> Iterable[str]:
    """The lines of an aligned table that fits the terminal; the last column takes what is left."""
    mark, on = ellipsis_for(sys.stdout), settings.paints(sys.stdout)
    # A column that is empty in every row would only take room from the message.
    columns = [c for c in columns if c is columns[-1] or any(c.text(row) for row in rows)]
    cells = [[_cell(c, row, mark) for c in columns] for row in rows]
    widths = [
        max(text_width(c.title), *(text_width(line[i]) for line in cells)) for i, c in enumerate(columns[:-1])
    ]
    room = max(10, terminal_width() - sum(widths) - len(_GAP) * len(widths))
    widths.append(room)

    def joined(parts: Sequence[str], styles: Sequence[str | None]) -> str:
        line = []
        for part, style, width, column in zip(parts, styles, widths, columns, strict=True):
            text = part if column.whole else shorten(part, width, mark=mark)
            filled = text if column is columns[-1] else pad(text, width, right=column.right)
            line.append(paint(filled, style, on=on) if style else filled)
        return _GAP.join(line).rstrip()

    yield joined([c.title for c in columns], ["dim"] * len(columns))
    for parts, row in zip(cells, rows, strict=True):
        yield joined(parts, [c.style(row) for c in columns])


def _cell(column: Column, row: Any, mark: str) -> str:
    text = escape_controls(column.text(row))
    return text if column.whole else shorten(text, column.most, mark=mark)


def data(text: str, *, color: bool = False) -> None:
    """Write a line of data to stdout; `color` says that the text has been painted for a terminal."""
    try:
        _write(text, color=color)
    except UnicodeEncodeError:
        # An old locale: what it cannot write is shown as \uXXXX (right in JSON, readable elsewhere) rather than lost.
        encoding = sys.stdout.encoding or "ascii"
        _write("".join(c if _fits(c, encoding) else json.dumps(c)[1:-1] for c in text), color=color)


def _write(text: str, *, color: bool) -> None:
    if color:
        click.echo(text, file=sys.stdout, color=True)  # knows how to paint on an old Windows console
    else:
        sys.stdout.write(text + "\n")


def _fits(char: str, encoding: str) -> bool:
    try:
        char.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def document(value: Mapping[str, Any]) -> None:
    """Write the one JSON document of a command."""
    data(json_text(value))


def json_text(value: Any, *, indent: int | None = 2) -> str:
    """JSON that is safe to look at: what a terminal would act on is written as an escape."""
    return escape_json(json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False, default=str))
