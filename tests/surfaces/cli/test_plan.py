"""`holdfast plan`: plans from files, run, paused, decided about and looked at, each command as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.surfaces.cli.json_schema import load, problems

import holdfast

PLAN = """
name: release
steps:
  - id: version
    description: Read the version
    action: shell
    parameters: {command: [echo, "1.2.3"]}
  - id: notes
    action: shell
    parameters: {command: [cat], stdin: "notes"}
    dependencies: [version]
  - id: publish
    action: shell
    parameters: {command: [echo, published]}
    dependencies: [notes]
    approve: true
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "plan.yaml").write_text(PLAN)
    return tmp_path


def call(folder, *words, code=0):
    program = [sys.executable, "-m", "holdfast", "--store", "s.db", "--session", "r", *words]
    done = subprocess.run(program, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done


def described(done, name):
    value = json.loads(done.stdout)
    assert problems(value, load(f"plan-{name}.schema.json")) == []
    return value


def events(done):
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for each in found:
        assert problems(each, load("plan-run.schema.json")) == []
    return [(each["type"], each["data"].get("step")) for each in found]


def test_a_plan_from_its_file_to_its_end(folder) -> None:
    drawn = call(folder, "plan", "show", "plan.yaml").stdout.splitlines()
    assert [line.split()[1] for line in drawn] == ["version", "notes", "publish"]
    assert described(call(folder, "plan", "show", "plan.yaml", "--json"), "show")["plan"] == "release"
    done = call(folder, "plan", "run", "plan.yaml", code=3)
    told = events(done)
    assert told.index(("step.completed", "version")) < told.index(("step.started", "notes"))
    assert told[-1][0] == "execution.waiting"
    assert "holdfast plan approve --store" in done.stderr
    status = described(call(folder, "plan", "status", "--json"), "status")
    assert (status["status"], [each["step"] for each in status["waiting"]]) == ("waiting", ["publish"])
    rows = [line.split("\t")[:2] for line in call(folder, "plan", "status").stdout.splitlines()]
    assert rows == [["version", "completed"], ["notes", "completed"], ["publish", "pending"]]
    first = described(call(folder, "plan", "approve", "publish", "--by", "ada", "--json"), "approve")
    again = described(call(folder, "plan", "approve", "publish", "--reject", "--json"), "approve")
    assert (first["first"], again["first"], again["decision"]) == (True, False, "approved")
    assert events(call(folder, "plan", "resume"))[-1][0] == "execution.completed"
    call(folder, "plan", "resume", code=4)
    assert described(call(folder, "plan", "diff", "plan.yaml", "--json"), "diff")["changed"] == {}
    changed = folder / "changed.yaml"
    changed.write_text(PLAN.replace('stdin: "notes"', 'stdin: "more"'))
    assert "~ notes: parameters" in call(folder, "plan", "diff", "changed.yaml", code=1).stdout
    table = described(call(folder, "plan", "whatif", "notes", "--set", "stdin=a,b", "--json"), "whatif")
    assert [(each["parameters"], each["reused"], each["status"]) for each in table["variants"]] == [
        ({"stdin": "a"}, 1, "waiting"),
        ({"stdin": "b"}, 1, "waiting"),
    ]


def test_a_failed_plan_is_changed_and_goes_on(folder) -> None:
    (folder / "plan.yaml").write_text(
        PLAN.replace("[cat]", "[cat, missing.txt]").replace("approve: true", "")
    )
    done = call(folder, "plan", "run", "plan.yaml", code=1)
    assert events(done)[-2:] == [("step.failed", "notes"), ("execution.failed", None)]
    (folder / "plan.yaml").write_text(PLAN.replace("approve: true", ""))
    refused = call(folder, "plan", "run", "plan.yaml", code=5)
    assert "plan-changed" in refused.stderr
    told = events(call(folder, "plan", "run", "plan.yaml", "--rerun-changed"))
    assert ("step.started", "version") not in told
    assert told[-1][0] == "execution.completed"


def test_what_cannot_run_leaves_no_store_behind(folder) -> None:
    (folder / "plan.yaml").write_text(PLAN.replace("action: shell", "action: nonsense", 1))
    refused = call(folder, "plan", "run", "plan.yaml", code=2)
    assert "plan.yaml:4: step 'version'" in refused.stderr
    assert not (folder / "s.db").exists()
    call(folder, "plan", "status", code=10)


def test_show_says_what_is_wrong_with_a_plan(folder) -> None:
    (folder / "bad.yaml").write_text("- {id: a, action: nobody-has-it, dependencies: [b]}\n")
    assert "no such step" in call(folder, "plan", "show", "bad.yaml", code=2).stderr
    call(folder, "plan", "show", "plan.yaml")


def test_actions_of_a_module_by_name(folder) -> None:
    (folder / "mine.py").write_text("from holdfast import action\n@action\ndef twice(x): return 2 * x\n")
    (folder / "plan.json").write_text('[{"id": "a", "action": "twice", "parameters": {"x": 4}}]')
    call(folder, "plan", "run", "plan.json", "--actions", "mine")
    with holdfast.open(folder / "s.db") as store:
        assert store.session("r").load()["results"][0]["output"] == 8
    (folder / "plan.json").write_text('[{"id": "a", "action": "mine:twice", "parameters": {"x": 4}}]')
    call(folder, "plan", "run", "plan.json")


def test_cancel_and_resume_all(folder) -> None:
    call(folder, "plan", "run", "plan.yaml", code=3)
    assert described(call(folder, "plan", "cancel", "--json"), "cancel")["status"] == "cancelled"
    call(folder, "plan", "cancel", code=4)
    with holdfast.open(folder / "s.db") as store:
        steps = [{"id": "a", "action": "shell", "parameters": {"command": ["echo", "x"]}}]
        for name in ("one", "two"):
            holdfast.Executor(store.session(name)).submit(steps)
    done = call(folder, "plan", "resume", "--all")
    assert [json.loads(line)["status"] for line in done.stdout.splitlines()] == ["completed", "completed"]


def test_ctrl_c_pauses_with_a_checkpoint(folder) -> None:
    wait = "while [ ! -e go ]; do sleep 0.02; done; echo done"
    steps = [
        {"id": "a", "action": "shell", "parameters": {"command": ["sh", "-c", wait]}},
        {"id": "b", "action": "shell", "parameters": {"command": ["echo", "b"]}, "dependencies": ["a"]},
    ]
    (folder / "plan.json").write_text(json.dumps(steps))
    program = [
        sys.executable,
        "-m",
        "holdfast",
        "--store",
        "s.db",
        "--session",
        "r",
        "plan",
        "run",
        "plan.json",
    ]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True, cwd=folder, stderr=subprocess.PIPE)
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(json.loads(line)["type"])
        if lines[-1] == "step.started":
            process.send_signal(signal.SIGINT)
            break
    # The step that runs is waited for.
    Path(folder / "go").touch()
    rest, talk = process.communicate()
    assert process.returncode == 3, talk
    assert json.loads(rest.splitlines()[-1])["type"] == "execution.paused"
    assert "holdfast plan resume --store" in talk
    with holdfast.open(folder / "s.db") as store:
        assert store.session("r").checkpoint().status == "paused"
    told = events(call(folder, "plan", "resume"))
    assert ("step.started", "a") not in told
    assert os.path.exists(folder / "go")
