"""`holdfast demo`: a real process, a real SIGKILL, and commands that work."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.surfaces.cli.json_schema import load, problems

import holdfast
from holdfast.cli._settings import Settings
from holdfast.cli.demo import Story
from holdfast.cli.demo.agent import GOAL, survey
from holdfast.cli.demo.runner import KILL_AFTER


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """One run of the demo, in a folder whose name needs quoting."""
    folder = tmp_path_factory.mktemp("de mo's")
    program = Path(sys.executable).with_name("holdfast")
    done = subprocess.run([str(program), "demo"], capture_output=True, text=True, check=False, cwd=folder)
    return folder, done


def test_the_story_is_told_in_a_screenful(told):
    _, done = told

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) <= 30
    labels = [line[2:9].strip() for line in lines if line.startswith("  ") and "--store" not in line]
    steps = [int(label[5:]) for label in labels if label.startswith("step")]
    # The signal may fall between a commit and its announcement: that one step is in the store and not on the screen.
    unheard = "not yet announced" in done.stdout
    assert len(steps) == GOAL + 1 - unheard
    assert steps == sorted(set(steps))
    assert steps[:KILL_AFTER] == list(range(1, KILL_AFTER + 1))
    assert labels.index("SIGKILL") >= KILL_AFTER
    assert labels.count("start") == 2


def test_what_the_story_says_is_in_the_store(told):
    folder, done = told

    with holdfast.open(folder / "holdfast-demo", create=False) as store:
        session = store.session("survey-1")
        log = session.log()
        final = session.load()
    assert [checkpoint.step for checkpoint in reversed(log)] == list(range(1, GOAL + 2))
    assert log[0].status == "completed"
    assert {checkpoint.status for checkpoint in log[1:]} == {"running"}
    assert log[0].message in done.stdout
    assert len(final["memory"]) == GOAL
    assert f"all {done.stdout.count('  step ')} acknowledged steps are there and equal" in done.stdout
    assert "never killed" in done.stdout


def test_the_commands_at_the_end_work_when_pasted(told):
    folder, done = told
    commands = [line.strip() for line in done.stdout.splitlines() if " --store " in line]

    assert len(commands) == 4
    for command in commands:
        pasted = subprocess.run(
            ["/bin/sh", "-c", command], capture_output=True, text=True, check=False, cwd=folder
        )
        assert pasted.returncode == 0, (command, pasted.stderr)
        assert pasted.stdout
    assert shlex.split(commands[0])[0] == str(Path(sys.executable).with_name("holdfast"))


def test_running_it_again_adds_a_session_and_leaves_the_first_alone(told):
    folder, _ = told
    with holdfast.open(folder / "holdfast-demo", create=False) as store:
        before = [checkpoint.id for checkpoint in store.session("survey-1").log()]

    # In the way: a module of the same name as one of Python's, and variables that name a real store.
    (folder / "json.py").write_text("raise SystemExit('shadowed')", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "holdfast", "demo", "--json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "HOLDFAST_STORE": str(folder / "mine"), "HOLDFAST_SESSION": "precious"},
    )

    assert not (folder / "mine").exists()
    summary = json.loads(done.stdout)
    assert done.returncode == 0
    assert problems(summary, load("demo.schema.json")) == []
    assert summary["session"] == "survey-2"
    assert summary["ok"] is True
    assert KILL_AFTER <= summary["resumed_from"] < GOAL + 1
    assert summary["explore"][0].startswith(
        f"{shlex.quote(sys.executable)} -m holdfast --store holdfast-demo"
    )
    with holdfast.open(folder / "holdfast-demo", create=False) as store:
        assert [checkpoint.id for checkpoint in store.session("survey-1").log()] == before


def test_a_step_that_was_saved_and_not_announced_is_accounted_for(capsys):
    story = Story(Settings())

    story.hear("started", {"pid": 1, "session": "survey-1", "resumes": None, "step": 0})
    story.hear("saved", {"step": 1, "message": "read a"})
    story.hear("started", {"pid": 2, "session": "survey-1", "resumes": 1, "step": 1})
    story.hear("started", {"pid": 3, "session": "survey-1", "resumes": 2, "step": 2})

    starts = [line for line in capsys.readouterr().out.splitlines() if "start" in line]
    assert starts[0].endswith("a new survey")
    assert starts[1].endswith("loads checkpoint #1, goes on with step 2")
    assert "#2, whose save was done but not yet announced, goes on with step 3" in starts[2]


def test_the_agent_goes_on_from_every_step_to_the_same_end():
    with holdfast.open("memory:") as store:
        whole = [state["step"] for _, state in survey(store.session("whole"))]
        for stop in (1, 5, GOAL, GOAL + 1):
            session = f"stopped at {stop}"
            for checkpoint, _ in survey(store.session(session)):
                if checkpoint.step == stop:
                    break
            rest = [state["step"] for _, state in survey(store.session(session))]
            assert rest == whole[stop:]
            ends = [store.session(each).load() | {"started_at": None} for each in ("whole", session)]
            assert ends[0] == ends[1]


@pytest.mark.parametrize("option", [["--store", "x"], ["--session", "x"], ["--branch", "x"]])
def test_options_that_do_not_apply_are_refused(run, home, option):
    assert run("demo", *option).exit_code == 2
    assert list(home.iterdir()) == []


def test_an_agent_that_cannot_write_ends_the_demo_with_a_sentence(home):
    program = Path(sys.executable).with_name("holdfast")

    # 700 blocks of 512 bytes: room for the store and a few steps, not for all of them.
    done = subprocess.run(
        ["/bin/sh", "-c", f'ulimit -f 700; exec "{program}" demo'],
        capture_output=True,
        text=True,
        check=False,
        cwd=home,
    )

    assert done.returncode == 8
    assert done.stderr.startswith("agent: the store ")
    assert "error: the agent of the demo ended with exit code 1" in done.stderr
    assert "Traceback" not in done.stderr
