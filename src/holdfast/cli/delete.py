"""`holdfast delete`: take one checkpoint out of history.

It is hidden, not destroyed: undo brings it back until gc has removed it for good.
"""

from __future__ import annotations

import click

from holdfast.cli._completing import RefArgument
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._opening import session_of
from holdfast.cli._planning import Outcome, dry_run_option, number_of, open_for, report
from holdfast.cli._settings import Settings, pass_settings

HELP = """Remove a checkpoint from history. A branch whose newest one it is moves back by one.

Undo brings it back, until gc has removed it for good. One that is pinned, or where branches part, needs --force.

\b
Examples:
  holdfast delete @
  holdfast delete "#2" --dry-run
  holdfast delete tag:verified --force
"""


@click.command("delete", cls=HoldfastCommand, short_help="Remove a checkpoint from history", help=HELP)
@click.argument("ref", type=RefArgument())
@click.option("--force", is_flag=True, help="Also if it is pinned, or branches part there")
@dry_run_option
@pass_settings
def command(settings: Settings, ref: str, *, force: bool, dry_run: bool) -> None:
    """Delete, and print the row of what was removed."""
    with open_for(settings, dry_run=dry_run) as store:
        session = session_of(store, settings)
        target = session.checkpoint(ref)
        moved = [each.name for each in session.branches() if each.head.id == target.id]
        removed = session.delete(target, force=force)
        before = None if removed.prev is None else number_of(session, removed.prev)
        url = store.url
    text = f"session {session.id}; #{removed.seq} is removed from history"
    if moved:
        back = "goes with it, as it has no other checkpoint" if before is None else f"moves back to {before}"
        text += f", branch {', '.join(moved)} {back}"
    head = removed.prev if moved else None
    plan = {"session": session.id, "checkpoint": removed.id, "branches": moved, "head": head}
    report(settings, url, Outcome(plan, text, removed), dry_run=dry_run)
