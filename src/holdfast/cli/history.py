"""`holdfast history`: what was at a path over time, one change a line, with a small curve where it is a number."""

from __future__ import annotations

import csv
import io
import math
import sys
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._completing import RefArgument
from holdfast.cli._figures import newest_shown
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._missing_part import explaining
from holdfast.cli._opening import naming_candidates, open_existing, session_of
from holdfast.cli._paging import paging
from holdfast.cli._render import Column, data, json_text, table, time_column
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import escape_controls, escape_field, is_terminal, iso, paint, terminal_width
from holdfast.cli._values import json_line, json_member, one_line
from holdfast.record import Record

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast import PathChange, Session

HELP = """Show what was at a path over time: each change, newest first.

\b
Examples:
  holdfast history score
  holdfast history beliefs.b7.confidence --oldest-first
  holdfast history score '#2..#9' --csv
"""

_SCREEN = 50
_BARS = "▁▂▃▄▅▆▇█"
_HEADER = ("id", "seq", "created_at", "op", "value")


class _Row(Record):
    """A change as a line of the table."""

    change: PathChange

    @property
    def created_at(self) -> datetime:
        return self.change.checkpoint.created_at


def _step(step: int | None) -> str:
    return "" if step is None else str(step)


_COLUMNS = [
    Column("ID", lambda row: row.change.checkpoint.id[:8], style=lambda _: "yellow"),
    Column("SEQ", lambda row: f"#{row.change.checkpoint.seq}", right=True),
    Column("STEP", lambda row: _step(row.change.checkpoint.step), right=True),
    Column(
        "VALUE",
        lambda row: "(removed)" if row.change.op == "remove" else one_line(row.change.value),
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
        with explaining(session, session.checkpoint(_end(ref))):
            # One more than is shown says whether there are more.
            most = limit + 1 if people and limit else limit or None
            found = session.history_of(path, ref, oldest_first=oldest_first, exact=not leap, limit=most)
            if not people:
                _write(settings, session, path, found, as_csv=as_csv)
                return
            shown = list(found)
    more = bool(limit) and len(shown) > limit
    with paging(settings):
        _draw(settings, path, shown[: limit or None], oldest_first=oldest_first)
    if more:
        settings.say(
            f"the first {limit:,} are shown; --limit 0 shows all" if oldest_first else newest_shown(limit)
        )


def _end(ref: str) -> str:
    """The newest checkpoint of what may be a range."""
    return ref.partition("..")[2] or "@" if ".." in ref else ref


def _draw(settings: Settings, path: str, shown: Sequence[PathChange], *, oldest_first: bool) -> None:
    ordered = shown if oldest_first else shown[::-1]
    numbers = [
        float(each.value)
        for each in ordered
        if type(each.value) in (int, float) and abs(each.value) < 1e300 and math.isfinite(each.value)
    ]
    curve = sparkline(numbers, max(10, min(60, terminal_width() - 40)))
    if curve and len(numbers) > 1:
        on = settings.paints(sys.stdout)
        low, high = min(numbers), max(numbers)
        words = f"  {low:g} to {high:g}, now {numbers[-1]:g}"
        data(f"{escape_controls(path)}  {paint(curve, 'cyan', on=on)}{words}", color=on)
    rows = [_Row(each) for each in shown]
    columns = [*_COLUMNS[:2], time_column(settings), *_COLUMNS[2:]]
    for line in table(settings, columns, rows):
        data(line, color=True)


def sparkline(numbers: Sequence[float], width: int) -> str:
    """Numbers as a row of bars, oldest first; several in one bar where there are more than fit."""
    try:
        _BARS.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):  # an old locale: no bars
        return ""
    if not numbers:
        return ""
    count = min(width, len(numbers))
    bounds = [at * len(numbers) // count for at in range(count + 1)]
    means = [math.fsum(numbers[start:stop]) / (stop - start) for start, stop in pairwise(bounds)]
    low, high = min(means), max(means)
    span = high - low
    if not span or not math.isfinite(span):
        return _BARS[3] * count
    return "".join(_BARS[min(7, int((mean - low) / span * 8))] for mean in means)


def _write(
    settings: Settings, session: Session, path: str, found: Iterator[PathChange], *, as_csv: bool
) -> None:
    # Where there is nothing at the path, that shows here, before anything is written.
    first = next(found, None)
    found = chain([] if first is None else [first], found)
    if settings.json:
        _write_json(session, path, found)
    elif as_csv:
        data(_csv_line(_HEADER))
        for each in found:
            data(_csv_line([*_who(each), each.op, _cell(each)]))
    else:
        for each in found:
            value = "" if each.op == "remove" else json_line(each.value)
            old = "" if each.op == "add" else json_line(each.old)
            data("\t".join(map(escape_field, [*_who(each), each.op, value, old])))


def _who(change: PathChange) -> list[str]:
    checkpoint = change.checkpoint
    return [checkpoint.id, str(checkpoint.seq), iso(checkpoint.created_at)]


def _cell(change: PathChange) -> str:
    """A value in CSV: a text as it is, everything else as JSON."""
    if change.op == "remove":
        return ""
    value: Any = change.value
    text = value if isinstance(value, str) else json_line(value)
    return escape_controls(text) if is_terminal(sys.stdout) else text.encode("utf-8", "replace").decode()


def _csv_line(fields: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()


def _write_json(session: Session, path: str, found: Iterator[PathChange]) -> None:
    """Write each change as it is found: a long history is never whole in memory."""
    data(json_text({"session": session.id, "path": path})[: -len("\n}")] + ',\n  "changes": [')
    held = ""
    for each in found:
        if held:
            data(held + ",")
        head = json_text({"op": each.op, "checkpoint": each.checkpoint.to_dict()})[: -len("\n}")]
        members = [json_member("value", each.value), json_member("old", each.old)]
        text = "".join([head, *(f",\n  {member}" for member in members), "\n}"])
        # No text in JSON has a line end in it: each of them is between tokens.
        held = "    " + text.replace("\n", "\n    ")
    if held:
        data(held)
    data("  ]\n}")
