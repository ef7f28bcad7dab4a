"""`holdfast clear`: take every checkpoint and every branch of a session out of history.

They are hidden, not destroyed: one undo brings all of them back until gc has removed them for good.
"""

from __future__ import annotations

import click

from holdfast.cli._confirming import confirm, say_undo, yes_option
from holdfast.cli._figures import counted, figures
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._opening import missing_session, session_of
from holdfast.cli._planning import dry_run_option, head_of, open_for, say_dry_run, say_plan
from holdfast.cli._render import document
from holdfast.cli._settings import Settings, pass_settings

HELP = """Remove every checkpoint and every branch of the session from history. The session itself stays, empty.

One undo brings all of it back, until gc has removed it for good. Where a checkpoint is pinned it needs --force.

\b
Examples:
  holdfast clear --dry-run
  holdfast clear --session default --yes
"""


@click.command("clear", cls=HoldfastCommand, short_help="Remove all checkpoints of a session", help=HELP)
@click.option("--force", is_flag=True, help="Also those that are pinned")
@yes_option
@dry_run_option
@pass_settings
def command(settings: Settings, *, force: bool, yes: bool, dry_run: bool) -> None:
    """Say what goes, ask, and clear."""
    if "branch" in settings.typed:
        raise click.UsageError("--branch does not apply: a session is cleared whole")
    # Tried first: what cannot be done is not asked about.
    with open_for(settings, dry_run=True) as store:
        session = session_of(store, settings)
        if settings.session not in (each.id for each in store.sessions()):
            raise missing_session(store, settings.session)
        branches = [each.name for each in session.branches()]
        removed, url = session.clear(force=force), store.url
    what = f"{counted(removed, 'checkpoint')} and {counted(len(branches), 'branch', 'branches')}"
    if removed:
        say_plan(settings, f"session {session.id}; {what} are removed from history")
    else:
        say_plan(settings, f"session {session.id}; there is nothing to remove")
    if removed and not dry_run:
        confirm(settings, f"{what} of session {session.id} will be removed", yes=yes)
        with open_for(settings, dry_run=False) as store:
            # Counted anew: what was saved while somebody was thinking goes too.
            removed = session_of(store, settings).clear(force=force)
    plan = {"session": session.id, "checkpoints": removed, "branches": branches}
    if settings.json:
        document(head_of(url, plan, dry_run=dry_run, changed=bool(removed)))
    elif dry_run:
        say_dry_run(settings)
    else:
        lines = [("session", session.id), ("checkpoints", f"{removed:,} removed")]
        figures(settings, plan, lines)
        if removed:
            say_undo(settings)
