"""`holdfast grep`: texts in the states of a history that match, newest checkpoint first."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._completing import RefArgument
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._opening import naming_candidates, open_existing, session_of
from holdfast.cli._paging import paging
from holdfast.cli._render import data, document
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import (
    ellipsis_for,
    escape_controls,
    escape_field,
    iso,
    paint,
    shorten,
    terminal_width,
)

if TYPE_CHECKING:
    from holdfast import GrepMatch

HELP = """Find texts in the states of a history, newest checkpoint first.

A text counts once in each state that has it; --new shows only where it came in. Ends with 1 where nothing matches.

\b
Examples:
  holdfast grep 'rate limit'
  holdfast grep timeout --new --path messages
  holdfast grep -i -E 'error|failed' '#2..#9'
"""

_SCREEN = 50


@click.command("grep", cls=HoldfastCommand, short_help="Find texts in the states of a history", help=HELP)
@click.argument("pattern")
@click.argument("ref", type=RefArgument(), default="@")
@click.option("--path", metavar="PATH", help="Only in this part of each state")
@click.option("-E", "--regex", is_flag=True, help="PATTERN is a regular expression")
@click.option("-i", "--ignore-case", is_flag=True, help="Capital and small letters are the same")
@click.option("--new", is_flag=True, help="Only where a text came in")
@click.option(
    "--limit", type=click.IntRange(min=0), metavar="N", help="At most so many; 0 for all  [terminal: 50]"
)
@pass_settings
def command(
    settings: Settings,
    pattern: str,
    ref: str,
    *,
    path: str | None,
    regex: bool,
    ignore_case: bool,
    new: bool,
    limit: int | None,
) -> int:
    """Print the matches."""
    if limit is None:
        limit = _SCREEN if settings.for_people() else 0
    with open_existing(settings) as store, naming_candidates(store, settings):
        found = session_of(store, settings).grep(
            pattern,
            ref,
            path=path,
            regex=regex,
            ignore_case=ignore_case,
            new=new,
            # One more than is shown says whether there are more.
            limit=limit + 1 if limit else None,
        )
        shown = _Counted(found, limit)
        if settings.json:
            matches = [_plain(each) for each in shown]
            document(
                {"session": settings.session, "pattern": pattern, "matches": matches, "more": shown.more}
            )
        elif settings.for_people():
            with paging(settings):
                _draw(settings, shown)
        else:
            for each in shown:
                data("\t".join(map(escape_field, _fields(each))))
    if not shown.count:
        settings.say(f"nothing matches {pattern!r:.80}")
    elif shown.more:
        settings.say(f"the first {limit:,} are shown; --limit 0 shows all")
    return int(not shown.count)


class _Counted:
    """Matches on their way out: how many there were, and whether there are more than asked for."""

    def __init__(self, found: Iterator[GrepMatch], limit: int) -> None:
        self._found = found
        self._limit = limit
        self.count = 0
        self.more = False

    def __iter__(self) -> Iterator[GrepMatch]:
        for each in self._found:
            if self._limit and self.count == self._limit:
                self.more = True
                return
            self.count += 1
            yield each


def _draw(settings: Settings, matches: Any) -> None:
    on, mark = settings.paints(sys.stdout), ellipsis_for(sys.stdout)
    for _, group in groupby(matches, key=lambda match: match.checkpoint.id):
        some = list(group)
        c = some[0].checkpoint
        when = paint(settings.when(c.created_at), "dim", on=on)
        head = f"{paint(c.id[:8], 'yellow', on=on)}  #{c.seq}  {when}  {escape_controls(c.message)}"
        data(head.rstrip(), color=on)
        for match in some:
            data("  " + _line(match, terminal_width() - 2, mark, on=on), color=on)


def _line(match: GrepMatch, width: int, mark: str, *, on: bool) -> str:
    """The place and what is around the match, with the match itself in a colour."""
    place = shorten(escape_controls(match.path), max(20, width // 2), mark=mark)
    room = max(20, width - len(place) - 2)
    hit = shorten(escape_controls(match.text[match.start : match.stop]), room, mark=mark)
    before = escape_controls(match.text[: match.start])
    left = max(0, (room - len(hit)) // 3)
    before = before if len(before) <= left else mark + before[len(before) - max(0, left - len(mark)) :]
    after = shorten(
        escape_controls(match.text[match.stop :]), max(1, room - len(before) - len(hit)), mark=mark
    )
    return f"{paint(place, 'blue', on=on)}  {before}{paint(hit, 'red', on=on)}{after}"


def _fields(match: GrepMatch) -> list[str]:
    made = match.checkpoint
    return [made.id, str(made.seq), iso(made.created_at), match.path, match.text, str(match.offset)]


def _plain(match: GrepMatch) -> dict[str, Any]:
    made = match.checkpoint
    return {
        "id": made.id,
        "seq": made.seq,
        "created_at": iso(made.created_at),
        "message": made.message,
        "path": match.path,
        "text": match.text,
        "start": match.start,
        "stop": match.stop,
        "offset": match.offset,
    }
