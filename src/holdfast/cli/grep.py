"""`holdfast grep`: texts in the states of a history that match, newest checkpoint first."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._completing import RefArgument
from holdfast.cli._figures import first_shown
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._opening import naming_candidates, open_existing, session_of
from holdfast.cli._paging import paging
from holdfast.cli._render import data, document
from holdfast.cli._searching import notes_instead_of_warnings, say_notes
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import (
    ellipsis_for,
    escape_controls,
    escape_field,
    iso,
    paint,
    shorten,
    terminal_width,
    text_width,
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
    with open_existing(settings) as store, naming_candidates(store, settings), notes_instead_of_warnings():
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
            head = {"session": settings.session, "pattern": pattern, "matches": matches}
            document(head | {"more": shown.more, "notes": list(found.notes)})
        elif settings.for_people():
            with paging(settings):
                _draw(settings, shown)
        else:
            for each in shown:
                data("\t".join(map(escape_field, _fields(each))))
    say_notes(settings, found.notes)
    if not shown.count:
        settings.say(f"nothing matches {pattern!r:.80}")
    elif shown.more:
        settings.say(first_shown(limit))
    if shown.again and not new:
        settings.say("--new shows only where a text came in")
    return int(not shown.count)


class _Counted:
    """Matches on their way out: how many there were, whether there are more, and whether one came more than once."""

    def __init__(self, found: Iterator[GrepMatch], limit: int) -> None:
        self._found = found
        self._limit = limit
        self.count = 0
        self.more = False
        self.again = False
        self._last: dict[tuple[str, str], None] = {}

    def __iter__(self) -> Iterator[GrepMatch]:
        for each in self._found:
            if self._limit and self.count == self._limit:
                self.more = True
                return
            self.count += 1
            self._watch(each)
            yield each

    def _watch(self, match: GrepMatch) -> None:
        place = match.path, match.text
        self.again = self.again or place in self._last
        if not self.again and len(self._last) < _SCREEN:
            self._last[place] = None


def _draw(settings: Settings, matches: Any) -> None:
    on, mark = settings.paints(sys.stdout), ellipsis_for(sys.stdout)
    for _, group in groupby(matches, key=lambda match: match.checkpoint.id):
        some = list(group)
        c = some[0].checkpoint
        when = settings.when(c.created_at)
        room = max(10, terminal_width() - len(f"{c.id[:8]}  #{c.seq}  {when}  "))
        message = shorten(escape_controls(c.message), room, mark=mark)
        head = f"{paint(c.id[:8], 'yellow', on=on)}  #{c.seq}  {paint(when, 'dim', on=on)}  {message}"
        data(head.rstrip(), color=on)
        for match in some:
            data("  " + _line(match, terminal_width() - 2, mark, on=on), color=on)


def _line(match: GrepMatch, width: int, mark: str, *, on: bool) -> str:
    """The place and what is around the match, with the match itself in a colour."""
    place = shorten(escape_controls(match.path), max(20, width // 2), mark=mark)
    room = max(20, width - text_width(place) - 2)
    hit = shorten(escape_controls(match.text[match.start : match.stop]), room, mark=mark)
    left = room - text_width(hit)
    after = escape_controls(match.text[match.stop :])
    # A third of the room is for what comes before, and all that what comes after does not need.
    before = _end_of(
        escape_controls(match.text[: match.start]), max(left // 3, left - text_width(after)), mark
    )
    after = shorten(after, max(0, left - text_width(before)), mark=mark)
    return f"{paint(place, 'blue', on=on)}  {before}{paint(hit, 'red', on=on)}{after}"


def _end_of(text: str, width: int, mark: str) -> str:
    """The end of a text in at most `width` columns, with `mark` where the rest was."""
    if text_width(text) <= width:
        return text
    cut = text[-width:] if width else ""
    while cut and text_width(cut) > width - text_width(mark):
        cut = cut[1:]
    return mark + cut if width >= text_width(mark) else ""


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
