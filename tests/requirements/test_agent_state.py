"""AgentState, the ready-made record for autonomous agents; public API only."""

from __future__ import annotations

import dataclasses
import json

import pytest

import holdfast
from holdfast.agents import AgentState


@pytest.fixture
def session(place):
    with holdfast.open(place, durability="process") as store:
        yield store.session("agent-1", agent="agent-1")


@pytest.mark.requirement("K1")
def test_a_state_of_22_fields_goes_through_a_dict_and_back():
    state = AgentState(
        agent_id="agent1",
        step_number=3,
        conversation_history=[{"role": "user", "content": "hello"}],
        tool_usage_counts={"search": 2},
        active_specialists=["planner"],
        status="running",
    )
    data = state.to_dict()
    assert len(data) == len(dataclasses.fields(AgentState)) == 22
    assert AgentState.from_dict(json.loads(json.dumps(data))) == state
    with pytest.raises(holdfast.InvalidInputError, match="converstion_history") as refused:
        AgentState.from_dict({"converstion_history": []})
    assert "conversation_history" in refused.value.hint


@pytest.mark.requirement("K1")
def test_the_loop_of_the_document_saves_every_tenth_step_and_resumes(session):
    state = AgentState(agent_id="agent1")
    recorder = holdfast.Recorder(session, trigger=holdfast.every(steps=10)).connect("agent", state)
    for step in range(35):
        state.step_number = step
        state.conversation_history.append({"step": step})
        recorder.step(step)

    resumed = AgentState()
    report = holdfast.Recorder(session).connect("agent", resumed).resume()
    assert report is not None
    assert (resumed.step_number, len(resumed.conversation_history)) == (30, 31)
    assert report.steps_recovered == 30


@pytest.mark.requirement("K1")
def test_id_and_time_are_filled_in_from_the_record(session):
    state = AgentState(agent_id="agent1", step_number=1, metadata={"model": "m1"})
    first = state.save(session, "one")
    state.step_number = 2
    second = state.save(session, "two")

    loaded = AgentState.load(session)
    assert loaded == state
    assert (loaded.checkpoint_id, loaded.timestamp, loaded.parent_checkpoint_id) == (
        second.id,
        second.created_at,
        first.id,
    )
    assert AgentState.load(session, first.id).step_number == 1
    assert [each.step for each in session.log() if each.metadata.get("model") == "m1"] == [2, 1]
    line, fork = loaded.fork(session, "another-way")
    assert (fork.parent_checkpoint_id, line.branch) == (second.id, "another-way")
    assert fork.checkpoint_id not in (first.id, second.id)
