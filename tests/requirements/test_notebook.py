"""What the source document asks of a debugging memory: its state, systems, triggers, comparison, recovery, code."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.workspace.repositories import contents, git, git_state, repository

import holdfast
from holdfast import InvalidInputError, NotFoundError, StateError
from holdfast.agents import BeliefGraph, HypothesisBoard, Notebook, Workspace
from holdfast.agents.notebook.recovery import (
    ManualInstruction,
    ReplayCommand,
    RestoreCodeState,
    RestoreEnvironment,
)

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
TRIGGERS = (
    "HypothesisStatusChange",
    "NewContradictionDetected",
    "VerificationComplete",
    "BranchSwitch",
    "GapFilled",
    "CodeModified",
    "SignificantTimePassed",
    "ContextCompactionWarning",
)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def time_ns(self) -> int:
        return int(self.now.timestamp() * 1_000_000) * 1000

    def pass_minutes(self, minutes: float) -> None:
        self.now += timedelta(minutes=minutes)


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(time, "time_ns", made.time_ns)
    return made


@pytest.fixture
def store(place):
    with holdfast.open(place, durability="process") as opened:
        yield opened


@pytest.mark.requirement("T2")
def test_the_debugging_state_has_every_part_under_its_name(store, clock, tmp_path):
    folder = repository(tmp_path / "r", {"kernel.c": b"int x;\n"})
    nb = Notebook(store.session("rocm"), workspace=Workspace(folder))
    clock.pass_minutes(3)
    h = nb.board.add("the scale is applied twice")
    nb.board.add_evidence(h, "the ratio is two", source="c1")
    a, b = nb.beliefs.add("the kernel is right"), nb.beliefs.add("the input is right")
    nb.beliefs.link(a, "requires", b)
    gap = nb.gaps.add("which rounding?", criticality="high", blocks=[h])
    nb.gaps.fill(gap, "to even")
    nb.checks.run("tests", "true", cwd=folder)
    nb.notes.add("it only fails on the GPU")
    nb.commands.run("echo out; echo err >&2; exit 4", cwd=folder)
    (folder / "kernel.c").write_bytes(b"int y;\n")
    clock.pass_minutes(3)
    saved = nb.checkpoint("all of it")
    # A new object, from the store alone.
    state = Notebook(store.session("rocm")).state(saved)

    assert state.session_id == "rocm"
    assert state.started_at == START
    assert [each["id"] for each in state.hypotheses] == [h]
    assert state.evidence[0]["source"] == "c1"
    assert [each["statement"] for each in state.beliefs] == ["the kernel is right", "the input is right"]
    assert [(each["from"], each["to"], each["type"]) for each in state.belief_dependencies] == [
        (a, b, "requires")
    ]
    assert state.gaps[0]["blocks"] == [h]
    assert state.verification_results[0]["passed"]
    assert (state.current_branch, state.branches) == ("main", [])
    assert [each["text"] for each in state.notes] == ["it only fails on the GPU"]
    assert state.code_changes is not None
    assert state.code_changes["commit_hash"] == git(folder, "rev-parse", "HEAD").strip()
    assert state.code_changes["patches"]["kernel.c"]["content"] == b"int y;\n"
    assert set(state.code_changes) == {"commit_hash", "patches", "env_vars"}
    command = state.command_history[0]
    assert command["command"] == "echo out; echo err >&2; exit 4"
    assert (command["exit_code"], command["working_dir"]) == (4, str(folder))
    assert (command["stdout_preview"], command["stderr_preview"]) == ("out\n", "err\n")
    assert isinstance(command["timestamp"], datetime)
    assert state.metrics["checkpoints_created"] == len(store.find(session="rocm"))
    assert (state.metrics["verifications_run"], state.metrics["gaps_filled"]) == (1, 1)
    assert state.metrics["hypotheses_tested"] == 0
    assert 180 <= state.metrics["time_in_debugging"] <= 360
    nb.board.reject(h)
    assert nb.state().metrics["hypotheses_tested"] == 1


class Theirs:
    """A system of somebody else: anything with snapshot and restore."""

    def __init__(self, *gaps: dict) -> None:
        self.gaps = list(gaps)

    def snapshot(self):
        return {"gaps": list(self.gaps)}

    def restore(self, value):
        self.gaps = list(value["gaps"])


@pytest.mark.requirement("T3")
def test_systems_connect_one_by_one_and_capture_and_restore_cover_those(store):
    board, graph = HypothesisBoard(), BeliefGraph()
    h = board.add("made before anything was connected")
    nb = Notebook(store.session("x"), systems=())
    nb.connect_hypothesis_board(board)
    theirs = Theirs({"id": "q1", "status": "open", "question": "why?"})
    nb.connect_gap_analyzer(theirs)
    first = nb.checkpoint("two systems", ["early"])

    state = nb.state(first)
    assert [each["id"] for each in state.hypotheses] == [h]
    assert [each["id"] for each in state.gaps] == ["q1"]
    assert (state.beliefs, state.belief_dependencies, state.verification_results, state.branches) == (
        [],
        [],
        [],
        [],
    )

    nb.connect_belief_graph(graph)
    graph.add("connected later")
    theirs.gaps.append({"id": "q2", "status": "open", "question": "when?"})
    board.add("another")
    second = nb.checkpoint("three systems")
    report = nb.restore(first)

    assert report.restored_to == first.id
    assert (report.timestamp, report.message) == (first.created_at, "two systems")
    assert report.recovery_complete
    assert [each["id"] for each in board.all()] == [h]
    assert [each["id"] for each in theirs.gaps] == ["q1"]
    assert graph.all() == []
    # With a part that has nowhere to go it is not complete, and the part is not lost either.
    alone = Notebook(store.session("x"), systems=["hypothesis_board"])
    report = alone.restore(second)
    assert not report.recovery_complete
    assert report.without_place == ("belief_graph", "gap_analyzer")
    alone.checkpoint("still there")
    assert [each["statement"] for each in alone.state("@").beliefs] == ["connected later"]
    for system, name in ((object(), "gap_analyzer"), (Theirs(), "mood_analyzer")):
        with pytest.raises(InvalidInputError):
            nb.connect(name, system)


@pytest.mark.requirement("T4")
def test_eight_triggers_save_by_themselves(store, clock, tmp_path):
    folder = repository(tmp_path / "r", {"a": b"a"})
    nb = Notebook(store.session("x"), workspace=Workspace(folder))

    def newest():
        return nb.session.checkpoint("@")

    h, other = nb.board.add("one"), nb.board.add("other")
    assert nb.session.log() == []
    nb.board.confirm(h)
    assert newest().message == "Auto: HypothesisStatusChange"
    assert newest().trigger == "auto:HypothesisStatusChange"
    assert set(newest().tags) == {"auto", "HypothesisStatusChange", "hypothesis_confirmed"}
    nb.board.reject(other)
    assert "hypothesis_rejected" in newest().tags
    a, b = nb.beliefs.add("a", confidence=0.9), nb.beliefs.add("b", confidence=0.9)
    nb.beliefs.link(a, "contradicts", b)
    assert set(newest().tags) == {"auto", "NewContradictionDetected", "contradiction_detected"}
    nb.checks.run("check", "true", cwd=folder)
    assert newest().message == "Auto: VerificationComplete"
    nb.gaps.fill(nb.gaps.add("why?"), "because")
    assert newest().message == "Auto: GapFilled"
    x = nb.experiments.start("idea")
    assert newest().message == "Auto: BranchSwitch"
    assert newest().branch == "x1-idea"
    nb.experiments.merge(x)
    assert "branch_merged" in newest().tags
    (folder / "a").write_bytes(b"edited by some shell")
    nb.notes.add("a note")
    assert newest().message == "Auto: CodeModified"
    before = newest()
    clock.pass_minutes(5)
    nb.notes.add("five minutes are not more than five")
    assert newest() == before
    assert nb.auto_checkpoint("SignificantTimePassed") is None
    clock.pass_minutes(0.1)
    nb.notes.add("now")
    assert newest().message == "Auto: SignificantTimePassed"
    assert nb.auto_checkpoint("ContextCompactionWarning") == newest()
    assert newest().message == "Auto: ContextCompactionWarning"
    made = {c.message.removeprefix("Auto: ") for c in store.find(session="x", tag="auto")}
    assert made == set(TRIGGERS)
    with pytest.raises(InvalidInputError):
        nb.auto_checkpoint("FullMoon")


@pytest.mark.requirement("T4")
def test_callbacks_fire_triggers_where_the_notebook_does_not(store):
    nb = Notebook(store.session("x"), auto=False)
    nb.board.on_hypothesis_confirmed(lambda _: nb.auto_checkpoint("HypothesisStatusChange"))
    h = nb.board.add("it is the cache")
    nb.board.test(h)
    assert nb.session.log() == []
    nb.board.confirm(h)
    assert [each.message for each in nb.session.log()] == ["Auto: HypothesisStatusChange"]


@pytest.mark.requirement("T6")
def test_two_checkpoints_compared_in_the_terms_of_debugging(store, clock):
    nb = Notebook(store.session("x"), auto=False)
    h1, h2 = nb.board.add("one"), nb.board.add("two")
    b1 = nb.beliefs.add("believed", confidence=0.5)
    gap = nb.gaps.add("why?")
    before = nb.checkpoint("before")
    clock.pass_minutes(90)
    nb.board.set_status(h1, "confirmed")
    ev = nb.board.add_evidence(h2, "seen", strength=1.0)
    h3 = nb.board.add("three")
    nb.beliefs.set_confidence(b1, 0.9)
    b2 = nb.beliefs.add("also believed")
    nb.gaps.fill(gap, "because")
    note = nb.notes.add("noted")
    check = nb.checks.check("python", lambda: True)
    after = nb.checkpoint("after")

    found = nb.compare(before, after)

    data = found.to_dict()
    assert (data["from"], data["to"]) == (before.id, after.id)
    assert found.time_delta == timedelta(minutes=90)
    assert {(each["change"], each["id"]) for each in found.hypothesis_diff} == {
        ("status_changed", h1),
        ("confidence_changed", h2),
        ("added", h3),
    }
    changed = {each["id"]: each for each in found.hypothesis_diff}
    assert (changed[h1]["old"], changed[h1]["new"]) == ("open", "confirmed")
    assert changed[h2]["new"] == pytest.approx(5 / 6, abs=1e-4)
    assert {(each["change"], each["id"]) for each in found.belief_diff} == {
        ("confidence_changed", b1),
        ("added", b2),
    }
    assert [each["id"] for each in found.evidence_added] == [ev]
    assert [each["id"] for each in found.verifications_added] == [check["id"]]
    assert found.gaps_filled == [gap]
    assert [each["id"] for each in found.notes_added] == [note]
    assert "90 minutes" in found.summary
    assert h1 in found.summary
    nb.board.supersede(h2, by=h3)
    last = nb.compare(after, nb.checkpoint("superseded"))
    assert {(each["change"], each.get("field")) for each in last.hypothesis_diff} == {
        ("status_changed", None),
        ("updated", "superseded_by"),
    }
    same = nb.compare(after, after).to_dict()
    empty = [name for name in same if name.endswith(("_diff", "_added", "_filled"))]
    assert len(empty) == 6
    assert all(same[name] == [] for name in empty)


@pytest.mark.requirement("T7")
def test_a_recovery_point_has_steps_that_can_be_carried_out(store, tmp_path, monkeypatch):
    folder = repository(tmp_path / "r", {"a": b"a"})
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    nb = Notebook(store.session("bug"), workspace=Workspace(folder))
    with pytest.raises(NotFoundError):
        nb.create_recovery_point()
    (folder / "a").write_bytes(b"edited")
    nb.commands.run("echo built > built", cwd=folder, replay=True)
    nb.commands.run("rm -f built", cwd=folder)
    saved = nb.checkpoint("here")

    point = nb.create_recovery_point()

    assert point.checkpoint_id == saved.id
    assert [type(each) for each in point.recovery_instructions] == [
        RestoreCodeState,
        RestoreEnvironment,
        ReplayCommand,
        ManualInstruction,
    ]
    steps: list[Any] = list(point.recovery_instructions)
    code, environment, replay, manual = steps
    assert (code.commit_hash, code.patches) == (git(folder, "rev-parse", "HEAD").strip(), ["a"])
    assert environment.env_vars["CUDA_VISIBLE_DEVICES"] == "3"
    assert replay.command == "echo built > built"
    assert manual.instruction == f"Restore debugging session bug from checkpoint {saved.id}"
    (folder / "a").write_bytes(b"lost my way")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    done = point.carry_out(nb)
    assert [each["number"] for each in done] == [0, 1, 2, 3]
    assert (folder / "a").read_bytes() == b"edited"
    assert (folder / "built").read_bytes() == b"built\n"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3"
    point.recovery_instructions[2] = ReplayCommand("exit 5", str(folder))
    with pytest.raises(StateError) as raised:
        point.carry_out(nb)
    assert raised.value.code == "replay-failed"
    assert (raised.value.details["step"], raised.value.details["exit_code"]) == (2, 5)
    assert len(raised.value.details["done"]) == 2


def an_hour(nb, clock, folder: Path) -> None:
    """An hour of debugging: what a person or an agent does, one step every minute or two."""
    nb.notes.add("find out why the output is NaN", kind="goal")
    hypotheses = [nb.board.add(f"suspect {n}") for n in range(6)]
    for n, h in enumerate(hypotheses):
        clock.pass_minutes(2)
        nb.commands.run(f"echo trying {n}", cwd=folder)
        nb.board.test(h)
        clock.pass_minutes(3)
        nb.board.add_evidence(h, f"seen {n}", supports=n == 5, strength=0.6)
        (folder / "a").write_bytes(b"try %d" % n)
        nb.checks.run("tests", f"test {n} = 5", cwd=folder)
        nb.board.set_status(h, "confirmed" if n == 5 else "rejected", reason=f"because of {n}")
        clock.pass_minutes(5)
        nb.beliefs.add(f"learned {n}", confidence=0.7, reason=f"from {n}")
        nb.gaps.fill(nb.gaps.add(f"what about {n}?"), "this")


REBUILD = """
import json, sys, holdfast
from holdfast.agents import Notebook
with holdfast.open(sys.argv[1]) as store:
    nb = Notebook(store.session("long"))
    print(json.dumps([nb.state().to_dict(), nb.brief(1500)], default=repr))
"""


@pytest.mark.requirement("T12")
def test_nothing_is_lost_over_a_compaction(store, place, clock, tmp_path):
    import json

    folder = repository(tmp_path / "r", {"a": b"a"})
    nb = Notebook(store.session("long"), workspace=Workspace(folder))
    an_hour(nb, clock, folder)
    warned = nb.auto_checkpoint("ContextCompactionWarning")
    lost, brief = nb.state(), nb.brief(1500)
    automatic = store.find(session="long", tag="auto")
    assert len(automatic) >= 10
    assert clock.now - START <= timedelta(hours=1)
    del nb
    # All that is left is the store: a new process has exactly what there was.
    done = subprocess.run([sys.executable, "-c", REBUILD, place], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == json.loads(json.dumps([lost.to_dict(), brief], default=repr))
    again = Notebook(store.session("long"), workspace=Workspace(folder))
    assert again.state(warned) == lost
    assert "find out why the output is NaN" in brief
    assert "suspect 5" in brief
    # What was believed in the middle, and since when.
    then = again.at(START + timedelta(minutes=31))
    assert [each["statement"] for each in then.beliefs] == ["learned 0", "learned 1", "learned 2"]
    learned = again.why("b2")
    assert learned.held
    assert (learned.since.created_at, learned.why) == (START + timedelta(minutes=20), "from 1")


@pytest.mark.requirement("T13")
def test_code_changes_are_captured_and_restored_byte_for_byte(store, tmp_path, monkeypatch):
    secret = "ghp_" + "Z9y8" * 9
    monkeypatch.setenv("PYTHON_GITHUB", secret)
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    names = {"edited": b"1", "staged": b"1", "deleted": b"1", "clean": b"1"}
    folder = repository(tmp_path / "r", names)
    nb = Notebook(store.session("x"), workspace=Workspace(folder))
    clean = nb.checkpoint("clean")
    assert nb.state(clean).code_changes is None
    (folder / "edited").write_bytes(b"2\r\n\xff")
    (folder / "staged").write_bytes(b"2")
    (folder / "added").write_bytes(b"2")
    git(folder, "add", "staged", "added")
    (folder / "deleted").unlink()
    (folder / "untracked").write_bytes(b"2")
    index = git_state(folder)
    saved, then = nb.checkpoint("dirty"), contents(folder)
    changes = nb.state(saved).code_changes
    assert changes is not None
    assert set(changes["patches"]) == {"edited", "staged", "added", "deleted", "untracked"}
    assert changes["patches"]["staged"]["index"]
    assert changes["env_vars"]["PYTHONHASHSEED"] == "7"
    assert secret not in repr(nb.session.load())
    # Later work that no checkpoint has yet.
    (folder / "edited").write_bytes(b"later")
    (folder / "clean").write_bytes(b"later")
    (folder / "later").write_bytes(b"later")
    later = contents(folder)
    report = nb.restore(saved)
    assert report.recovery_complete
    assert contents(folder) == then
    assert git_state(folder) == index
    nb.undo_restore()
    assert contents(folder) == later
    # Without git every file counts as changed.
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "one").write_bytes(b"one")
    other = Notebook(store.session("plain"), workspace=Workspace(plain))
    kept = other.checkpoint("kept")
    assert (other.state(kept).code_changes or {})["commit_hash"] is None
    (plain / "one").unlink()
    (plain / "two").write_bytes(b"two")
    other.restore(kept)
    assert contents(plain) == {"one": ("file", (plain / "one").stat().st_mode & 0o777, b"one")}
