"""`holdfast demo`: real processes, a real SIGKILL, and commands that work."""

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
    assert len(lines) <= 45
    labels = [line[2:10].strip() for line in lines if line.startswith("  ") and "--store" not in line]
    for label in ("failed", "SIGKILL", "skipped", "complete", "bisect", "diff", "restore", "checked"):
        assert label in labels
    assert labels.count("start") == 3


def test_what_the_story_says_is_in_the_store(told):
    folder, _done = told

    with holdfast.open(folder / "holdfast-demo", create=False) as store:
        session = store.session("research-1")
        state, log = session.load(), session.log()
    assert [each["status"] for each in state["plan"]] == ["completed"] * 3
    assert state["results"][2]["output"]["ranking"] == ["CompanyB", "CompanyC", "CompanyA"]
    assert state["context"]["figures"]["CompanyB"] == 4200
    assert log[0].trigger == "restore"
    assert "Failed at step 1: Fetch Q4 revenue for each competitor." in [each.message for each in log]


def test_the_commands_at_the_end_work_when_pasted(told):
    folder, done = told
    commands = [line.strip() for line in done.stdout.splitlines() if " --store " in line]

    assert len(commands) == 5
    for command in commands:
        pasted = subprocess.run(
            ["/bin/sh", "-c", command], capture_output=True, text=True, check=False, cwd=folder
        )
        assert pasted.returncode in (0, 1), (command, pasted.stderr)
        assert pasted.stdout
    # By its name where the name leads here.
    assert shlex.split(commands[0])[0] in ("holdfast", str(Path(sys.executable).with_name("holdfast")))


def test_running_it_again_adds_a_session_and_leaves_the_first_alone(told):
    folder, _ = told
    with holdfast.open(folder / "holdfast-demo", create=False) as store:
        before = [checkpoint.id for checkpoint in store.session("research-1").log()]

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
    assert (summary["session"], summary["ok"]) == ("research-2", True)
    assert summary["ran"] == {"competitors": 1, "revenue": 3, "report": 1}
    with holdfast.open(folder / "holdfast-demo", create=False) as store:
        assert [checkpoint.id for checkpoint in store.session("research-1").log()] == before
