"""Starts the agent, kills it in the middle of its work, starts it again, and checks what is there afterwards.

The runner knows the agent only by what it announces. It kills at a random moment after an acknowledged step, never at a
convenient one; when the agent turns out to have finished before the signal, the run does not count, and a new one is
made.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import holdfast
from holdfast.cli.demo.agent import survey
from holdfast.cli.demo.worker import fingerprint
from holdfast.errors import BackendError, ErrorCode

KILL_AFTER = 7
THINK = 0.06
"""Seconds per decision. It makes the steps visible one by one, and leaves room to be killed in the middle of one."""
_RUNS = 5
"""A machine may be so busy that the agent finishes before it is killed; five times in a row it is not."""

Announcement = dict[str, Any]
Watch = Callable[[str, Announcement], None]


@dataclass
class Outcome:
    """What happened, and what was found in the store afterwards."""

    store: str
    session: str
    acknowledged: list[Announcement] = field(default_factory=list)
    delay_ms: float = 0.0
    resumed_from: int = 0
    steps: int = 0
    lost: list[int] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    in_order: bool = False
    same_result: bool = False

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        return not self.lost and not self.changed and self.in_order and self.same_result


def run_demo(target: str, watch: Watch) -> Outcome:
    """Run the whole story; `watch` hears each event as it happens."""
    for _ in range(_RUNS):
        outcome = Outcome(*_fresh_session(target))
        if _first_life(target, outcome, watch):
            _second_life(target, outcome, watch)
            _check(target, outcome)
            return outcome
        watch("finished early", {})
    raise BackendError(
        "the agent always finished before it could be killed",
        code=ErrorCode.IO_FAILED,
        hint="the machine is very busy: run the demo again",
    )


def _fresh_session(target: str) -> tuple[str, str]:
    """A session that is not there yet: running the demo again never touches what an earlier run left."""
    with holdfast.open(target) as store:
        taken = {info.id for info in store.sessions()}
        number = next(n for n in range(1, len(taken) + 2) if f"survey-{n}" not in taken)
        return store.url, f"survey-{number}"


def _first_life(target: str, outcome: Outcome, watch: Watch) -> bool:
    """Run the agent until it is killed; False if it was faster."""
    with _agent(target, outcome.session) as process:
        for said in _announcements(process):
            _hear(said, process, outcome, watch)
            if said.get("step") == KILL_AFTER:
                break
        delay = random.uniform(0, THINK / 2)  # noqa: S311 - chance, not secrecy
        time.sleep(delay)
        process.kill()
        # What it could still announce before the signal counts as acknowledged like the rest.
        for said in _announcements(process):
            _hear(said, process, outcome, watch)
        killed = process.wait() != 0
    outcome.delay_ms = round(delay * 1000, 1)
    if killed and len(outcome.acknowledged) < KILL_AFTER:
        raise _agent_failed(process.returncode)
    if killed:
        watch("killed", {"after": outcome.acknowledged[-1]["step"], "delay_ms": outcome.delay_ms})
    return killed


def _second_life(target: str, outcome: Outcome, watch: Watch) -> None:
    with _agent(target, outcome.session) as process:
        for said in _announcements(process):
            if said.get("start"):
                outcome.resumed_from = said["step"]
            _hear(said, process, outcome, watch)
        if process.wait() != 0:
            raise _agent_failed(process.returncode)


def _check(target: str, outcome: Outcome) -> None:
    """Hold the store to what was acknowledged, and the result to that of an agent that was never killed."""
    with holdfast.open(target, create=False) as store:
        session = store.session(outcome.session)
        log = session.log()
        there = {checkpoint.id for checkpoint in log}
        for said in outcome.acknowledged:
            if said["id"] not in there:
                outcome.lost.append(said["step"])
            elif fingerprint(session.load(said["id"])) != said["state"]:
                outcome.changed.append(said["step"])
        outcome.steps = len(log)
        outcome.in_order = [c.step for c in reversed(log)] == list(range(1, len(log) + 1))
        final = session.load()
    with holdfast.open("memory:") as scratch:
        undisturbed: dict[str, Any] = {}
        for _, undisturbed in survey(scratch.session()):  # noqa: B007 - the last one is wanted
            pass
    # Everything but the moment it began.
    outcome.same_result = fingerprint(final | {"started_at": None}) == fingerprint(
        undisturbed | {"started_at": None}
    )


@contextmanager
def _agent(target: str, session: str) -> Iterator[subprocess.Popen[str]]:
    # -P: a file called json.py in the folder where the demo runs must not get in the way.
    command = [sys.executable, "-P", "-m", "holdfast.cli.demo.worker", target, session, str(THINK)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:  # noqa: S603
        try:
            yield process
        finally:
            # Ctrl-C or an error here must not leave an agent running.
            if process.poll() is None:
                process.kill()


def _announcements(process: subprocess.Popen[str]) -> Iterator[Announcement]:
    assert process.stdout is not None, "the agent was started with a pipe"
    for line in process.stdout:
        # The last line of a killed process may be torn: it was not said, so it does not count.
        if line.endswith("\n"):
            yield json.loads(line)


def _hear(said: Announcement, process: subprocess.Popen[str], outcome: Outcome, watch: Watch) -> None:
    if said.get("start"):
        watch("started", {"pid": process.pid, "session": outcome.session, **said})
    else:
        outcome.acknowledged.append(said)
        watch("saved", said)


def _agent_failed(code: int) -> BackendError:
    return BackendError(
        f"the agent of the demo ended with exit code {code} before its work was done",
        code=ErrorCode.IO_FAILED,
        hint="what it said about it is above; look at the space and the permissions of the folder",
    )
