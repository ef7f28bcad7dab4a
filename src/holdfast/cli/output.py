"""One column spec gives every form of a command's answer.

A command declares its columns once, and hands over rows:

    COLUMNS = (ID, Column("name", style="blue", width=40), Column("moved_at", kind="time"))
    rows(cmd, found, COLUMNS, lambda: BranchList(...))

On a terminal that is a table: short ids, ages, cut texts. In a pipe it is TSV: whole ids, ISO times in UTC, every
character, one line a row. `--json` is the report, whose JSON form docs/spec/json describes; `--fields a,b` chooses
columns, and `--format '{id:.8} {message}'` writes each row as a text. A command that answers with one record instead of
rows uses `record`. TSV columns keep their order; new ones are added at the end.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from operator import attrgetter
from string import Formatter
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from holdfast.cli.paging import paging
from holdfast.cli.terminal import (
    age,
    ellipsis_for,
    escape_controls,
    escape_field,
    escape_json,
    iso,
    pad,
    paint,
    shorten,
    size_text,
    terminal_width,
    text_width,
)
from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.settings.near import close_names, did_you_mean

if TYPE_CHECKING:
    from holdfast import Checkpoint
    from holdfast.cli.invocation import Invocation
    from holdfast.reports import CheckpointChange, Report

_GAP = "  "
_LABEL = 11
"""Columns of a terminal that the label of a record's line takes."""
_NO_LIMIT = 10_000


class Column(NamedTuple):
    """A field of each row: what it is called, where its value is, and how people see it."""

    name: str
    """In --fields and --format."""
    value: str | Callable[[Any], Any] = ""
    """The path of an attribute of the row (`head.id`), or a function of the row; its name where it is empty."""
    kind: str = "text"
    """How people see it: text, id, seq, time, size, count, list or short (JSON on a line)."""
    header: str | None = None
    """What stands above it; its name in capitals unless given."""
    style: str | Callable[[Any], str | None] | None = None
    """A colour, or a function of the row."""
    width: int = 20
    """At most so many columns of a terminal; the last column takes what is left."""
    terminal: bool = True
    """Whether it is in the table."""
    pipe: bool = True
    """Whether it is in TSV."""
    varied: bool = False
    """In the table only where its rows differ."""
    spare: bool = False
    """In the table only where there is room."""

    def of(self, row: Any) -> Any:
        """The value in a row."""
        return self.value(row) if callable(self.value) else _attribute(self.value or self.name)(row)


_attribute = attrgetter

ID = Column("id", kind="id", style="yellow")
SEQ = Column("seq", kind="seq")
MESSAGE = Column("message", width=_NO_LIMIT)
_STATUS_STYLE = {"completed": "green", "failed": "red", "interrupted": "yellow", "paused": "yellow"}
STATUS = Column("status", style=lambda row: _STATUS_STYLE.get(row.status))

CHECKPOINT = (
    ID,
    SEQ,
    Column("created_at", kind="time", header="AGE", style="dim"),
    Column("session", width=24, varied=True),
    Column("branch", header="SAVED ON", width=16, style="blue", varied=True),
    Column("trigger", terminal=False),
    STATUS,
    Column("step", kind="count"),
    Column("tags", kind="list", width=24, style="cyan"),
    MESSAGE,
    Column("tokens", kind="count", spare=True),
    Column("cost_usd", kind="cost", header="COST", spare=True),
)
"""The columns of a checkpoint, in every list of them."""
_MORE = tuple(
    Column(name, terminal=False, pipe=False)
    for name in (
        *("agent", "app_version", "duration_ms", "key", "metadata", "parents", "pinned", "position", "prev"),
        *("project", "root", "size_bytes", "skipped", "stored_at", "stored_bytes"),
    )
)
"""What can be asked for with --fields and --format besides."""


def checkpoints(
    cmd: Invocation,
    found: Iterable[Any],
    report: Callable[[], Report] | None = None,
    *,
    branch: Callable[[Any], str] | None = None,
    label: Callable[[Any], str] | None = None,
) -> None:
    """Write checkpoints.

    Args:
        cmd: How.
        found: Which.
        report: The JSON document.
        branch: For people: the branch that leads to each now, instead of the one it was saved on.
        label: For people: what to call each, instead of its message.
    """
    columns = list(CHECKPOINT)
    if branch is not None:
        columns[4] = columns[4]._replace(pipe=False, name="on", value=branch, header="BRANCH")
        columns.insert(4, CHECKPOINT[4]._replace(terminal=False))
    if label is not None:
        columns = [each._replace(value=label) if each is MESSAGE else each for each in columns]
    rows(cmd, found, (*columns, *_MORE), report)


def rows(
    cmd: Invocation,
    found: Iterable[Any],
    columns: Sequence[Column],
    report: Callable[[], Report] | None = None,
) -> None:
    """Write rows in the form that was asked for; `report` makes the JSON document."""
    if cmd.json and report is not None:
        document(report().to_dict())
    elif cmd.format is not None:
        template = Template(cmd.format, [column.name for column in columns])
        for row in found:
            data(template.fill({column.name: column.of(row) for column in columns}))
    else:
        if cmd.fields is not None:
            by_name = {column.name: column for column in columns}
            columns = [by_name[name] for name in chosen(cmd.fields, by_name)]
        if cmd.for_people():
            shown = columns if cmd.fields is not None else [each for each in columns if each.terminal]
            with paging(cmd):
                for line in table(cmd, shown, list(found)):
                    data(line, color=True)
            return
        piped = columns if cmd.fields is not None else [each for each in columns if each.pipe]
        for row in found:
            data("\t".join(escape_field(raw(column.of(row))) for column in piped))


def record(
    cmd: Invocation,
    report: Report | Mapping[str, Any],
    lines: Iterable[tuple[str, str]],
    fields: Mapping[str, Any] | None = None,
) -> None:
    """Write one record: `lines` of label and text for people, `field<TAB>value` in a pipe, a JSON document.

    `fields` are those of the report that have one value or a list of texts, unless given.
    """
    plain = report if isinstance(report, Mapping) else report.to_dict()
    if cmd.json:
        document(plain)
        return
    values = fields if fields is not None else {key: each for key, each in plain.items() if _is_simple(each)}
    if cmd.format is not None:
        data(Template(cmd.format, list(values)).fill(values))
    elif cmd.fields is not None:
        data("\t".join(escape_field(raw(values[name])) for name in chosen(cmd.fields, values)))
    elif cmd.for_people():
        on = cmd.paints(sys.stdout)
        for label, text in lines:
            data(f"{paint(f'{label:{_LABEL}}', 'dim', on=on)}  {escape_controls(text)}", color=on)
    else:
        for name, value in values.items():
            data(f"{name}\t{escape_field(raw(value))}")


def line(cmd: Invocation, report: Report, text: str) -> None:
    """Write one text, such as a path, to be used by a script: nothing but the text, unless a form was asked for."""
    if cmd.json or cmd.fields is not None or cmd.format is not None:
        record(cmd, report, ())
    else:
        data(escape_controls(text) if cmd.for_people() else escape_field(text))


def _is_simple(value: Any) -> bool:
    return not isinstance(value, dict) and not (
        isinstance(value, list) and any(isinstance(each, dict) for each in value)
    )


def chosen(text: str, known: Iterable[str]) -> list[str]:
    """The names in --fields, or an error that lists those that there are."""
    names, there = [name.strip() for name in text.split(",")], list(known)
    for name in names:
        if name not in there:
            raise _no_field("--fields", name, there)
    return names


def _no_field(option: str, name: str, known: Sequence[str]) -> InvalidInputError:
    near = close_names(name, known)
    return InvalidInputError(
        f"{option}: there is no field {name!r:.60}",
        code=ErrorCode.BAD_ARGUMENT,
        hint=f"{did_you_mean(near)} the fields are: {', '.join(known)}".strip(),
        candidates=near,
    )


class Template:
    """The text of --format: names in braces, each with a format spec if wanted; no attributes, no indexes."""

    def __init__(self, text: str, known: Sequence[str]) -> None:
        names = [*known, *(["age"] if "created_at" in known else [])]
        self.text = text
        try:
            parts = [(name, spec) for _, name, spec, _ in Formatter().parse(text) if name is not None]
        except ValueError as error:
            raise self._refused(str(error)) from error
        for name, spec in parts:
            if name not in names:
                raise _no_field("--format", name, names)
            if "{" in (spec or ""):
                raise self._refused("a width cannot be a field")

    def fill(self, values: Mapping[str, Any]) -> str:
        """The text for one row."""
        given = {name: _Missing() if each is None else _formatted(each) for name, each in values.items()}
        if "created_at" in values:
            given["age"] = age(values["created_at"])
        try:
            return escape_controls(self.text.format_map(given))
        except (ValueError, TypeError) as error:
            raise self._refused(str(error)) from error

    def _refused(self, why: str) -> InvalidInputError:
        return InvalidInputError(
            f"--format {self.text!r:.80}: {why}",
            code=ErrorCode.BAD_ARGUMENT,
            hint="write field names in braces: '{id:.8} {message}'; {{ and }} are braces themselves",
        )


class _Missing(str):
    """An empty text that takes any format spec."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        width = re.match(r"(?:.?[<>=^])?0?([0-9]+)", spec)
        return " " * int(width[1][:4]) if width else ""


def _formatted(value: Any) -> Any:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else raw(value)


def raw(value: Any) -> str:
    """A value for a program: whole, times as ISO 8601 in UTC, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.6f}"
    if isinstance(value, list | tuple):
        return ",".join(map(raw, value))
    return json_text(value, indent=None) if isinstance(value, dict) else str(value)


def _seen(cmd: Invocation, column: Column, value: Any) -> str:
    """A value for a person."""
    if value is None or value == "":
        return ""
    show = _KINDS.get(column.kind)
    if show is not None:
        return show(value)
    return cmd.when(value) if column.kind == "time" else raw(value)


_KINDS: dict[str, Callable[[Any], str]] = {
    "id": lambda value: value[:8],
    "seq": lambda value: f"#{value}",
    "count": lambda value: f"{value:,}",
    "cost": lambda value: f"${value:,.4g}",
    "size": size_text,
}
_RIGHT = {"seq", "time", "count", "cost", "size"}


def table(cmd: Invocation, columns: Sequence[Column], found: Sequence[Any]) -> Iterator[str]:
    """The lines of an aligned table that fits the terminal; the last column takes what is left."""
    if not found:
        return
    mark, on = ellipsis_for(sys.stdout), cmd.paints(sys.stdout)
    # The widest takes what is left, and so stands last.
    columns = sorted(columns, key=lambda column: column.width == _NO_LIMIT)
    cells = [[escape_controls(_seen(cmd, column, column.of(row))) for column in columns] for row in found]
    # A column that is empty in every row would only take room from the last.
    kept = [
        at
        for at, column in enumerate(columns)
        if at == len(columns) - 1 or len({line[at] for line in cells}) > (1 if column.varied else 0)
        if at == len(columns) - 1 or any(line[at].strip() for line in cells)
    ]
    needed = sum(
        max([len(_header(cmd, columns[at])), *(len(line[at]) for line in cells)]) + 2 for at in kept[:-1]
    )
    if needed + 10 > terminal_width():
        kept = [at for at in kept if not columns[at].spare]
    columns = [columns[at] for at in kept]
    cells = [
        [shorten(line[at], max(columns[i].width, 1), mark=mark) for i, at in enumerate(kept)]
        for line in cells
    ]
    heads = [_header(cmd, column) for column in columns]
    widths = [
        max(text_width(heads[i]), *(text_width(line[i]) for line in cells)) for i in range(len(columns) - 1)
    ]
    widths.append(max(10, terminal_width() - sum(widths) - len(_GAP) * len(widths)))
    digits = _digits([str(c.of(row)) for row in found for c in columns if c.kind == "id"], len(found))

    def joined(line: Sequence[str], styles: Sequence[str | None], *, ids: bool) -> str:
        parts = []
        for text, style, width, column in zip(line, styles, widths, columns, strict=True):
            cut = shorten(text, width, mark=mark)
            if column is not columns[-1]:
                cut = pad(cut, width, right=column.kind in _RIGHT)
            if ids and column.kind == "id" and style and on:
                parts.append(
                    paint(paint(cut[:digits], style, on=on), "bold", on=on)
                    + paint(cut[digits:], "dim", on=on)
                )
            else:
                parts.append(paint(cut, style, on=on) if style else cut)
        return _GAP.join(parts).rstrip()

    yield joined(heads, ["dim"] * len(heads), ids=False)
    for line, row in zip(cells, found, strict=True):
        yield joined(line, [c.style(row) if callable(c.style) else c.style for c in columns], ids=True)


def _header(cmd: Invocation, column: Column) -> str:
    if column.header == "AGE" and cmd.time != "relative":
        return "TIME"
    return column.name.upper() if column.header is None else column.header


def _digits(ids: Sequence[str], count: int) -> int:
    """How many digits of an id are shown as enough to name it: no other that is shown begins with them."""
    ordered = sorted(set(ids))
    shared = [next((at for at in range(8) if a[at] != b[at]), 8) for a, b in pairwise(ordered)]
    return min(8, max([4, math.ceil(math.log(max(count, 2), 16)) + 2, *(each + 1 for each in shared)]))


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


def counted(count: int, one: str, many: str | None = None) -> str:
    """`1 checkpoint`, `2,000 checkpoints`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def say_cut(cmd: Invocation, count: int, what: str = "newest") -> None:
    """Say that a list was cut: `only the newest 50 are shown`."""
    cmd.say(
        f"only the {what} {counted(count, 'row')} {'is' if count == 1 else 'are'} shown; --limit 0 shows all"
    )


def change(
    cmd: Invocation,
    report: CheckpointChange[Any],
    text: str,
    checkpoint: Checkpoint,
    *,
    session: str | None = None,
    note: str = "",
    built_on: Checkpoint | None = None,
) -> None:
    """Tell what was done, or would be, and how to take it back.

    Args:
        cmd: How to speak.
        report: The JSON document.
        text: The plan as a sentence.
        checkpoint: The one that was made or changed.
        session: The session whose log has it, where that is another one.
        note: Something to say after it was done.
        built_on: What a new checkpoint without a key goes on from.
    """
    if cmd.json:
        document(report.to_dict())
        return
    cmd.say_plan(text, dry_run=report.dry_run)
    cmd.say_keyed(built_on)
    if report.dry_run:
        return
    checkpoints(cmd, [checkpoint])
    if note:
        cmd.say(escape_controls(note))
    if report.changed:
        cmd.say_undo(session=session)
