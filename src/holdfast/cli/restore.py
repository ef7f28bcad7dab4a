"""`holdfast restore`: go back to a checkpoint, by saving its state again at the tip of the branch.

Nothing is taken away: what was the head stays in history right behind the new checkpoint.
"""

from __future__ import annotations

import click

from holdfast.cli._completing import RefArgument
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._opening import session_of
from holdfast.cli._planning import Outcome, dry_run_option, number_of, open_for, report
from holdfast.cli._settings import Settings, pass_settings

HELP = """Go back: the state of REF becomes the newest one of the branch, as a new checkpoint.

Nothing is lost: what was the head stays right behind it. REF is as for show; "@{2 hours ago}" is one too.

\b
Examples:
  holdfast restore @-
  holdfast restore tag:verified
  holdfast restore main~2 --dry-run
"""


@click.command("restore", cls=HoldfastCommand, short_help="Go back to a checkpoint", help=HELP)
@click.argument("ref", type=RefArgument())
@dry_run_option
@pass_settings
def command(settings: Settings, ref: str, *, dry_run: bool) -> None:
    """Restore, and print the row of the new checkpoint."""
    with open_for(settings, dry_run=dry_run) as store:
        source = session_of(store, settings).checkpoint(ref)
        # Another object: one that has seen the head would insist on it.
        session = session_of(store, settings)
        made = session.restore(source)
        before = number_of(session, made.parents[0])
        url = store.url
    text = (
        f"session {made.session}, branch {made.branch}; the state of #{source.seq} comes back "
        f"as a new checkpoint after {before}"
    )
    plan = {"session": made.session, "branch": made.branch, "source": source.id, "head": made.parents[0]}
    report(settings, url, Outcome(plan, text, made, built_on=source), dry_run=dry_run)
