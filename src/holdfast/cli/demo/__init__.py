"""`holdfast demo`: a plan whose network fails, whose process is killed with SIGKILL, and which ends all the same.

`research.py` is the plan, and the part to read; `worker.py` is the process it runs in; `runner.py` kills, restarts, and
then finds a mistake and takes it back; this file tells the story.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.app import PROGRAM
from holdfast.cli.app import command as made_command
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import data, document
from holdfast.cli.terminal import ellipsis_for, escape_controls, paint, shorten, terminal_width

if TYPE_CHECKING:
    from holdfast.cli.demo.runner import Outcome


@made_command(
    "demo",
    """Watch a plan be killed and go on where it was.

    A plan of three steps finds competitors, fetches their revenue and compiles a report, without a model or a network.
    Its network fails, its process is killed with SIGKILL, and it goes on: what is done is skipped, what was cut off
    goes on from its part. Then somebody makes a mistake, bisect finds it, and it is taken back. The store stays, with
    commands to explore it. Running the demo again adds a new session and leaves the old ones alone.

    \b
    Examples:
      holdfast demo
      holdfast demo --dir /tmp/try-holdfast --json
    """,
)
@click.option(
    "--dir", "folder", default="holdfast-demo", show_default=True, metavar="DIR", help="Where its store goes"
)
def command(cmd: Invocation, folder: str) -> int:
    """Run the demo; 1 if a promise was not kept."""
    # The plan costs imports that --help does not need.
    from holdfast.cli.demo.runner import run_demo

    story = Story(cmd)
    outcome = run_demo(folder, story.hear)
    explore = _commands(folder, outcome.session)
    if cmd.json:
        document(_summary(outcome, explore))
    else:
        story.close(outcome, explore)
    return 0 if outcome.ok else 1


class Story:
    """What the person sees, line by line, while it happens."""

    def __init__(self, cmd: Invocation) -> None:
        self.cmd = cmd
        self.on = cmd.paints(sys.stdout)
        self._line("A plan of three steps: find competitors, fetch their revenue, compile a report.")

    def hear(self, event: str, facts: dict[str, Any]) -> None:
        """Tell one event."""
        told = _TOLD.get(event)
        if told is None:
            return
        label, style, words = told
        if event == "process":
            self._line("")
        if event == "execution.started" and not facts["recovered"]:
            return
        self._event(label, words(facts), style)
        for each in facts.get("changes", ()):
            self._event("", each, "dim")

    def close(self, outcome: Outcome, explore: list[str]) -> None:
        """Say what was found, and what to try next."""
        self._line("")
        if outcome.ok:
            text = f"competitors and report ran once, the report is right: {outcome.total:,} in total"
            self._event("checked", text, "green")
        else:
            self._event("FAILED", f"ran: {outcome.ran}; mistake found: {outcome.mistake or 'none'}", "red")
        self._line("")
        self._line("The store is still there. Look around:")
        for line in explore:
            self._line("  " + line)

    def _event(self, label: str, text: str, style: str) -> None:
        if sys.stdout.isatty():
            text = shorten(text, terminal_width() - 12, mark=ellipsis_for(sys.stdout))
        self._line(f"  {paint(f'{label:8}', style, on=self.on)}  {escape_controls(text)}")

    def _line(self, text: str) -> None:
        if not self.cmd.json:
            data(text, color=self.on)
            sys.stdout.flush()


_TOLD: dict[str, tuple[str, str, Callable[[dict[str, Any]], str]]] = {
    "process": ("start", "cyan", lambda facts: f"process {facts['number']}, session {facts['session']}"),
    "execution.started": (
        "skipped",
        "dim",
        lambda _facts: "competitors: completed before, its result is stored",
    ),
    "step.started": ("step", "cyan", lambda facts: f"{facts['step']}, attempt {facts['attempt']}"),
    "step.progress": ("", "dim", lambda facts: f"{facts['message']} fetched, and kept"),
    "step.completed": (
        "done",
        "green",
        lambda facts: f"{facts['step']}: result and checkpoint in one transaction",
    ),
    "step.failed": ("failed", "red", lambda facts: f"{facts['step']}: {facts['error']}"),
    "killed": ("SIGKILL", "red", lambda facts: f"in the middle of {facts['step']}"),
    "execution.completed": ("complete", "green", lambda _facts: "the plan is done"),
    "edited": ("edit", "yellow", lambda facts: f"somebody saves: {facts['message']}"),
    "bisected": (
        "bisect",
        "cyan",
        lambda facts: f"the figures are wrong since #{facts['seq']}: {facts['message']}",
    ),
    "diffed": ("diff", "cyan", lambda _facts: "what that checkpoint changed:"),
    "restored": (
        "restore",
        "green",
        lambda facts: f"back to #{facts['seq']}: {facts['message']}; undo would take it back",
    ),
}
"""For each event: its label, its colour, and what is said about it."""


def _commands(folder: str, session: str) -> list[str]:
    """Commands that work when pasted into the shell that ran the demo."""
    start = f"{_program()} --store {shlex.quote(folder)} --session {session}"
    return [
        f"{start} {rest}" for rest in ("plan status", "list", "blame context.figures", "diff @~1 @", "undo")
    ]


def _program() -> str:
    """This program as the person can call it again: by name only where the name leads here."""
    called = sys.argv[0]
    if Path(called).name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m {PROGRAM}"
    on_path = shutil.which(PROGRAM)
    if on_path is not None and Path(on_path).resolve() == Path(called).resolve():
        return PROGRAM
    return shlex.quote(called) if Path(called).name == PROGRAM else PROGRAM


def _summary(outcome: Outcome, explore: list[str]) -> dict[str, Any]:
    return {
        "store": outcome.store,
        "session": outcome.session,
        "ok": outcome.ok,
        "ran": outcome.ran,
        "skipped": outcome.skipped,
        "failed": outcome.failed,
        "killed": outcome.killed,
        "total": outcome.total,
        "mistake": outcome.mistake,
        "changes": outcome.changes,
        "restored": outcome.restored,
        "explore": explore,
    }
