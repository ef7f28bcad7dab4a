"""Runs the plan in processes that fail, are killed and go on; then finds a mistake, and takes it back."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import holdfast
from holdfast.errors import BackendError, ErrorCode

Watch = Callable[[str, dict[str, Any]], None]

_EDITS: Final = (
    ("Note the sources", "sources", ["annual reports"]),
    ("Round the figures", "figures", {"CompanyA": 1300, "CompanyB": 42, "CompanyC": 2750}),
    ("Add a headline", "headline", "CompanyB leads"),
)
"""What somebody does to the state afterwards; the second is a slip of the finger."""


@dataclass
class Outcome:
    """What happened, and what was found afterwards."""

    store: str
    session: str
    ran: dict[str, int] = field(default_factory=dict)
    """How often each body began."""
    skipped: list[str] = field(default_factory=list)
    failed: str = ""
    killed: bool = False
    total: int = 0
    mistake: str = ""
    changes: list[str] = field(default_factory=list)
    restored: bool = False

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        bodies = {"competitors": 1, "revenue": 3, "report": 1}
        found = self.mistake == _EDITS[1][0] and self.restored
        return (
            self.killed
            and self.ran == bodies
            and self.skipped == ["competitors"]
            and self.total == 8250
            and found
        )


def run_demo(target: str, watch: Watch) -> Outcome:
    """Run the whole story; `watch` hears each event as it happens."""
    with holdfast.open(target) as store:
        taken = {info.id for info in store.sessions()}
        number = next(n for n in range(1, len(taken) + 2) if f"research-{n}" not in taken)
        outcome = Outcome(store.url, f"research-{number}")
    # The network fails; the process is killed; the third one ends.
    for life in (1, 2, 3):
        watch("process", {"number": life, "session": outcome.session})
        _live(target, outcome, watch, kill=life == 2)
    with holdfast.open(target, create=False) as store:
        _mistake(store.session(outcome.session), outcome, watch)
    return outcome


def _live(target: str, outcome: Outcome, watch: Watch, *, kill: bool) -> None:
    command = [sys.executable, "-m", "holdfast.cli.demo.worker", target, outcome.session]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - ourselves
        try:
            for said in _events(process):
                kind, step = said["type"], said.get("data", {}).get("step", "")
                if kind == "step.started":
                    outcome.ran[step] = outcome.ran.get(step, 0) + 1
                if kind == "step.failed":
                    outcome.failed = said["data"]["error"]
                if kind == "execution.started" and said["data"]["recovered"]:
                    outcome.skipped = ["competitors"]
                watch(kind, said.get("data", {}))
                if kill and kind == "step.progress":
                    process.kill()
                    outcome.killed = True
                    watch("killed", {"step": step})
        finally:
            process.kill()
    if process.returncode not in (0, 1) and not outcome.killed:
        raise BackendError(
            f"the process of the demo ended with {process.returncode}",
            code=ErrorCode.IO_FAILED,
            hint="run the demo again; with another folder if that does not help",
        )


def _events(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        if line.endswith("\n"):
            yield json.loads(line)


def _mistake(session: holdfast.Session, outcome: Outcome, watch: Watch) -> None:
    """Let somebody work on, find where it went wrong, and go back to before."""
    state = session.load()
    outcome.total = state["results"][-1]["output"]["total"]
    state["context"]["figures"] = dict(state["results"][1]["output"])
    session.save(state, "Note the figures")
    for message, name, value in _EDITS:
        state["context"][name] = value
        session.save(state, message)
        watch("edited", {"message": message})
    found = session.bisect(lambda each: each["context"].get("figures", {}).get("CompanyB", 4200) < 1000).found
    outcome.mistake = found.message
    watch("bisected", {"message": found.message, "seq": found.seq})
    before = session.checkpoint(f"{found.id}~1")
    outcome.changes = [str(each) for each in session.diff(before, found).changes]
    watch("diffed", {"changes": outcome.changes})
    session.restore(before)
    outcome.restored = session.load()["context"]["figures"]["CompanyB"] == 4200
    watch("restored", {"message": before.message, "seq": before.seq})
