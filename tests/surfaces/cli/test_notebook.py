"""The notebook from the command line: the source document's example, one form for all, bad input, many at once."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.workspace.repositories import contents, repository

KEPT_IN = ["sqlite"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    made = repository(tmp_path / "kernel", {"dequant.py": b"scale = 2\n"})
    monkeypatch.chdir(made)
    monkeypatch.setenv("HOLDFAST_STORE", str(tmp_path / "store"))
    return made


def items(run, *words):
    done = run("nb", *words, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)["items"]


def ok(run, *words, code=0):
    done = run(*words)
    assert done.exit_code == code, done.stderr
    return done.stdout


def test_the_example_from_end_to_end_then_everything_is_dropped_and_comes_back(run, folder):
    ok(run, "nb", "note", "add", "find out why the output is NaN", "--kind", "goal")
    ok(run, "create", "About to try skipping normalization", "--tags", "experiment,pre_change")
    ok(run, "nb", "hypothesis", "add", "the scale is applied twice")
    ok(run, "nb", "hypothesis", "add", "an index is off by one")
    ok(run, "nb", "evidence", "add", "h1", "the ratio is two", "--strength", "0.8", "--source", "c1")
    ok(run, "nb", "hypothesis", "reject", "h2", "--evidence", "the indices match")
    ok(run, "nb", "belief", "add", "the kernel is right", "--confidence", "0.9", "--reason", "it matches")
    ok(run, "nb", "belief", "add", "the input is right", "--confidence", "0.8")
    ok(run, "nb", "belief", "link", "b1", "requires", "b2")
    ok(run, "nb", "gap", "add", "which rounding?", "--criticality", "high", "--blocks", "h1")
    (folder / "dequant.py").write_bytes(b"scale = 1\n")
    ok(run, "nb", "check", "run", "scale", "--command", "grep -q 'scale = 3' dequant.py", code=1)
    ok(run, "nb", "check", "run", "scale again", "--command", "grep -q 'scale = 1' dequant.py")
    ok(run, "exec", "--", "sh", "-c", "echo seen; exit 3", code=3)
    ok(run, "nb", "hypothesis", "confirm", "h1", "--evidence", "dividing once gives the right numbers")
    edited = contents(folder)

    # Each command is a process of its own to the store: nothing was ever in memory.
    board = ok(run, "nb", "board")
    assert all(name in board for name in ("h1", "h2", "b1", "g1", "v1"))
    brief = ok(run, "brief", "--budget", "600")
    assert "find out why the output is NaN" in brief
    assert "h1 confirmed: the scale is applied twice" in brief
    assert "h2 rejected" in brief
    assert ok(run, "brief", "--budget", "600") == brief
    compared = json.loads(ok(run, "nb", "compare", "tag:pre_change", "@", "--json"))
    assert {each["change"] for each in compared["hypothesis_diff"]} == {"added"}
    assert len(compared["verifications_added"]) == 2
    assert "new hypothesis h1" in ok(run, "nb", "compare", "tag:pre_change")
    why = json.loads(ok(run, "nb", "belief", "why", "b1", "--json"))
    assert (why["held"], why["why"]) == (True, "it matches")

    plan = json.loads(ok(run, "nb", "restore", "tag:pre_change", "--dry-run", "--json"))
    assert plan["files"] == [{"op": "M", "path": "dequant.py"}]
    assert contents(folder) == edited
    assert ok(run, "nb", "restore", "tag:pre_change") == "M\tdequant.py\n"
    assert (folder / "dequant.py").read_bytes() == b"scale = 2\n"
    assert items(run, "hypothesis") == []
    ok(run, "nb", "restore", "--undo")
    assert contents(folder) == edited
    assert [each["status"] for each in items(run, "hypothesis")] == ["confirmed", "rejected"]
    steps = json.loads(ok(run, "nb", "recovery", "--json"))["recovery_instructions"]
    assert [each["step"] for each in steps] == ["RestoreCodeState", "RestoreEnvironment", "ManualInstruction"]
    (folder / "dequant.py").write_bytes(b"lost")
    ok(run, "nb", "recovery", "--run")
    assert contents(folder) == edited


def test_experiments_move_between_branches_and_files_come_back(run, folder):
    ok(run, "nb", "hypothesis", "add", "shared")
    ok(run, "nb", "experiment", "start", "skip the norm", "--files")
    (folder / "dequant.py").write_bytes(b"scale = 0\n")
    ok(run, "nb", "hypothesis", "add", "only there")
    ok(run, "nb", "experiment", "abandon", "x1", "it is needed")
    assert (folder / "dequant.py").read_bytes() == b"scale = 2\n"
    assert [each["id"] for each in items(run, "hypothesis")] == ["h1"]
    ok(run, "nb", "experiment", "start", "another")
    ok(run, "nb", "hypothesis", "add", "found")
    ok(run, "nb", "experiment", "switch", "main")
    assert len(items(run, "hypothesis")) == 1
    ok(run, "nb", "experiment", "switch", "x2")
    ok(run, "nb", "experiment", "merge", "x2")
    assert [each["id"] for each in items(run, "hypothesis")] == ["h1", "h1x2"]
    assert [each["status"] for each in items(run, "experiment")] == ["abandoned", "merged"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["nb", "hypothesis", "confirm", "h99"], 4),
        (["nb", "hypothesis", "add"], 2),
        (["nb", "hypothesis", "add", "x", "--confidence", "1.5"], 2),
        (["nb", "hypothesis", "sing", "h1"], 2),
        (["nb", "hypothesis", "confidence", "h1", "much"], 2),
        (["nb", "belief", "link", "b1", "requires", "b1"], 4),
        (["nb", "evidence", "show", "ev9"], 4),
        (["nb", "check", "run", "unknown"], 4),
        (["nb", "experiment", "abandon", "x9", "why"], 4),
        (["nb", "restore"], 2),
        (["nb", "restore", "@", "--undo"], 2),
        (["nb", "restore", "--finish"], 4),
        (["nb", "compare", "#99"], 4),
        (["nb", "sing"], 2),
        (["brief", "--budget", "3"], 2),
        (["exec"], 2),
        (["exec", "--", "no-such-program-here"], 127),
    ],
)
def test_bad_input_ends_in_a_code_and_a_hint(run, folder, words, code):
    ok(run, "nb", "hypothesis", "add", "there is one")
    done = run(*words)
    assert done.exit_code == code, done.stderr
    if code < 100:
        assert "hint:" in done.stderr


def test_a_session_that_is_no_notebook_is_refused(run, folder, tmp_path):
    (tmp_path / "state.json").write_text('{"a": 1}')
    ok(run, "create", "other", "--state", str(tmp_path / "state.json"))
    done = run("nb", "note", "add", "x")
    assert done.exit_code == 2


def test_create_with_more_than_a_message_and_tags_still_saves_the_state(run, folder):
    ok(run, "nb", "hypothesis", "add", "kept")
    ok(run, "create", "with a step", "--step", "7")
    assert [each["statement"] for each in items(run, "hypothesis")] == ["kept"]


def test_many_processes_write_one_notebook_and_nothing_is_lost(folder):
    program = [sys.executable, "-m", "holdfast", "nb", "note", "add"]
    started = [
        subprocess.Popen([*program, f"note {n}", "--no-code"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for n in range(6)
    ]
    ends = [(each.communicate(), each.returncode) for each in started]
    assert [code for _, code in ends] == [0] * 6, ends
    listed = subprocess.run(
        [sys.executable, "-m", "holdfast", "nb", "note", "--json"], capture_output=True, check=True
    )
    texts = {each["text"] for each in json.loads(listed.stdout)["items"]}
    assert texts == {f"note {n}" for n in range(6)}
