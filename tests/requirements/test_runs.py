"""Runs in three layers (C1 to C11); public API and command line only."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.agents import Questions, Run, diff_checkpoints

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "approval_agent.py"


@pytest.fixture
def store(place):
    with holdfast.open(place, durability="process") as store:
        yield store


@pytest.mark.requirement("C1")
def test_the_parts_are_live_and_a_change_writes_its_own(store):
    heard: list[holdfast.Event] = []
    run = Run(store.session("x"), task="t")
    run.events.subscribe("*", heard.append)
    run.context.variables["book"] = [f"page {number} " + "x" * 300 for number in range(2000)]
    first = run.checkpoint()
    thought = run.think("small", confidence=0.85, parent_id=None)
    saved = store.session("x").checkpoint()
    assert first.size_bytes > 600_000
    assert saved.stored_bytes < first.stored_bytes / 10
    assert set(thought) == {"id", "type", "content", "confidence", "parent_id", "created_at"}
    run.events.flush(5)
    [told] = [event for event in heard if event.type == "thought.created"]
    assert told.data["id"] == thought["id"]
    assert len(json.dumps(told.to_dict())) < 500


@pytest.mark.requirement("C2")
def test_a_file_for_each_checkpoint_in_which_one_value_is_one_line(store, tmp_path):
    run = Run(store.session("x"), task="t", export_dir=tmp_path / "out")
    run.context.variables["colour"] = "red"
    run.think("one")
    before = run.export()
    run.context.variables["colour"] = "blue"
    run.checkpoint()
    after = run.export()
    files = {
        each.stem: each.read_text(encoding="utf-8").splitlines() for each in (tmp_path / "out").iterdir()
    }
    assert set(files) == {before["id"], after["id"]}
    state = [(a, b) for a, b in zip(files[before["id"]], files[after["id"]], strict=True) if a != b]
    assert ('        "colour": "red"', '        "colour": "blue"') in state
    with pytest.raises(holdfast.InvalidInputError) as refused:
        Run(store.session("y"), resume_from=before | {"snapshot": {}})
    assert refused.value.details["path"].startswith("snapshot.")


@pytest.mark.requirement("C3")
@pytest.mark.requirement("C8")
def test_rows_answer_which_checkpoints_called_a_tool(store):
    with Run(store.session("x"), task="t", sql=True) as run:
        run.think("one", tokens=100)
        for name in ("ls", "cat", "ls"):
            with run.tool(name, {"path": "."}) as call:
                call.result = name
    with pytest.raises(ValueError), Run(store.session("y"), task="u", sql=True) as failed, failed.tool("ls"):
        raise ValueError("no")
    ask = Questions(store)
    found = ask.tool_calls("ls")
    assert [each["status"] for each in found] == ["failed", "completed", "completed"]
    for each in found[1:]:
        state = store.session("x").load(f"key:{each['checkpoint_id']}")
        assert each["id"] in state["tool_state"]["results"]
    assert ask.tokens()[-1] == {"execution_id": "average", "task": "of 2", "tokens": 50.0, "cost_usd": 0.0}
    assert ask.by_status() == [
        {"status": "completed", "executions": 1},
        {"status": "failed", "executions": 1},
    ]
    newest = store.session("x").checkpoint()
    store.session("x").annotate(newest, metadata={"reviewed": True})
    assert store.session("x").checkpoint().id == newest.id
    assert len(ask.thoughts(run.execution_id)) == 1


@pytest.mark.requirement("C4")
def test_a_checkpoint_after_each_thought_call_pause_request_and_the_end(store):
    heard: list[holdfast.Event] = []
    session = store.session("x")
    run = Run(session)
    run.events.subscribe("agent.checkpoint", heard.append)
    run.think("one")
    with run.tool("ls") as call:
        call.result = 1
    with pytest.raises(ValueError), run.tool("ls"):
        raise ValueError("no")
    run.checkpoint("look at this")
    run.pause("a person decides")
    with Run(store.session("x"), events=run.events):
        pass
    run.events.flush(5)
    reasons = [event.data["reason"] for event in heard]
    assert reasons == [each.metadata["checkpoint_reason"] for each in reversed(store.session("x").log())]
    assert reasons == [
        "thought_completed",
        "tool_started",
        "tool_completed",
        "tool_started",
        "tool_failed",
        "manual",
        "paused",
        "completed",
    ]
    assert [each.status for each in store.session("x").log()][:2] == ["completed", "paused"]
    before = len(store.session("x").log())
    again = Run(store.session("x"))
    again.context.variables["bad"] = object()
    with pytest.raises(holdfast.InvalidInputError, match=r"variables"):
        again.think("never")
    assert len(store.session("x").log()) == before


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("kind", ["id", "file", "dict"])
def test_a_run_goes_on_from_an_id_a_file_or_a_dict(store, tmp_path, kind):
    run = Run(store.session("x"), task="t", export_dir=tmp_path / "out")
    run.think("one", tokens=250)
    data = run.export()
    source = {"id": data["id"], "file": tmp_path / "out" / f"{data['id']}.json", "dict": data}[kind]
    again = Run(store.session("x" if kind == "id" else "y"), resume_from=source)
    again.think("two", tokens=10)
    assert [each["content"] for each in again.thought_chain] == ["one", "two"]
    assert (again.tokens_used, again.progress.step_number, again.execution_id) == (260, 2, run.execution_id)


@pytest.mark.requirement("C6")
def test_a_diff_in_the_words_of_a_run(store):
    run = Run(store.session("x"))
    run.context.variables["topic"] = "cats"
    run.think("one")
    first = run.export()
    run.context.variables["topic"] = "dogs"
    run.think("two")
    with run.tool("ls") as call:
        call.result = 1
    diff = diff_checkpoints(first, run.export())
    assert [each["content"] for each in diff.thoughts_added] == ["two"]
    assert [each["tool_id"] for each in diff.tool_calls_added] == ["ls"]
    assert diff.context_changes == [{"variable": "topic", "old": "cats", "new": "dogs"}]
    assert not diff_checkpoints(first, first)


@pytest.mark.requirement("C7")
def test_metadata_is_filled_in_and_never_falls(store):
    run = Run(store.session("x"))
    for number in range(3):
        run.think(f"thought {number}", tokens=10)
    again = Run(store.session("x"))
    again.think("more", tokens=5)
    found = [each.metadata for each in reversed(store.session("x").log())]
    assert [each["tokens_used"] for each in found] == [10, 20, 30, 35]
    assert [each["step_number"] for each in found] == [1, 2, 3, 4]
    assert sorted(each["duration_ms"] for each in found) == [each["duration_ms"] for each in found]
    assert {each["checkpoint_reason"] for each in found} == {"thought_completed"}


@pytest.mark.requirement("C11")
def test_the_last_hundred_of_an_execution_are_kept_on_request(store):
    run = Run(store.session("x"))
    for number in range(120):
        run.think(f"thought {number}")
    assert run.prune(last=100) == 20
    assert len(store.find(session="x")) == 100
    assert len(run.thought_chain) == 120


@pytest.mark.requirement("C5")
@pytest.mark.requirement("C10")
def test_an_agent_waits_for_approval_and_goes_on_in_another_store(tmp_path):
    folder, here, there = tmp_path / "files", tmp_path / "here", tmp_path / "there"
    for each in (folder, here, there):
        each.mkdir()
    (folder / "empty.txt").touch()
    (folder / "full.txt").write_text("words")

    def agent(where, *words):
        done = subprocess.run(
            [sys.executable, str(EXAMPLE), *words], cwd=where, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    said = agent(here, "scan", str(folder))
    assert said[0] == "paused: 3 tool calls, 1 thoughts"
    assert (folder / "empty.txt").exists()
    subprocess.run(["git", "init", "-q", str(here)], check=True)
    for words in (
        ["add", said[-1]],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "paused"],
    ):
        subprocess.run(["git", "-C", str(here), *words], check=True)
    subprocess.run(["git", "clone", "-q", str(here), str(there / "clone")], check=True)
    said = agent(there / "clone", "approve", said[-1])
    assert said[0] == "completed: 4 tool calls, 2 thoughts"
    assert not (folder / "empty.txt").exists()
    with holdfast.open(there / "clone" / ".holdfast", create=False) as other:
        assert other.sql("select count(*) from tool_calls").rows == [(4,)]


@pytest.mark.requirement("C2")
def test_a_run_writes_its_files_where_the_setting_says(tmp_path, monkeypatch):
    monkeypatch.setenv("HOLDFAST_CHECKPOINT_EXPORT_DIR", str(tmp_path / "out"))
    with holdfast.open(tmp_path / "store.db") as store:
        with Run(store.session("x"), task="t") as run:
            run.think("one")
            named = run.export()["id"]
        with Run(store.session("none"), task="t", export_dir=False) as quiet:
            quiet.think("two")
    names = {each.name for each in (tmp_path / "out").iterdir()}
    assert f"{named}.json" in names
    assert {name.partition("_")[0] for name in names} == {"ckpt"}, "no files of the other form beside them"
