"""The command line, `holdfast`: a thin skin over the public API.

stdout is data, stderr is talk. On a terminal data is a table for people; in a pipe it is TSV with whole ids and ISO
times; with `--json` it is one document whose schema is in `docs/spec/json/`. Every failure has a code, a hint and an
exit code (`_errors.py`). Each command is a module of its own, imported only when it runs.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress

import click

from holdfast.cli._group import PROGRAM, Entry, LazyGroup

COMMANDS = {
    "demo": Entry("holdfast.cli.demo", "Start", "Watch an agent be killed and go on where it was"),
    "init": Entry("holdfast.cli.init", "Start", "Make a store"),
    "create": Entry("holdfast.cli.create", "Start", "Save a checkpoint"),
    "heartbeat": Entry("holdfast.cli.heartbeat", "Start", "Run an agent that wakes up where it was"),
    "list": Entry("holdfast.cli.list", "Look", "List checkpoints, newest first"),
    "show": Entry("holdfast.cli.show", "Look", "Show a checkpoint and its state"),
    "diff": Entry("holdfast.cli.diff", "Look", "Show what differs between checkpoints"),
    "bisect": Entry("holdfast.cli.bisect", "Look", "Find the first checkpoint where it holds"),
    "blame": Entry("holdfast.cli.blame", "Look", "Show who set a value, and what was before"),
    "history": Entry("holdfast.cli.history", "Look", "Show a value over time"),
    "grep": Entry("holdfast.cli.grep", "Look", "Find texts in the states of a history"),
    "tree": Entry("holdfast.cli.tree", "Look", "Draw where branches part and meet"),
    "timeline": Entry("holdfast.cli.timeline", "Look", "Show what was saved when, day by day"),
    "watch": Entry("holdfast.cli.watch", "Look", "Show checkpoints as they are saved"),
    "stats": Entry("holdfast.cli.stats", "Look", "Show what is in the store"),
    "at": Entry("holdfast.cli.at", "Travel", "Show what was newest at a moment"),
    "restore": Entry("holdfast.cli.restore", "Travel", "Go back to a checkpoint"),
    "undo": Entry("holdfast.cli.undo", "Travel", "Take back what was done last"),
    "redo": Entry("holdfast.cli.redo", "Travel", "Bring back what undo took"),
    "fork": Entry("holdfast.cli.fork", "Branch", "Begin a new branch at a checkpoint"),
    "branch": Entry("holdfast.cli.branch", "Branch", "List, rename and delete branches"),
    "switch": Entry("holdfast.cli.switch", "Branch", "Go to another branch"),
    "merge": Entry("holdfast.cli.merge", "Branch", "Bring another branch into this one"),
    "tag": Entry("holdfast.cli.tag", "Care", "Label checkpoints, and list the labels"),
    "pin": Entry("holdfast.cli.pin", "Care", "Protect checkpoints from removal"),
    "annotate": Entry("holdfast.cli.annotate", "Care", "Edit a message or metadata"),
    "delete": Entry("holdfast.cli.delete", "Care", "Remove a checkpoint from history"),
    "clear": Entry("holdfast.cli.clear", "Care", "Remove all checkpoints of a session"),
    "prune": Entry("holdfast.cli.prune", "Care", "Remove checkpoints that a policy does not keep"),
    "gc": Entry("holdfast.cli.gc", "Care", "Free what nothing needs any more"),
    "forget": Entry("holdfast.cli.forget", "Care", "Erase a session or checkpoints for good"),
    "verify": Entry("holdfast.cli.verify", "Care", "Check that nothing is damaged"),
    "repair": Entry("holdfast.cli.repair", "Care", "Bring a damaged store back"),
    "backup": Entry("holdfast.cli.backup", "Care", "Copy the store to a new file"),
    "migrate": Entry("holdfast.cli.migrate", "Set up", "Bring a store to the version of this program"),
    "copy": Entry("holdfast.cli.copy", "Care", "Copy sessions to another store"),
    "export": Entry("holdfast.cli.export", "Care", "Write checkpoints to files"),
    "import": Entry("holdfast.cli.import_", "Care", "Take in files that export wrote"),
    "import-langgraph": Entry(
        "holdfast.cli.import_langgraph", "Set up", "Take over threads of LangGraph's savers"
    ),
    "config": Entry("holdfast.cli.config", "Set up", "Show and change settings"),
    "completion": Entry("holdfast.cli.completion", "Set up", "Print a completion script for your shell"),
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
    # Loading modules makes many objects and no garbage; looking for some is a twentieth of a short command.
    gc.set_threshold(50_000, 20, 20)
    try:
        cli.main()
    except SystemExit as end:
        # The store is closed, and taking the interpreter apart would cost another tenth of the run.
        for stream in (sys.stdout, sys.stderr):
            # What could not be written has been reported; all that is left is the exit code.
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))
