"""`holdfast migrate`: bring the tables of a store to the version of this program."""

from __future__ import annotations

import click

from holdfast.cli._figures import counted
from holdfast.cli._group import HoldfastCommand
from holdfast.cli._planning import dry_run_option, say_dry_run
from holdfast.cli._render import data, document
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import escape_controls

HELP = """Bring the tables of a PostgreSQL store to the version of this program. A SQLite store needs none of it.

It is one transaction, which waits for commits that are under way. Programs of other versions are refused from then on,
so that two of them never write at once: upgrade those too.

\b
Examples:
  holdfast migrate --dry-run
  holdfast migrate
"""


@click.command(
    "migrate", cls=HoldfastCommand, short_help="Bring a store to the version of this program", help=HELP
)
@dry_run_option
@pass_settings
def command(settings: Settings, *, dry_run: bool) -> None:
    """Take the steps, and name them."""
    from holdfast import migrate

    if misplaced := settings.typed & {"session", "branch"}:
        raise click.UsageError(f"--{min(misplaced)} does not apply: migrate is for the whole store")
    report = migrate(settings.store, dry_run=dry_run)
    if settings.json:
        document({"store": report.store, "dry_run": dry_run, "steps": list(report.steps)})
        return
    for step in report.steps:
        data(escape_controls(step))
    if not report.steps:
        settings.say("the store is up to date, nothing was changed")
    elif dry_run:
        say_dry_run(settings)
    else:
        settings.say(f"{counted(len(report.steps), 'step')} taken")
