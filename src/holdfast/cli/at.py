"""`holdfast at`: the checkpoint that was the newest at a moment, and by how much it missed it.

What is printed on stdout is that checkpoint. On stderr stands the moment that was understood, because "yesterday 5pm"
is something else tomorrow, and how far from it the neighbours are.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._completing import complete_tag
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._opening import naming_candidates, open_existing, session_of
from holdfast.cli._render import checkpoint_rows, document
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import iso, lasted
from holdfast.errors import ErrorCode, NotFoundError
from holdfast.record import Record

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast import Checkpoint, Session

HELP = """Show the last checkpoint at a moment or before it, in the history of the branch in use.

WHEN is "2 hours ago", "yesterday 17:00", "monday 9:00", 2026-11-15 or 2026-11-15T17:00:00+01:00; local time where it
names no zone.

\b
Examples:
  holdfast at now
  holdfast at "2 hours ago" --nearest
  holdfast at "2025-01-20 14:30:00" --nearest --json
  holdfast at now --tag verified --state
"""


class _Found(Record):
    """What was there at a moment."""

    asked: datetime
    checkpoint: Checkpoint
    after: Checkpoint | None

    @property
    def missed(self) -> timedelta:
        """How long before the moment it was saved; below zero where it came after."""
        return self.asked - self.checkpoint.created_at


@click.command("at", cls=HoldfastCommand, short_help="Show what was newest at a moment", help=HELP)
@click.argument("when", nargs=-1, required=True)
@click.option("--all", "all_branches", is_flag=True, help="Over all branches of the session")
@click.option(
    "--tag", metavar="TAG", shell_complete=complete_tag, help="Only checkpoints with this tag count"
)
@click.option("--nearest", is_flag=True, help="Where all are younger: the first one")
@click.option("--state", "with_state", is_flag=True, help="Print the state instead, as show --state does")
@pass_settings
def command(
    settings: Settings,
    when: Sequence[str],
    *,
    all_branches: bool,
    tag: str | None,
    nearest: bool,
    with_state: bool,
) -> None:
    """Print the checkpoint, or its state."""
    with open_existing(settings) as store, naming_candidates(store, settings):
        session = session_of(store, settings)
        found = _find(session, " ".join(when), tag=tag, all_branches=all_branches, nearest=nearest)
        state = session.load(found.checkpoint) if with_state else None
        url = store.url
    settings.say(iso(found.asked), label="asked: ")
    settings.say(
        f"#{found.checkpoint.seq}, {missed_text(found.missed)}; {_next_text(found)}", label="found: "
    )
    if with_state:
        from holdfast.cli.show import write_state

        write_state(settings, state, found.checkpoint.id[:12])
    elif settings.json:
        document(
            {
                "store": url,
                "session": session.id,
                "asked": iso(found.asked),
                "missed_seconds": found.missed.total_seconds(),
                "checkpoint": found.checkpoint.to_dict(),
                "next": None if found.after is None else found.after.to_dict(),
            }
        )
    else:
        checkpoint_rows(settings, [found.checkpoint])


def _find(session: Session, when: str, *, nearest: bool, **which: Any) -> _Found:
    from holdfast import parse_time

    moment = parse_time(when, what="WHEN")
    try:
        around = session.around(moment, **which)
    except NotFoundError as error:
        if error.code is not ErrorCode.BEFORE_HISTORY:
            raise
        if not nearest:
            error.hint += "; --nearest takes it"
            raise
        first = session.checkpoint(error.details["first"]["id"])
        # What follows the first one is what lies around the moment at which it was saved.
        return _Found(moment, first, session.around(first.created_at, **which).after)
    return _Found(around.asked, around.before, around.after)


def missed_text(missed: timedelta) -> str:
    """By how much, and in which direction: `3 m 12 s before the asked time`."""
    if not missed:
        return "exactly at the asked time"
    side = "before" if missed > timedelta() else "after"
    return f"{lasted(abs(missed), gap=' ')} {side} the asked time"


def _next_text(found: _Found) -> str:
    if found.after is None:
        return "none after it"
    return f"next one {lasted(found.after.created_at - found.asked, gap=' ')} after"
