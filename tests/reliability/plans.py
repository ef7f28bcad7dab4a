"""Plans for processes that are killed: every body writes down that it ran, outside of the store."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import holdfast
from holdfast import Executor, Plan, StepContext
from holdfast.agents.executor.action import action

SESSION = "killed"
ONCE = {"3-0", "3-2"}
"""Steps that may happen at most once."""


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Diary:
    """A file of its own: what ran, in order, however its process ended."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, *words: object) -> None:
        line = " ".join(map(str, words)) + "\n"
        with self.path.open("ab", buffering=0) as file:
            file.write(line.encode())

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self.path.read_text().splitlines()] if self.path.exists() else []


def layered(diary: Diary, deadly: str | None = None, rows: int = 5, columns: int = 4) -> Plan:
    """A DAG of 20 steps: each depends on all of the row before. The body of `deadly` kills its process."""

    def body(before: list[int], me: str, context: StepContext, *, key: str) -> int:
        diary.write("body", me, key, context.attempt)
        if me == deadly:
            kill_self()
        return 1 + sum(before)

    plain = action(name="plain")(_as_plain(body))
    once = action(name="once", effect="at_most_once")(_as_once(body))
    plan = Plan("layers")
    above: list = []
    for row in range(rows):
        here = []
        for column in range(columns):
            name = f"{row}-{column}"
            done_by = once if name in ONCE else plain
            here.append(plan.step(done_by, list(above), name, id=name))
        above = here
    return plan


def _as_plain(body: Callable[..., int]) -> Callable[..., int]:
    def plain(before: list[int], me: str, context: StepContext, *, key: str) -> int:
        return body(before, me, context, key=key)

    return plain


def _as_once(body: Callable[..., int]) -> Callable[..., int]:
    def once(before: list[int], me: str, context: StepContext, *, key: str) -> int:
        return body(before, me, context, key=key)

    return once


def in_child(work: Callable[[], object]) -> int:
    """Run it in a child process; how that ended: 0, or minus the signal."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_and_die(path: Path, diary: Diary, where: str, step: str, **options: object) -> None:
    """Run the plan, and end this process at one boundary of one step."""

    def hook(here: str, which: str) -> None:
        if here == "after commit":
            diary.write("committed", which)
        if (here, which) == (where, step):
            kill_self()

    with holdfast.open(path) as store:
        executor = Executor(store.session(SESSION), workers=3, keep=None)
        executor._hook = hook
        executor.run(layered(diary, step if where == "body" else None), **options)  # type: ignore[arg-type]
