"""AgentState: 22 fields, there and back, and where it was saved."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import subprocess
import sys
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.agents import AgentState

FIELDS = [
    "checkpoint_id",
    "agent_id",
    "timestamp",
    "step_number",
    "conversation_history",
    "memory_contents",
    "pending_actions",
    "completed_actions",
    "budget_spent_usd",
    "approval_history",
    "tool_usage_counts",
    "tool_results_cache",
    "active_specialists",
    "specialist_invocations",
    "workflow_run_id",
    "workflow_state",
    "control_protocol_state",
    "registered_hooks",
    "hook_event_history",
    "parent_checkpoint_id",
    "status",
    "metadata",
]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
DICT = st.dictionaries(st.text(), JSON, max_size=3)
DICTS = st.lists(DICT, max_size=3)
STATES = st.builds(
    AgentState,
    checkpoint_id=st.none() | st.text(),
    agent_id=st.text(),
    timestamp=st.none() | st.datetimes(),
    step_number=st.integers(),
    conversation_history=DICTS,
    memory_contents=DICT,
    pending_actions=DICTS,
    completed_actions=DICTS,
    budget_spent_usd=st.floats(allow_nan=False, allow_infinity=False),
    approval_history=DICTS,
    tool_usage_counts=st.dictionaries(st.text(), st.integers()),
    tool_results_cache=DICT,
    active_specialists=st.lists(st.text()),
    specialist_invocations=DICTS,
    workflow_run_id=st.none() | st.text(),
    workflow_state=DICT,
    control_protocol_state=DICT,
    registered_hooks=DICTS,
    hook_event_history=DICTS,
    parent_checkpoint_id=st.none() | st.text(),
    status=st.sampled_from(["running", "paused", "completed", "failed", "interrupted"]),
    metadata=DICT,
)


@pytest.fixture
def session():
    with holdfast.open("memory:") as store:
        yield store.session("agent-1")


def test_it_has_the_22_fields_in_their_order():
    assert [each.name for each in dataclasses.fields(AgentState)] == FIELDS
    assert len(FIELDS) == 22


@given(STATES)
def test_a_state_goes_through_a_dict_and_json_unchanged(state):
    assert AgentState.from_dict(state.to_dict()) == state
    assert AgentState.from_dict(json.loads(json.dumps(state.to_dict()))) == state


@given(STATES)
def test_restore_takes_over_everything_but_where_it_was_saved(state):
    other = AgentState(checkpoint_id="mine", step_number=9)
    other.restore(state.snapshot())

    own = {"checkpoint_id": "mine", "timestamp": None, "parent_checkpoint_id": None}
    assert other.to_dict() == state.to_dict() | own


def test_a_dict_shares_nothing_with_its_state():
    state = AgentState(conversation_history=[{"role": "user", "parts": [1]}])
    data = state.to_dict()
    data["conversation_history"][0]["parts"].append(2)
    again = AgentState.from_dict(state.to_dict())
    again.conversation_history[0]["parts"].append(3)

    assert state.conversation_history == [{"role": "user", "parts": [1]}]


@pytest.mark.parametrize(
    ("data", "names", "hint"),
    [
        ({"step_numbr": 1}, "step_numbr", "step_number"),
        ({"step_number": "1"}, "step_number", "int"),
        ({"step_number": True}, "step_number", "int"),
        ({"status": "done"}, "status", "completed"),
        ({"conversation_history": {}}, "conversation_history", "list"),
        ({"conversation_history": ["hello"]}, "conversation_history", "dict"),
        ({"tool_usage_counts": {"search": "3"}}, "tool_usage_counts", "int"),
        ({"active_specialists": [1]}, "active_specialists", "str"),
        ({"timestamp": "yesterday"}, "timestamp", "ISO"),
        ({"metadata": None}, "metadata", "dict"),
        ({"budget_spent_usd": None}, "budget_spent_usd", "float"),
    ],
)
def test_a_dict_that_does_not_fit_is_refused_by_name(data, names, hint):
    with pytest.raises(holdfast.InvalidInputError, match=names) as refused:
        AgentState.from_dict(data)
    assert hint in refused.value.hint


def test_a_restore_that_does_not_fit_changes_nothing():
    state = AgentState(agent_id="a", step_number=3)
    with pytest.raises(holdfast.InvalidInputError):
        state.restore({"agent_id": "b", "step_number": "x"})
    assert state == AgentState(agent_id="a", step_number=3)


def test_saving_puts_step_status_cost_and_metadata_onto_the_checkpoint(session):
    state = AgentState(agent_id="a", step_number=7, budget_spent_usd=0.5, status="paused", metadata={"m": 1})
    saved = state.save(session, "found it", tags=["golden"], tokens=12)

    assert (saved.step, saved.status, saved.cost_usd, saved.metadata) == (
        7,
        "paused",
        0.5,
        {"m": 1, "agent_id": "a"},
    )
    assert (saved.message, saved.tags, saved.tokens) == ("found it", ("golden",), 12)
    assert (state.checkpoint_id, state.timestamp, state.parent_checkpoint_id) == (
        saved.id,
        saved.created_at.replace(tzinfo=None),
        None,
    )


def test_an_unchanged_state_has_the_same_root_however_often_it_is_saved(session):
    state = AgentState(agent_id="a")
    first = state.save(session)
    second = state.save(session)

    assert first.root == second.root
    assert state.parent_checkpoint_id == first.id


def test_a_loaded_state_knows_its_checkpoint(session):
    state = AgentState(agent_id="a", memory_contents={"k": (1, {2})})
    first = state.save(session)
    state.step_number = 1
    state.save(session)

    assert AgentState.load(session) == state
    older = AgentState.load(session, first.id[:8])
    assert (older.checkpoint_id, older.step_number, older.timestamp) == (
        first.id,
        0,
        first.created_at.replace(tzinfo=None),
    )


def test_a_state_is_saved_and_loaded_as_any_other_value(session):
    state = AgentState(agent_id="a", timestamp=datetime(2026, 2, 3))
    session.save({"agent": state})

    assert session.load() == {"agent": state}
    session.save(state)
    assert session.load(as_=AgentState) == state


def test_a_fork_has_a_new_id_the_same_state_and_nothing_in_common(session):
    state = AgentState(agent_id="a", conversation_history=[{"text": "hi"}])
    origin = state.save(session)
    line, fork = state.fork(session, "risky-idea")

    assert fork.parent_checkpoint_id == origin.id
    assert fork.checkpoint_id not in (None, origin.id)
    assert fork.snapshot() == state.snapshot()
    fork.conversation_history.append({"text": "bye"})
    fork.save(line)
    assert AgentState.load(session).conversation_history == [{"text": "hi"}]
    assert line.branch == "risky-idea"


def test_a_state_that_was_never_saved_cannot_be_forked(session):
    with pytest.raises(holdfast.InvalidInputError, match="never saved"):
        AgentState().fork(session, "x")


def test_the_async_twins_do_the_same():
    async def scenario():
        async with holdfast.aopen("memory:") as store:
            session = store.session("agent-1")
            state = AgentState(agent_id="a")
            saving = state.asave(session, "one")
            state.step_number = 5  # after the call: not part of it
            saved = await saving
            loaded = await AgentState.aload(session)
            line, fork = await loaded.afork(session, "b")
            return state, saved, loaded, line.branch, fork

    state, saved, loaded, branch, fork = asyncio.run(scenario())
    assert (state.checkpoint_id, loaded.checkpoint_id, fork.parent_checkpoint_id) == (saved.id,) * 3
    assert (loaded.step_number, branch) == (0, "b")


def test_the_record_alone_needs_no_event_loop():
    program = (
        "import sys; from holdfast.agents import AgentState; print({'asyncio', 'anyio'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_an_attribute_that_is_no_field_is_refused_with_the_near_miss():
    state = AgentState()
    with pytest.raises(holdfast.InvalidInputError, match="AgentState has no field 'step_numbr'") as refused:
        state.step_numbr = 3  # type: ignore[attr-defined]
    assert refused.value.hint == "did you mean step_number?"
    state.step_number = 3
    state._cache = {"mine": 1}  # type: ignore[attr-defined]
    assert "_cache" not in state.to_dict()
    assert state.step_number == 3


def test_a_class_built_on_it_has_its_own_fields_and_properties():
    @dataclasses.dataclass
    class Mine(AgentState):
        mood: str = "calm"

        @property
        def twice(self):
            return self.step_number * 2

        @twice.setter
        def twice(self, value):
            self.step_number = value // 2

    mine = Mine(step_number=1)
    mine.mood = "tense"
    mine.twice = 8
    assert (mine.mood, mine.step_number) == ("tense", 4)
    with pytest.raises(holdfast.InvalidInputError, match="Mine has no field 'moood'"):
        mine.moood = "?"  # type: ignore[attr-defined]


def test_none_is_no_state_and_the_message_is_a_sentence():
    with pytest.raises(holdfast.InvalidInputError) as refused:
        AgentState.from_dict(None)  # type: ignore[arg-type]
    assert str(refused.value).startswith("what AgentState.from_dict is given cannot be None")
