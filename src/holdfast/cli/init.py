"""`holdfast init`: make a store and say where it is. A store that is there already is left alone."""

from __future__ import annotations

import os

import click

from holdfast.cli._group import HoldfastCommand
from holdfast.cli._opening import open_or_make
from holdfast.cli._render import data, document
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import escape_controls

HELP = """Make a store, by default in .holdfast here; commands in this folder and below will find it.

\b
Examples:
  holdfast init
  holdfast init ~/agents/scout
"""


@click.command("init", cls=HoldfastCommand, short_help="Make a store", help=HELP)
@click.argument("path", required=False)
@pass_settings
def command(settings: Settings, path: str | None) -> None:
    """Make the store and print its URL."""
    if path is not None and "store" in settings.typed:
        raise click.UsageError("both PATH and --store say where the store is: give one")
    with open_or_make(path or settings.store or ".holdfast") as (store, made):
        if settings.json:
            document({"store": store.url, "created": bool(made)})
            return
        settings.say(made or "a store is already there, nothing was changed:")
        data(escape_controls(store.url))
    if made:
        if path is not None and os.path.abspath(path) != os.path.abspath(".holdfast"):  # noqa: PTH100 - no pathlib at start
            # Nobody finds it there without being told where, and so it is part of the next command.
            settings.store = path
            settings.typed.add("store")
        settings.say(
            "next: holdfast create MESSAGE saves a checkpoint, holdfast demo shows an agent that does"
        )
