"""`holdfast switch`: go to another branch, and stay there between commands.

Only people move by it: a program goes on with the branch it was told.
"""

from __future__ import annotations

import click

from holdfast.cli._completing import complete_branch
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._opening import session_of
from holdfast.cli._planning import Outcome, dry_run_option, open_for, report, say_unseen
from holdfast.cli._settings import Settings, pass_settings

HELP = """Go to the branch NAME: from now on commands use it where no --branch is given.

Programs that save are not affected.

\b
Examples:
  holdfast switch main
  holdfast switch main --dry-run
"""


@click.command("switch", cls=HoldfastCommand, short_help="Go to another branch", help=HELP)
@click.argument("name", shell_complete=complete_branch)
@dry_run_option
@pass_settings
def command(settings: Settings, name: str, *, dry_run: bool) -> None:
    """Switch, and print the row of the branch's head."""
    if settings.branch is not None:
        raise click.UsageError("--branch does not apply: NAME is the branch")
    with open_for(settings, dry_run=dry_run) as store:
        session = session_of(store, settings)
        before = session.branch
        head = session.switch(name, remember=True)
        url = store.url
    changed = before != name
    place = f"from {before} to {name}" if changed else f"already on {name}"
    text = f"session {session.id}; {place}, which is at #{head.seq}"
    plan = {"session": session.id, "from": before, "to": name, "head": head.id}
    if changed:
        say_unseen(settings, head, "does not go to this branch")
    report(settings, url, Outcome(plan, text, head, changed=changed), dry_run=dry_run)
