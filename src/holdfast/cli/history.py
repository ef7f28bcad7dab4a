"""`holdfast history`: what was at a path over time, one change a line, with a small curve where it is a number."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._completing import RefArgument
from holdfast.cli._figures import counted, first_shown, newest_shown
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._missing_part import explaining
from holdfast.cli._opening import naming_candidates, open_existing, session_of
from holdfast.cli._paging import paging
from holdfast.cli._render import Column, data, json_text, table, time_column
from holdfast.cli._searching import looking_everywhere, notes_instead_of_warnings, say_notes
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import (
    ellipsis_for,
    escape_controls,
    escape_field,
    is_terminal,
    iso,
    paint,
    shorten,
    terminal_width,
    text_width,
)
from holdfast.cli._values import NO_VALUE, json_line, json_member, what_is_new
from holdfast.record import Record

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast import Findings, PathChange, Session

HELP = """Show what was at a path over time: each change, newest first.

\b
Examples:
  holdfast history score
  holdfast history beliefs.b7.confidence --oldest-first
  holdfast history score '#2..#9' --csv
"""

_SCREEN = 50
_BESIDE = 36
"""Columns that the others take beside the value."""
_BARS = "▁▂▃▄▅▆▇█"
_HEADER = ("id", "seq", "created_at", "op", "value", "step")


class _Row(Record):
    """A change as a line of the table."""

    change: PathChange

    @property
    def created_at(self) -> datetime:
        return self.change.checkpoint.created_at


def _step(step: int | None) -> str:
    return "" if step is None else str(step)


def _shown(change: PathChange) -> str:
    return what_is_new(change.value, change.old, max(20, terminal_width() - _BESIDE))


_COLUMNS = [
    Column("ID", lambda row: row.change.checkpoint.id[:8], style=lambda _: "yellow"),
    Column("SEQ", lambda row: f"#{row.change.checkpoint.seq}", right=True),
    Column("STEP", lambda row: _step(row.change.checkpoint.step), right=True),
    Column(
        "VALUE",
        lambda row: "(removed)" if row.change.op == "remove" else _shown(row.change),
        most=10_000,
    ),
]


@click.command("history", cls=HoldfastCommand, short_help="Show a value over time", help=HELP)
@click.argument("path")
@click.argument("ref", type=RefArgument(), default="@")
@click.option("--oldest-first", is_flag=True, help="From the beginning on")
@click.option(
    "--leap", is_flag=True, help="Look into fewer states; a change that was taken back may be missed"
)
@click.option("--csv", "as_csv", is_flag=True, help="Write CSV, with a header")
@click.option(
    "--limit", type=click.IntRange(min=0), metavar="N", help="At most so many; 0 for all  [terminal: 50]"
)
@pass_settings
def command(
    settings: Settings,
    path: str,
    ref: str,
    *,
    oldest_first: bool,
    leap: bool,
    as_csv: bool,
    limit: int | None,
) -> None:
    """Print the changes."""
    if as_csv and settings.json:
        raise click.UsageError("--csv excludes --json")
    people = settings.for_people() and not as_csv
    if limit is None:
        limit = _SCREEN if people else 0
    with open_existing(settings) as store, naming_candidates(store, settings):
        session = session_of(store, settings)
        everywhere = looking_everywhere("without --leap it") if leap else nullcontext()
        newest = session.checkpoint(_end(ref))
        with everywhere, explaining(session, newest), notes_instead_of_warnings():
            # One more than is shown says whether there are more.
            most = limit + 1 if people and limit else limit or None
            found = session.history_of(path, ref, oldest_first=oldest_first, exact=not leap, limit=most)
            if not people:
                _write(settings, session, path, found, as_csv=as_csv)
                say_notes(settings, found.notes)
                return
            shown = list(found)
    more = bool(limit) and len(shown) > limit
    with paging(settings):
        rows = shown[: limit or None]
        # Where the newest is not among them, nothing is said of how it ended.
        at_last = "" if more and oldest_first else "now" if ref == "@" else "then"
        _draw_curve(settings, path, rows if oldest_first else rows[::-1], at_last)
        _draw(settings, rows)
    say_notes(settings, found.notes)
    if more:
        settings.say(first_shown(limit) if oldest_first else newest_shown(limit))


def _end(ref: str) -> str:
    """The newest checkpoint of what may be a range."""
    return ref.partition("..")[2] or "@" if ".." in ref else ref


def _draw(settings: Settings, shown: Sequence[PathChange]) -> None:
    rows = [_Row(each) for each in shown]
    columns = [*_COLUMNS[:2], time_column(settings), *_COLUMNS[2:]]
    for line in table(settings, columns, rows):
        data(line, color=True)


def _draw_curve(settings: Settings, path: str, ordered: Sequence[PathChange], at_last: str) -> None:
    """The numbers as a curve above the table, oldest first, with a gap where there is none."""
    values = [_number(each) for each in ordered]
    numbers = [each for each in values if each is not None]
    if len(numbers) < 2:
        return
    low, high = min(numbers), max(numbers)
    words = f"always {low:g}" if low == high else f"{low:g} to {high:g}"
    ended = values[-1]
    if at_last and (ended is None or low != high):
        words += f", {at_last} {_ended(ordered[-1]) if ended is None else format(ended, 'g')}"
    if huge := sum(map(_is_huge, ordered)):
        words += f"; {counted(huge, 'number')} too large to draw"
    width = terminal_width()
    name = shorten(escape_controls(path), max(20, width // 3), mark=ellipsis_for(sys.stdout))
    curve = sparkline(values, max(8, min(60, width - text_width(name) - len(words) - 4)))
    if curve:
        on = settings.paints(sys.stdout)
        data(f"{name}  {paint(curve, 'cyan', on=on)}  {words}", color=on)


def _ended(change: PathChange) -> str:
    return "removed" if change.op == "remove" else "too large" if _is_huge(change) else "no number"


def _number(change: PathChange) -> float | None:
    value = change.value
    if type(value) not in (int, float) or _is_huge(change):
        return None
    return float(value) if math.isfinite(value) else None


def _is_huge(change: PathChange) -> bool:
    """Whether it is a whole number that is larger than any float."""
    return type(change.value) is int and abs(change.value) > sys.float_info.max


def sparkline(values: Sequence[float | None], width: int) -> str:
    """Numbers as a row of bars, oldest first; several in one bar where there are more than fit, none for a None."""
    try:
        _BARS.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):  # an old locale: no bars
        return ""
    count = min(width, len(values))
    bounds = [at * len(values) // count for at in range(count + 1)] if count else []
    means = [_mean(values[start:stop]) for start, stop in pairwise(bounds)]
    known = [mean for mean in means if mean is not None]
    if not known:
        return ""
    # Halves: the way from the lowest float to the highest is longer than any float.
    low, span = min(known) / 2, max(known) / 2 - min(known) / 2
    if not span:
        return "".join(" " if mean is None else _BARS[3] for mean in means)
    return "".join(" " if mean is None else _BARS[min(7, int((mean / 2 - low) / span * 8))] for mean in means)


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [each for each in values if each is not None]
    if not numbers:
        return None
    try:
        return math.fsum(numbers) / len(numbers)
    except OverflowError:
        # The sum is larger than any float, and the mean is not.
        return math.fsum(each / len(numbers) for each in numbers)


def _write(
    settings: Settings, session: Session, path: str, found: Findings[PathChange], *, as_csv: bool
) -> None:
    # Where there is nothing at the path, that shows here, before anything is written.
    first = next(found, None)
    changes = chain([] if first is None else [first], found)
    if settings.json:
        _write_json(session, path, changes, found)
    elif as_csv:
        data(_csv_line(_HEADER))
        for each in changes:
            data(",".join([_csv_line([*_who(each), each.op]), _cell(each), _step(each.checkpoint.step)]))
    else:
        for each in changes:
            value = NO_VALUE if each.op == "remove" else json_line(each.value)
            old = NO_VALUE if each.op == "add" else json_line(each.old)
            data("\t".join(map(escape_field, [*_who(each), each.op, value, old])))


def _who(change: PathChange) -> list[str]:
    checkpoint = change.checkpoint
    return [checkpoint.id, str(checkpoint.seq), iso(checkpoint.created_at)]


def _cell(change: PathChange) -> str:
    """A value in CSV: a text in quotes, so that nothing else looks like it; a number as it is, the rest as JSON."""
    if change.op == "remove":
        return ""
    value: Any = change.value
    if type(value) is float and not math.isfinite(value):
        # JSON has no such numbers, and would have an object here; every program that reads CSV knows these words.
        return str(value)
    is_text = isinstance(value, str)
    text = value if is_text else json_line(value)
    shown = escape_controls(text) if is_terminal(sys.stdout) else text.encode("utf-8", "replace").decode()
    return _csv_field(shown, quoted=is_text)


def _csv_line(fields: Sequence[str]) -> str:
    return ",".join(map(_csv_field, fields))


def _csv_field(text: str, *, quoted: bool = False) -> str:
    # Written here: Python's writer cannot quote some fields and leave an empty one as it is before 3.12.
    if not quoted and not any(sign in text for sign in ',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


def _write_json(
    session: Session, path: str, changes: Iterator[PathChange], found: Findings[PathChange]
) -> None:
    """Write each change as it is found: a long history is never whole in memory."""
    data(json_text({"session": session.id, "path": path})[: -len("\n}")] + ',\n  "changes": [')
    held = ""
    for each in changes:
        if held:
            data(held + ",")
        skipped = [passed.to_dict() for passed in each.skipped]
        head = json_text({"op": each.op, "checkpoint": each.checkpoint.to_dict(), "skipped": skipped})[
            : -len("\n}")
        ]
        members = [json_member("value", each.value), json_member("old", each.old)]
        text = "".join([head, *(f",\n  {member}" for member in members), "\n}"])
        # No text in JSON has a line end in it: each of them is between tokens.
        held = "    " + text.replace("\n", "\n    ")
    if held:
        data(held)
    # Only now is it known which states could not be read.
    data('  ],\n  "notes": ' + json_text(list(found.notes)).replace("\n", "\n  ") + "\n}")
