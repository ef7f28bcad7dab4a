"""`holdfast heartbeat`: what it prints, what it runs, and what it ends with."""

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

AGENTS = """
from holdfast.agents import HeartbeatAgent

class Quiet(HeartbeatAgent):
    pass

class Broken(HeartbeatAgent):
    def think(self, beat):
        raise ValueError(f"beat {beat.number} is too much")

class Sleepy(HeartbeatAgent):
    def integrate(self, beat):
        if beat.number % 3 == 0:
            beat.sleep("tired")

class Same(HeartbeatAgent):
    def act(self, beat):
        raise ValueError("the same")

class Wrong(HeartbeatAgent):
    def act(self):
        pass

class Unwilling(HeartbeatAgent):
    def wake(self, report):
        raise ValueError("five more minutes")

class Fragile(HeartbeatAgent):
    def __init__(self):
        raise RuntimeError("not today")

made = Sleepy()

def factory():
    return Sleepy()

number = 7
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "agents.py").write_text(AGENTS, encoding="utf-8")
    (tmp_path / "alone.py").write_text(
        "from holdfast.agents import HeartbeatAgent\nclass Only(HeartbeatAgent): pass\n", encoding="utf-8"
    )
    (tmp_path / "wrong.py").write_text("import no_such_library\n", encoding="utf-8")
    (tmp_path / "broken.py").write_text("x = 1\n\ndef f(:\n", encoding="utf-8")

    def run(*words, **env):
        return subprocess.run(
            [sys.executable, "-m", "holdfast", *words],
            cwd=tmp_path,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def words_of(text):
    return [line.split(":")[0] for line in text.splitlines()]


def test_without_an_agent_of_ones_own_a_small_one_runs_and_wakes_up_again(program, tmp_path):
    first = program("heartbeat", "--once")
    assert first.returncode == 0, first.stderr
    assert words_of(first.stdout) == ["woke", "saved", "slept"]
    assert first.stdout.startswith("woke: first life of session heartbeat: nothing to restore\n")
    assert "made a new store" in first.stderr
    second = program("heartbeat", "run", "--max-beats", "5", "--interval", "0", "--every", "2")
    assert words_of(second.stdout) == ["woke", "saved", "saved", "saved", "slept"]
    assert "restored beat 1 from" in second.stdout
    assert "nothing lost" in second.stdout
    assert "slept: paused at beat 6 after 5 beats" in second.stdout
    with holdfast.open(tmp_path / ".holdfast") as store:
        state = store.session("heartbeat").load()
    assert state["identity"]["name"] == "pulse"
    assert state["goals"]["goals"][0]["title"] == "know this machine"


def test_json_is_one_event_a_line_that_fits_its_schema(program):
    program("heartbeat", "--once")
    program("create", "a note", "--session", "heartbeat")
    runs = [
        program("heartbeat", "--max-beats", "5", "--interval", "0", "--every", "2", "--json"),
        program("heartbeat", "agents:Broken", "--interval", "0", "--json", "--session", "broken"),
    ]
    assert [each.returncode for each in runs] == [0, 1]
    schema = load("heartbeat.schema.json")
    lines = [json.loads(line) for run in runs for line in run.stdout.splitlines()]
    for line in lines:
        # Named after the parts of an agent, of which it may have any.
        line.pop("sources", None)
        line.get("data", {}).pop("sources", None)
        assert problems(line, schema) == []
    types = [line["type"] for line in lines]
    assert types[0] == "checkpoint.restored"
    assert types[1] == "heartbeat.woke"
    assert types.count("heartbeat.failed") == 5
    assert types.count("heartbeat.slept") == 2


@pytest.mark.parametrize(
    "name", ["agents:Sleepy", "agents:made", "./agents.py:factory", "alone", "alone.py:Only"]
)
def test_an_agent_is_a_class_an_instance_a_function_or_alone_in_its_module(program, name):
    done = program("heartbeat", "run", name, "--max-beats", "3", "--interval", "0")
    assert done.returncode == 0, done.stderr
    assert "at beat 3 after 3 beats" in done.stdout
    assert done.stdout.endswith(": tired\n") == ("alone" not in name)


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("nowhere:Nobody", "No module named 'nowhere'", "scout:Scout"),
        ("agents:Quite", "has no attribute 'Quite'", "agents of agents: Quiet, "),
        ("agents:number", "agents:number is a int and no agent", "HeartbeatAgent"),
        ("agents", "agents has 8 agents", "name one of: agents:Quiet"),
        ("agents.Quiet", "No module named 'agents.Quiet'", "scout:Scout"),
        ("broken", "SyntaxError: invalid syntax (broken.py, line 3)", "DEBUG"),
        ("wrong:Agent", "No module named 'no_such_library'", "DEBUG"),
        ("agents:Fragile", "RuntimeError: not today", "DEBUG"),
        ("", "ValueError", "scout:Scout"),
    ],
)
def test_what_cannot_be_run_is_said_and_leaves_no_store(program, tmp_path, name, message, hint):
    done = program("heartbeat", "run", name)
    assert done.returncode == 2
    assert message in done.stderr
    assert hint in done.stderr
    assert "code: bad-argument" in done.stderr
    assert not (tmp_path / ".holdfast").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--once", "--max-beats", "3"),
        ("run", "agents:Quiet", "alone:Only"),
        ("--max-beats", "0"),
        ("--interval", "-1"),
        ("--every", "x"),
        ("--branch", "main"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_meant_is_refused(program, words):
    assert program("heartbeat", *words).returncode == 2


def test_too_many_failures_end_it_with_exit_1_and_the_errors_are_shown(program):
    done = program("heartbeat", "run", "agents:Broken", "--interval", "0")
    assert done.returncode == 1
    assert "slept: failed at beat 5 after 5 beats" in done.stdout
    assert "5 beats in a row ended in an error, the last in ValueError: beat 5 is too much" in done.stdout
    assert done.stderr.count("ValueError: beat ") == 5
    assert done.stderr.count("Traceback") == 1


def test_what_never_worked_does_not_end_with_0(program, tmp_path):
    same = program("heartbeat", "run", "agents:Same", "--interval", "0", "--max-beats", "2")
    assert same.returncode == 1
    assert "every beat ended in an error, the last in ValueError: the same" in same.stdout
    wrong = program("heartbeat", "run", "agents:Wrong", "--max-beats", "2", "--session", "wrong")
    assert wrong.returncode == 2
    assert "'act' of Wrong cannot be called" in wrong.stderr
    assert "write def act(self, beat)" in wrong.stderr
    unwilling = program("heartbeat", "run", "agents:Unwilling", "--once", "--session", "unwilling")
    assert unwilling.returncode == 7
    assert "wake() of Unwilling failed: ValueError: five more minutes" in unwilling.stderr
    with holdfast.open(tmp_path / ".holdfast") as store:
        assert [(each.id, each.agent) for each in store.sessions()] == [("heartbeat", "agent")]


def test_what_people_do_in_the_session_while_it_sleeps_is_what_it_wakes_up_with(program, tmp_path):
    (tmp_path / "x.json").write_text('{"x": 1}', encoding="utf-8")
    program("heartbeat", "--max-beats", "6", "--interval", "0", "--every", "2", "--session", "r")
    listed = program("list", "--session", "r", "--json")
    assert [each["step"] for each in json.loads(listed.stdout)["checkpoints"]] == [6, 6, 4, 2]
    assert program("restore", "#2", "--session", "r").returncode == 0
    assert "woke: restored beat 4 from" in program("heartbeat", "--once", "--session", "r").stdout
    assert program("create", "a note", "--session", "r").returncode == 0
    assert "woke: restored beat 5 from" in program("heartbeat", "--once", "--session", "r").stdout
    assert program("create", "not its own", "--session", "r", "--state", "x.json").returncode == 0
    woken = program("heartbeat", "--once", "--session", "r").stdout
    assert "woke: restored beat 6 from" in woken
    assert "passed over, with none of its parts: #9 ('not its own')" in woken
    program("create", "mine", "--session", "mine", "--state", "x.json")
    refused = program("heartbeat", "--once", "--session", "mine")
    assert (refused.returncode, refused.stdout) == (7, "")
    assert "session 'mine' is not that of an agent" in refused.stderr


def test_the_session_is_the_one_that_is_typed_or_set_and_never_the_one_that_everybody_is_in(
    program, tmp_path
):
    program("heartbeat", "--once")
    program("heartbeat", "--once", "--session", "typed")
    program("heartbeat", "--once", HOLDFAST_SESSION="from-variable")
    program("heartbeat", "--once", HOLDFAST_HEARTBEAT_SESSION="its-own", HOLDFAST_SESSION="not-this")
    with holdfast.open(tmp_path / ".holdfast") as store:
        assert [each.id for each in store.sessions()] == ["heartbeat", "typed", "from-variable", "its-own"]


# SIGTERM is in tests/surfaces/cli/test_exit_codes.py.
@pytest.mark.parametrize("number", [signal.SIGINT])
def test_a_signal_ends_it_after_a_last_checkpoint(program, tmp_path, number):
    program("init")
    # However long the other command takes, the second beat does not come meanwhile.
    words = ["heartbeat", "run", "agents:Quiet", "--interval", "3600"]
    with subprocess.Popen(
        [sys.executable, "-m", "holdfast", *words],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as living:
        assert living.stdout is not None
        assert living.stdout.readline().startswith("woke:")
        refused = program("heartbeat", "--once")
        living.send_signal(number)
        out, errors = living.communicate()
    assert refused.returncode == 5
    assert f"heartbeat' is held by process {living.pid}" in refused.stderr
    assert (living.returncode, errors) == (128 + number, "")
    assert words_of(out) == ["saved", "slept"]
    assert f"slept: interrupted at beat 1 after 1 beat, saved {out.split()[4].rstrip(',')}" in out


def test_the_installed_program_finds_the_module_in_the_folder_that_it_runs_in(program, tmp_path):
    del program  # the files that it made are what is wanted
    installed = Path(sys.executable).parent / "holdfast"
    done = subprocess.run(
        [installed, "heartbeat", "alone:Only", "--once"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
