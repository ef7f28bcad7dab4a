"""`holdfast redo`: bring back what the last undo took."""

from __future__ import annotations

import click

from holdfast.cli._group import HoldfastCommand
from holdfast.cli._planning import dry_run_option
from holdfast.cli._reversing import reverse
from holdfast.cli._settings import Settings, pass_settings

HELP = """Bring back what the last undo took, until something else is done.

\b
Examples:
  holdfast redo --dry-run
  holdfast redo
"""


@click.command("redo", cls=HoldfastCommand, short_help="Bring back what undo took", help=HELP)
@dry_run_option
@pass_settings
def command(settings: Settings, *, dry_run: bool) -> None:
    """Redo, and print the operation."""
    reverse(settings, "redo", dry_run=dry_run)
