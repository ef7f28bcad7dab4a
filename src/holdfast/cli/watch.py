"""`holdfast watch`: checkpoints as they are saved, by this process's neighbours or by anybody else.

One line a checkpoint, written at once. It ends with Ctrl-C, when the reader goes away, or when none came for --timeout
seconds. With --json each line is a JSON object of its own.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click

from holdfast.cli._completing import RefArgument
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._input import moment_of
from holdfast.cli._opening import naming_candidates, open_existing, session_of
from holdfast.cli._render import TSV_COLUMNS, data, json_text
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import (
    ellipsis_for,
    escape_controls,
    escape_field,
    pad,
    paint,
    shorten,
    show_time,
    terminal_width,
    text_width,
)
from holdfast.errors import ErrorCode, InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast import Checkpoint, Store

_PAGE = 1000
"""Rows per question: only the oldest that match is wanted, and it is the last one."""

_SESSION = 16
"""Columns for the name of a session: rows come one by one, so that no wider one is known yet."""

_REF = re.compile(r"[@#]|tag:|key:|[0-9a-f]{4,}$", re.IGNORECASE)
"""What can be nothing but a ref; any other word could have been meant as a time."""

HELP = """Show checkpoints as they are saved, by any process: of every session, or with --session of one.

It ends with Ctrl-C, or when none came for --timeout seconds. --since takes a time (30m, 2d, "2 hours ago", 2026-11-15)
or a REF.

\b
Examples:
  holdfast watch --timeout 0.5
  holdfast watch --after @~2 --timeout 0
  holdfast watch --since 1h --timeout 0
  holdfast watch --session default --timeout 0.5 --json
"""


@click.command("watch", cls=HoldfastCommand, short_help="Show checkpoints as they are saved", help=HELP)
@click.option(
    "--after",
    type=RefArgument(),
    metavar="REF",
    help="Begin with what came after this checkpoint  [default: now]",
)
@click.option(
    "--since",
    type=RefArgument(),
    metavar="TIME",
    help="Begin with what was saved at or after this time, or after this REF",
)
@click.option("--timeout", type=click.FloatRange(min=0), metavar="S", help="End when none came for S seconds")
@pass_settings
def command(settings: Settings, *, after: str | None, since: str | None, timeout: float | None) -> None:
    """Print what comes."""
    if "branch" in settings.typed:
        raise click.UsageError("--branch does not apply: a session is watched on all of its branches")
    if after is not None and since is not None:
        raise click.UsageError("--after and --since both say where to begin: give one")
    one = settings.session if "session" in settings.typed else None
    moment = None if since is None else _moment(settings, since)
    with open_existing(settings) as store:
        if one is not None and one not in (each.id for each in store.sessions()):
            settings.say(escape_controls(f"there is no session {one} yet: waiting for its first checkpoint"))
        begin = None
        if moment is not None and (begin := _first_since(store, one, moment)) is not None:
            _tell(settings, begin, sessions=one is None)
        elif moment is None and (ref := after if since is None else since) is not None:
            begin = _after(store, settings, ref, since=since is not None)
        for checkpoint in store.watch(after=begin, session=one, timeout=timeout):
            # Where clocks differ, one that came later can say that it was saved before.
            if moment is None or checkpoint.created_at >= moment:
                _tell(settings, checkpoint, sessions=one is None)


def _moment(settings: Settings, text: str) -> datetime | None:
    """The time that --since means; None where it is none, and so a ref."""
    try:
        return moment_of(settings, "since", text)
    except InvalidInputError:
        return None


def _after(store: Store, settings: Settings, ref: str, *, since: bool) -> Checkpoint:
    try:
        with naming_candidates(store, settings):
            return session_of(store, settings).checkpoint(ref)
    except (NotFoundError, InvalidInputError) as error:
        if since:
            if error.code in (ErrorCode.CHECKPOINT_MISSING, ErrorCode.BAD_REF) and not _REF.match(ref):
                error.args = (f"--since: {ref!r:.60} is neither a time nor a ref: {error}", *error.args[1:])
            error.hint += "; a time is written 30m, 1h, 2d, '2 hours ago' or 2026-11-15"
        raise


def _first_since(store: Store, session: str | None, moment: datetime) -> Checkpoint | None:
    """The first checkpoint that came of those that were saved since then."""
    last: Checkpoint | None = None
    while page := store.find(session=session, since=moment, before=last, limit=_PAGE):
        last = page[-1]
    return last


def _tell(settings: Settings, checkpoint: Checkpoint, *, sessions: bool) -> None:
    _write(settings, checkpoint, sessions=sessions)
    # Whoever reads it wants it now, not when a buffer is full; and a reader that went away is noticed.
    sys.stdout.flush()


def _write(settings: Settings, checkpoint: Checkpoint, *, sessions: bool) -> None:
    if settings.json:
        data(json_text({"type": "checkpoint", "checkpoint": checkpoint.to_dict()}, indent=None))
    elif settings.for_people():
        data(_line(settings, checkpoint, sessions=sessions), color=True)
    else:
        data("\t".join(escape_field(field(checkpoint)) for field in TSV_COLUMNS.values()))


def _line(settings: Settings, checkpoint: Checkpoint, *, sessions: bool) -> str:
    on, mark = settings.paints(sys.stdout), ellipsis_for(sys.stdout)
    # A line stays on the screen: how long ago it was would soon be wrong.
    choice = "local" if settings.time == "relative" else settings.time
    parts = [
        (show_time(checkpoint.created_at, choice), "dim"),
        (checkpoint.id[:8], "yellow"),
        (f"#{checkpoint.seq}", None),
    ]
    if sessions:
        parts.append((pad(shorten(escape_controls(checkpoint.session), _SESSION, mark=mark), _SESSION), None))
    if checkpoint.branch != "main":
        parts.append((shorten(escape_controls(checkpoint.branch), _SESSION, mark=mark), "blue"))
    if checkpoint.tags:
        parts.append((shorten(escape_controls(",".join(checkpoint.tags)), 24, mark=mark), "cyan"))
    used = sum(text_width(text) + 2 for text, _ in parts)
    message = shorten(escape_controls(checkpoint.message), max(10, terminal_width() - used), mark=mark)
    shown = [paint(text, style, on=on) if style else text for text, style in parts]
    return "  ".join([*shown, message]).rstrip()
