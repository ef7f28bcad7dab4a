"""The command line, `holdfast`: a thin skin over the public API.

stdout is data, stderr is talk. On a terminal data is a table for people; in a pipe it is TSV with whole ids and ISO
times; with `--json` it is one document whose schema is in `docs/spec/json/`. Every failure has a code, a hint and an
exit code (`_errors.py`). Each command is a module of its own, imported only when it runs.
"""

from __future__ import annotations

import os
import sys

import click

from holdfast.cli._group import PROGRAM, Entry, LazyGroup

COMMANDS = {
    "demo": Entry("holdfast.cli.demo", "Start", "Watch an agent be killed and go on where it was"),
    "init": Entry("holdfast.cli.init", "Start", "Make a store"),
    "create": Entry("holdfast.cli.create", "Start", "Save a checkpoint"),
    "list": Entry("holdfast.cli.list", "Look", "List checkpoints, newest first"),
    "show": Entry("holdfast.cli.show", "Look", "Show a checkpoint and its state"),
}


def _show_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's signature
    if wanted and not ctx.resilient_parsing:
        from holdfast import __version__

        click.echo(f"{PROGRAM} {__version__}")
        ctx.exit()


cli = LazyGroup(
    PROGRAM,
    table=COMMANDS,
    help="Keep the state of AI agents: save every step, survive kill -9, go back to any of them.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_version,
            help="Show the version and end",
        )
    ],
)


def main() -> None:
    """Run the command line: the entry point of the `holdfast` program and of `python -m holdfast`."""
    for name in ("stdout", "stderr"):
        # A process started without one (`>&-`) has None there, and everything that writes would fail on it.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - for good
    cli.main()
