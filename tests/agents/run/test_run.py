"""A run: what is saved when, what comes back, and what is refused."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

import jsonschema
import pytest

import holdfast
from holdfast.agents import AsyncRun, Run, current_run, diff_checkpoints, tool
from holdfast.agents.run.portable import SCHEMA, validate


@pytest.fixture
def store():
    with holdfast.open("memory:") as store:
        yield store


def reasons(session):
    return [each.metadata["checkpoint_reason"] for each in reversed(session.log())]


def test_a_save_costs_its_own_part(store):
    session = store.session("x")
    run = Run(session, task="t")
    run.context.variables["book"] = [f"page {number} " + "x" * 200 for number in range(3000)]
    run.checkpoint()
    run.think("short")
    with run.tool("ls", {"path": "."}) as call:
        call.result = ["a"]
    newest = session.log(limit=3)
    assert newest[0].size_bytes > 500_000
    assert max(each.stored_bytes for each in newest) < 20_000
    assert session.load() == run._document.plain()


@pytest.mark.parametrize(
    ("save_on", "expected"),
    [
        (("thought", "tool_start", "tool", "pause", "end"),
         ["thought_completed", "tool_started", "tool_completed", "manual", "completed"]),
        (("tool", "end"), ["tool_completed", "manual", "completed"]),
        ((), ["manual"]),
    ],
)  # fmt: skip
def test_each_moment_can_be_switched_off(store, save_on, expected):
    session = store.session("x")
    with Run(session, save_on=save_on) as run:
        run.think("one")
        with run.tool("ls") as call:
            call.result = 1
        run.checkpoint("now")
    assert reasons(session) == expected
    state = session.load()
    assert len(state["thought_chain"]) == len(state["tool_state"]["calls"]) == 1


def test_an_exception_fails_the_run_and_the_next_one_goes_on(store):
    session = store.session("x")
    run = Run(session, task="t")
    run.think("one", tokens=10)
    with pytest.raises(ValueError), run:
        raise ValueError("no luck")
    assert (session.checkpoint().status, session.checkpoint().trigger) == ("failed", "error")
    with Run(store.session("x")) as again:
        assert (again.resumed, again.execution_id, again.note) == (
            True,
            run.execution_id,
            "ValueError: no luck",
        )
        again.think("two", tokens=5)
    assert (again.tokens_used, len(again.thought_chain), again.task) == (15, 2, "t")
    with Run(store.session("x")) as fresh:
        assert (fresh.resumed, len(fresh.thought_chain)) == (False, 0)
        assert fresh.execution_id != run.execution_id


def test_a_failed_tool_call_is_recorded_and_raised(store):
    session = store.session("x")
    run = Run(session)
    with pytest.raises(OSError), run.tool("fetch", {"url": "u"}):
        raise OSError("no network")
    [call] = run.tool_state.calls
    assert (call["status"], call["success"], call["error"]) == ("failed", False, "OSError: no network")
    assert reasons(session) == ["tool_started", "tool_failed"]


class Answer:
    def __init__(self, text):
        self.text = text
        self.usage = {"input_tokens": 100, "output_tokens": 20, "cost_usd": 0.01}


def test_tokens_and_cost_come_from_a_usage(store):
    session = store.session("x")
    run = Run(session)
    with run.tool("model") as call:
        call.result = "hello"
        call.usage = Answer("hello")
    with run.tool("model") as call:
        call.result = {"text": "hi", "usage": {"total_tokens": 30}}
    run.think("so", usage={"prompt_tokens": 3, "completion_tokens": 4})
    found = session.checkpoint()
    assert (found.tokens, found.cost_usd, found.metadata["tokens_used"]) == (157, 0.01, 157)
    with pytest.raises(holdfast.InvalidInputError):
        run.add_usage(tokens=-1)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"content": "x", "type": "guess"}, holdfast.InvalidInputError),
        ({"content": ""}, holdfast.InvalidInputError),
        ({"content": 5}, holdfast.InvalidInputError),
        ({"content": "x", "confidence": "high"}, holdfast.InvalidInputError),
        ({"content": "x", "tokens": -1}, holdfast.InvalidInputError),
        ({"content": "x", "cost_usd": "much"}, holdfast.InvalidInputError),
        ({"content": "x", "confidence": 1.5}, holdfast.InvalidInputError),
        ({"content": "x", "parent_id": "thought_none"}, holdfast.NotFoundError),
    ],
)
def test_a_thought_that_is_none_writes_nothing(store, wrong, error):
    run = Run(store.session("x"))
    run.think("first")
    with pytest.raises(error) as refused:
        run.think(**wrong)
    assert refused.value.hint
    with pytest.raises(holdfast.InvalidInputError), run.tool(5):  # type: ignore[arg-type]
        pass
    assert (len(run.thought_chain), run.progress.step_number, len(store.session("x").log())) == (1, 1, 1)


def test_what_cannot_be_saved_is_refused_with_its_path_and_the_run_goes_on(store):
    run = Run(store.session("x"))
    with pytest.raises(holdfast.InvalidInputError, match=r"results"), run.tool("connect") as call:
        call.result = {"socket": object()}
    assert run.tool_state.calls[0]["status"] == "failed"
    with pytest.raises(holdfast.InvalidInputError, match=r"args"), run.tool("connect", {"client": object()}):
        pass
    assert len(run.tool_state.calls) == 1
    run.context.variables["client"] = object()
    with pytest.raises(holdfast.InvalidInputError, match="variables"):
        run.think("never kept")
    del run.context.variables["client"]
    run.think("kept")
    assert [each["content"] for each in store.session("x").load()["thought_chain"]] == ["kept"]


KILLED = """
import os, sys, holdfast
from holdfast.agents import Run

with Run(holdfast.open(sys.argv[1]).session("x"), task="t") as run:
    run.think("before")
    with run.tool("pay", {"amount": 5}):
        os.kill(os.getpid(), 9)
"""


def test_a_call_that_was_killed_is_interrupted_and_the_run_goes_on(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert done.returncode == -9
    with holdfast.open(tmp_path) as store:
        heard: list[holdfast.Event] = []
        bus = holdfast.EventBus()
        bus.subscribe("tool.interrupted", heard.append)
        with Run(store.session("x"), events=bus) as run:
            assert [call["tool_id"] for call in run.tool_state.interrupted] == ["pay"]
            run.think("after", type="observation")
            bus.flush(5)
            assert [event.data["tool_id"] for event in heard] == ["pay"]
        calls = store.session("x").load()["tool_state"]["calls"]
        assert [(each["status"], each["success"]) for each in calls] == [("interrupted", False)]
        assert [each["content"] for each in run.thought_chain] == ["before", "after"]


@tool(hide=["client"])
def search(query, client=None):
    return [query.upper()]


@tool
async def fetch(url):
    await asyncio.sleep(0)
    return {"url": url}


def test_functions_deep_in_a_program_find_their_run(store):
    assert search("outside") == ["OUTSIDE"]
    with Run(store.session("x")) as run:
        assert current_run() is run
        assert search("a", client=object()) == ["A"]
        asyncio.run(fetch("u"))
    assert current_run() is None
    calls = run.tool_state.calls
    assert [(each["tool_id"], each["args"]) for each in calls] == [
        ("search", {"query": "a"}),
        ("fetch", {"url": "u"}),
    ]
    assert list(run.tool_state.results.values()) == [["A"], {"url": "u"}]


def test_an_awaited_run_does_the_same():
    async def live():
        async with holdfast.aopen("memory:") as store:
            async with AsyncRun(store.session("x"), task="t") as run:
                await run.think("one", tokens=3)
                run.context.variables["n"] = 1
                await asyncio.gather(fetch("a"), fetch("b"))
                search("c")
                await run.pause("wait")
            async with AsyncRun(store.session("x")) as again:
                assert (again.note, again.tokens_used, again.context.variables) == ("wait", 3, {"n": 1})
                with pytest.raises(holdfast.InvalidInputError):
                    async with again.tool("bad") as call:
                        call.result = object()
            return await store.session("x").load()

    state = asyncio.run(live())
    assert [each["status"] for each in state["tool_state"]["calls"]] == ["completed"] * 3 + ["failed"]
    assert state["execution"]["status"] == "completed"


def test_events_say_what_happened_and_carry_no_state(store):
    heard = []
    bus = holdfast.EventBus()
    bus.subscribe("*", lambda event: heard.append((event.type, dict(event.data))))
    with Run(store.session("x"), events=bus) as run:
        run.context.state["big"] = "x" * 10_000
        run.think("y" * 5_000)
        with run.tool("ls") as call:
            call.result = "z" * 5_000
    bus.flush(5)
    kinds = [kind for kind, _ in heard if kind != "agent.checkpoint"]
    assert kinds == [
        "run.started",
        "context.changed",
        "thought.created",
        "tool.started",
        "tool.completed",
        "run.completed",
    ]
    assert max(len(json.dumps(data)) for _, data in heard) < 300


def test_files_have_the_published_form_and_another_store_goes_on(store, tmp_path):
    with Run(store.session("x"), task="t", export_dir=tmp_path) as run:
        run.think("one", confidence=0.85, tokens=250)
        with run.tool("ls", {"path": "."}) as call:
            call.result = ["a.py"]
    files = sorted(tmp_path.iterdir(), key=os.path.getmtime)
    assert len(files) == len(store.session("x").log()) == 4
    schema = json.loads(SCHEMA.read_text())
    for file in files:
        data = json.loads(file.read_text())
        jsonschema.validate(data, schema)
        assert file.name == f"{data['id']}.json"
        assert run.export(data["id"]) == data
    with holdfast.open("memory:") as other, Run(other.session("y"), resume_from=files[-1]) as again:
        again.think("two", tokens=5)
        assert (again.execution_id, again.progress.step_number, again.tokens_used) == (
            run.execution_id,
            3,
            255,
        )
        diff = diff_checkpoints(run.export(), again.export())
        assert [each["content"] for each in diff.thoughts_added] == ["two"]
        assert (diff.tool_calls_added, diff.context_changes) == ([], [])


def test_the_document_s_own_example_resumes_and_comes_out_as_it_went_in(store):
    example = {
        "version": "0.0.1",
        "id": "ckpt_abc123",
        "timestamp": 1738790400000,
        "execution_id": "exec_xyz",
        "agent_id": "my-agent",
        "snapshot": {
            "thought_chain": [
                {"id": "thought_001", "type": "reasoning", "content": "I need to analyze the codebase structure",
                 "confidence": 0.85, "created_at": 1738790300000}
            ],
            "context": {"variables": {"task": "code analysis"}, "state": {}, "history": []},
            "tool_state": {"calls": [], "results": {}},
            "progress": {"step_number": 1, "total_thoughts": 1, "total_tool_calls": 0},
        },
        "metadata": {
            "step_number": 1, "tokens_used": 250, "duration_ms": 1200, "checkpoint_reason": "thought_completed"
        },
    }  # fmt: skip
    jsonschema.validate(example, json.loads(SCHEMA.read_text()))
    run = Run(store.session("x"), resume_from=example)
    run.checkpoint()
    out = run.export()
    assert out["snapshot"] == example["snapshot"]
    assert (out["execution_id"], out["agent_id"], out["metadata"]["tokens_used"]) == (
        "exec_xyz",
        "my-agent",
        250,
    )
    assert out["metadata"]["duration_ms"] >= 1200


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("snapshot.thought_chain", [{"id": "t", "type": "guess", "content": "x", "created_at": 1}]),
        ("snapshot.progress.step_number", -1),
        ("snapshot.context", None),
        ("metadata.tokens_used", "many"),
        ("version", "9.0"),
        ("id", 7),
    ],
)
def test_a_file_that_is_none_is_refused_as_the_schema_does(store, place, value):
    run = Run(store.session("x"))
    run.think("one")
    data = run.export()
    at = data
    *way, last = place.split(".")
    for name in way:
        at = at[name]
    at[last] = value
    with pytest.raises(holdfast.HoldfastError) as refused:
        validate(data)
    assert place.split(".")[-1] in str(refused.value)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, json.loads(SCHEMA.read_text()))
    with pytest.raises(holdfast.HoldfastError):
        Run(store.session("y"), resume_from=data)
    assert store.session("y").log() == []


def test_going_on_from_an_earlier_checkpoint_keeps_the_later_ones(store):
    run = Run(store.session("x"))
    run.think("one")
    at = store.session("x").checkpoint()
    run.think("two")
    again = Run(store.session("x"), resume_from=at.key)
    again.think("other")
    assert [each["content"] for each in store.session("x").load()["thought_chain"]] == ["one", "other"]
    assert len(store.session("x").log()) == 3


def test_a_session_of_something_else_is_refused(store):
    store.session("x").save({"notes": []})
    with pytest.raises(holdfast.StateError):
        Run(store.session("x"))


def test_prune_keeps_the_last_of_an_execution(store, tmp_path):
    with Run(store.session("x")) as first:
        first.think("one")
    run = Run(store.session("x"), export_dir=tmp_path)
    for number in range(12):
        run.think(f"thought {number}")
    assert run.prune(last=5) == 7
    assert len(store.find(session="x", metadata={"execution_id": run.execution_id})) == 5
    assert len(store.find(session="x", metadata={"execution_id": first.execution_id})) == 2
    assert len(list(tmp_path.iterdir())) == 5
