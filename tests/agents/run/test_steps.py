"""Steps by name in a run: their results survive kill -9, and they do not run twice once completed."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

import holdfast
from holdfast.agents import Run

PROGRAM = """
import os, sys, holdfast
from holdfast.agents import Run

place, log, deadly = sys.argv[1:]

def work(name):
    with open(log, "a") as file:
        file.write(name)
    if name == deadly:
        os.kill(os.getpid(), 9)
    return name.upper()

with Run(holdfast.open(place).session("x"), task="t", sql=True) as run:
    print([run.step(f"step-{name}", work, name) for name in "abc"])
    print(run.progress.step_number)
"""


@pytest.mark.parametrize("deadly", ["a", "b", "c"])
def test_a_step_that_completed_is_not_run_again_after_kill_9(tmp_path, deadly):
    log = tmp_path / "log"
    first = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "s"), str(log), deadly], check=False
    )
    assert first.returncode == -9
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "s"), str(log), "none"]
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert again.stdout.splitlines() == ["['A', 'B', 'C']", "3"]
    # Only the one that was cut off ran twice.
    assert log.read_text() == "abc".replace(deadly, deadly * 2)


def test_a_step_and_its_checkpoint_are_one(tmp_path):
    with holdfast.open(tmp_path, durability="process") as store:
        run = Run(store.session("x"), sql=True)
        assert run.step("one", lambda: 1) == 1
        [saved] = store.session("x").log()
        assert (saved.metadata["checkpoint_reason"], saved.step) == ("step_completed", 1)
        handle = run.begin("two", inputs="a")
        assert not handle.done
        run.complete(handle, {"n": 2})
        again = Run(store.session("x"), sql=True)
        assert (again.begin("two", inputs="a").value, again.progress.step_number) == ({"n": 2}, 2)
        with pytest.raises(holdfast.ConflictError):
            again.begin("two", inputs="b")
        with pytest.raises(holdfast.InvalidInputError):
            again.step("bad", object)
        assert again.progress.step_number == 2
        assert again.step("bad", lambda: "good now") == "good now"


def test_steps_that_are_awaited_at_once_each_run_once(tmp_path):
    ran = []

    async def fetch(page):
        ran.append(page)
        await asyncio.sleep(0)
        return page.upper()

    async def work(run):
        return await asyncio.gather(*(run.astep(f"fetch-{page}", fetch, page) for page in "abcd"))

    with holdfast.open(tmp_path, durability="process") as store:
        assert asyncio.run(work(Run(store.session("x")))) == list("ABCD")
        again = Run(store.session("x"))
        assert asyncio.run(work(again)) == list("ABCD")
        assert (sorted(ran), again.progress.step_number) == (list("abcd"), 4)
