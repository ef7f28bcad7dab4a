"""AgentState, the ready-made record for autonomous agents; public API only."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import pytest

import holdfast
from holdfast.agents import AgentState, FilesystemStorage, StateManager


@pytest.fixture
def session(place):
    with holdfast.open(place, durability="process") as store:
        yield store.session("agent-1", agent="agent1")


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
        second.created_at.replace(tzinfo=None),
        first.id,
    )
    assert AgentState.load(session, first.id).step_number == 1
    assert [each.step for each in session.log() if each.metadata.get("model") == "m1"] == [2, 1]
    line, fork = loaded.fork(session, "another-way")
    assert (fork.parent_checkpoint_id, line.branch) == (second.id, "another-way")
    assert fork.checkpoint_id not in (first.id, second.id)


@pytest.mark.requirement("K1")
def test_the_state_of_another_agent_is_refused(session):
    AgentState(agent_id="agent1").save(session)
    with pytest.raises(holdfast.InvalidInputError) as refused:
        AgentState(agent_id="agent2").save(session)
    assert refused.value.code == "session-mismatch"
    assert len(session.log()) == 1


@pytest.mark.requirement("K3")
def test_a_state_is_found_by_the_agent_in_it(place):
    with holdfast.open(place, durability="process") as store:
        saved = AgentState(agent_id="agent1").save(store.session("nobody-said-whose"))
        AgentState(agent_id="agent2").save(store.session("another"))
        assert store.find(metadata={"agent_id": "agent1"}) == [saved]


def listed(metadata):
    return (metadata.step_number, metadata.status, metadata.metadata.get("model"))


@pytest.mark.requirement("K3")
@pytest.mark.requirement("K5")
@pytest.mark.requirement("K12")
def test_a_manager_saves_lists_and_keeps_a_hundred_of_each_agent(place):
    async def live():
        async with StateManager(place, checkpoint_frequency=2) as manager:
            state = AgentState(agent_id="agent1", metadata={"model": "m1"})
            for step in range(240):
                state.step_number = step
                if manager.should_checkpoint("agent1", step, 0.0):
                    await manager.save_checkpoint(state)
            state.status = "completed"
            last = await manager.save_checkpoint(state, force=True)
            found = await manager.list_checkpoints("agent1")
            went = await manager.cleanup_old_checkpoints("agent1", keep_count=10)
            return last, found, went, await manager.list_checkpoints("agent1")

    last, found, went, left = asyncio.run(live())
    assert len(found) == 100
    assert (found[0].checkpoint_id, listed(found[0])) == (last, (239, "completed", "m1"))
    assert listed(found[1]) == (238, "running", "m1")
    assert found[0].parent_checkpoint_id == found[1].checkpoint_id
    assert (went, [each.step_number for each in left]) == (90, [each.step_number for each in found[:10]])


@pytest.mark.requirement("K6")
def test_states_are_selected_whichever_way_they_were_saved(place):
    with holdfast.open(place, durability="process") as store:
        state = AgentState(agent_id="agent1", metadata={"model": "m1"})
        state.save(store.session("by-hand"))
        asyncio.run(StateManager(store).save_checkpoint(dataclasses.replace(state, step_number=1)))
        recorded = dataclasses.replace(state, status="paused", budget_spent_usd=0.5)
        holdfast.Recorder(store.session("recorded")).connect("agent", recorded).save("now")
        [by_recorder] = store.find(status="paused", metadata={"model": "m1", "agent_id": "agent1"})
        assert (by_recorder.session, by_recorder.step, by_recorder.cost_usd) == ("recorded", 0, 0.5)
        found = store.find(
            status="running", metadata={"model": "m1", "agent_id": "agent1"}, since="1 hour ago"
        )
        assert {each.session for each in found} == {"by-hand", "agent1"}


@pytest.mark.requirement("K13")
def test_a_folder_of_json_lines_is_a_storage_too(tmp_path):
    async def live():
        manager = StateManager(FilesystemStorage(tmp_path))
        state = AgentState(agent_id="agent1", memory_contents={"text": "naïve"})
        name = await manager.save_checkpoint(state)
        return name, await manager.load_checkpoint(name), state

    name, loaded, state = asyncio.run(live())
    assert loaded == state
    [line] = (tmp_path / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line) == state.to_dict()
