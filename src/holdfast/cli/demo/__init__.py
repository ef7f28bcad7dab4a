"""`holdfast demo`: an agent is killed with SIGKILL in the middle of its work and goes on where it was.

`agent.py` is the agent, and the part to read; `worker.py` is the process it runs in; `runner.py` kills, restarts and
checks; this file tells the story.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli._group import PROGRAM, HoldfastCommand
from holdfast.cli._render import data, document
from holdfast.cli._settings import Settings, pass_settings
from holdfast.cli._terminal import ellipsis_for, escape_controls, paint, shorten, terminal_width

if TYPE_CHECKING:
    from holdfast.cli.demo.runner import Outcome

HELP = """Watch an agent be killed and go on where it was.

A small agent without a model or a network surveys Python's standard library, one module a step, and saves each step. It
is killed with SIGKILL in the middle, started again, and finishes. The store stays, with commands to explore it. Running
the demo again adds a new session and leaves the old ones alone.

\b
Examples:
  holdfast demo
  holdfast demo --dir /tmp/try-holdfast --json
"""


@click.command(
    "demo", cls=HoldfastCommand, short_help="Watch an agent be killed and go on where it was", help=HELP
)
@click.option(
    "--dir", "folder", default="holdfast-demo", show_default=True, metavar="DIR", help="Where its store goes"
)
@pass_settings
def command(settings: Settings, folder: str) -> int:
    """Run the demo; 1 if anything that was acknowledged is missing or different."""
    if misplaced := settings.typed & {"store", "session", "branch"}:
        raise click.UsageError(
            f"--{min(misplaced)} does not apply to the demo: it has a store of its own, see --dir"
        )
    # The agent costs an import of ast and subprocess, and --help needs neither.
    from holdfast.cli.demo.runner import run_demo

    story = Story(settings)
    story.open()
    outcome = run_demo(folder, story.hear)
    explore = _commands(folder, outcome.session)
    if settings.json:
        document(_summary(outcome, explore))
    else:
        story.close(outcome, explore)
    return 0 if outcome.ok else 1


class Story:
    """What the person sees, line by line, while it happens."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.on = settings.paints(sys.stdout)
        self.last_step = 0

    def open(self) -> None:
        """Say what is going to happen."""
        self._line(
            "An agent reads modules of Python's standard library. Each step ends in session.save(...)."
        )

    def hear(self, event: str, facts: dict[str, Any]) -> None:
        """Tell one event."""
        if event == "started":
            begins = self._beginning(facts["resumes"], facts["step"])
            self._line("")
            self._event("start", f"process {facts['pid']}, session {facts['session']}: {begins}", "cyan")
        elif event == "saved":
            self.last_step = facts["step"]
            self._event(f"step {facts['step']:2}", facts["message"], "green")
        elif event == "killed":
            where = f"{facts['delay_ms']:.0f} ms after step {facts['after']} was saved, in the middle of the next one"
            self._event("SIGKILL", where, "red")
        else:
            self._event("again", "the agent finished before it could be killed; once more", "yellow")

    def close(self, outcome: Outcome, explore: list[str]) -> None:
        """Say what was found, and what to try next."""
        self._line("")
        count = len(outcome.acknowledged)
        if outcome.ok:
            found = f"all {count} acknowledged steps are there and equal; none was done twice"
            self._event("checked", found, "green")
            self._event("", "the report is the one of an agent that was never killed", "green")
        else:
            lost, changed = outcome.lost or "none", outcome.changed or "none"
            self._event("FAILED", f"lost steps: {lost}; changed steps: {changed}", "red")
            facts = f"steps in order: {outcome.in_order}; same report as undisturbed: {outcome.same_result}"
            self._event("", facts, "red")
        self._line("")
        self._line("The store is still there. Look around:")
        for line in explore:
            self._line("  " + line)

    def _beginning(self, seq: int | None, step: int) -> str:
        if seq is None:
            return "a new survey"
        # Rarely the signal falls between the commit and the announcement: then more is there than was heard.
        unheard = ", whose save was done but not yet announced" if step > self.last_step else ""
        return f"loads checkpoint #{seq}{unheard}, goes on with step {step + 1}"

    def _event(self, label: str, text: str, style: str) -> None:
        if sys.stdout.isatty():
            text = shorten(text, terminal_width() - 11, mark=ellipsis_for(sys.stdout))
        self._line(f"  {paint(f'{label:7}', style, on=self.on)}  {escape_controls(text)}")

    def _line(self, text: str) -> None:
        if not self.settings.json:
            data(text, color=self.on)
            sys.stdout.flush()


def _commands(folder: str, session: str) -> list[str]:
    """Commands that work when pasted into the shell that ran the demo."""
    start = f"{_program()} --store {shlex.quote(folder)} --session {session}"
    return [
        f"{start} {rest}"
        for rest in ("list", "list --tag revised", "show @~3", "show tag:report --state --json")
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
        "steps": outcome.steps,
        "acknowledged": len(outcome.acknowledged),
        "killed": {"signal": "SIGKILL", "delay_ms": outcome.delay_ms},
        "resumed_from": outcome.resumed_from,
        "lost": outcome.lost,
        "changed": outcome.changed,
        "in_order": outcome.in_order,
        "same_result": outcome.same_result,
        "explore": explore,
    }
