"""`holdfast annotate`: say something else about a checkpoint; its id and its state stay the same."""

from __future__ import annotations

from collections.abc import Sequence

import click

from holdfast.cli._completing import RefArgument
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._input import parse_metadata
from holdfast.cli._opening import session_of
from holdfast.cli._planning import Outcome, dry_run_option, open_for, report
from holdfast.cli._settings import Settings, pass_settings

HELP = """Edit the message of a checkpoint, or lay metadata over what it has. Its id and its state stay the same.

\b
Examples:
  holdfast annotate @ --message "the one that works"
  holdfast annotate tag:verified --metadata reviewer=ada --metadata '{"score": 0.9}'
"""


@click.command("annotate", cls=HoldfastCommand, short_help="Edit a message or metadata", help=HELP)
@click.argument("ref", type=RefArgument())
@click.option("--message", metavar="TEXT", help="The new message")
@click.option(
    "--metadata", multiple=True, metavar="K=V", help="A text under a key, or a JSON object; can be repeated"
)
@dry_run_option
@pass_settings
def command(
    settings: Settings, ref: str, *, message: str | None, metadata: Sequence[str], dry_run: bool
) -> None:
    """Annotate, and print the row of the checkpoint."""
    values = parse_metadata(metadata)
    with open_for(settings, dry_run=dry_run) as store:
        session = session_of(store, settings)
        before = session.checkpoint(ref)
        # By id: the ref may name another one by now.
        after = session.annotate(before, message=message, metadata=values or None)
        url = store.url
    changed = (before.message, before.metadata) != (after.message, after.metadata)
    parts = [] if message is None else ["a new message"]
    if values:
        parts.append(f"metadata {', '.join(values)}")
    text = f"session {session.id}; #{after.seq} gets {' and '.join(parts)}"
    if not changed:
        text = f"session {session.id}; #{after.seq} has that already"
    plan = {"session": session.id, "checkpoint": after.id, "message": message, "metadata": values}
    report(settings, url, Outcome(plan, text, after, changed=changed), dry_run=dry_run)
