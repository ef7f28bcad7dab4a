"""What a saver refuses it names as people know it: the channel first, and who wrote to it."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.graph import START, StateGraph
from langgraph.types import Send
from tests.integrations.langgraph.saver_data import FLOW, config, put
from typing_extensions import TypedDict

from holdfast import InvalidInputError
from holdfast.integrations.langgraph import HoldfastSaver


@pytest.fixture
def saver():
    with HoldfastSaver("memory://") as saver:
        yield saver


class State(TypedDict):
    client: Any


def run(saver, *, by_send=False):
    builder = StateGraph(State)
    builder.add_node("connect", lambda _: {"client": {"tools": [{"f": threading.Lock()}]}})
    # Where a step has a single task, LangGraph saves what it wrote with the next checkpoint alone.
    builder.add_node("other", lambda _: {})
    builder.add_edge(START, "other")
    if by_send:
        builder.add_conditional_edges(START, lambda _: [Send("connect", {})], ["connect"])
    else:
        builder.add_edge(START, "connect")
    builder.compile(checkpointer=saver).invoke({"client": 1}, config())


def test_a_write_is_named_by_its_channel_and_the_node_that_made_it(saver):
    with pytest.raises(InvalidInputError) as caught:
        run(saver)
    error = caught.value

    assert str(error).startswith("client['tools'][0]['f'], written by node 'connect' (task ")
    assert "state[" not in str(error)
    with pytest.raises(InvalidInputError) as plain:
        saver.store.session("s").save(threading.Lock())
    assert (error.code, error.hint) == (plain.value.code, plain.value.hint)
    assert error.details["path"] == "state['writes'][0][2]['tools'][0]['f']"
    assert error.details["channel"] == "client"
    assert error.details["task_path"] == "~__pregel_pull, connect"
    assert error.details["task_id"] in str(error)


def refused(saver, values, metadata=FLOW):
    with pytest.raises(InvalidInputError) as caught:
        put(saver, values=values, metadata=metadata)
    return caught.value


def test_a_value_of_a_checkpoint_is_named_by_its_channel(saver):
    messages = [HumanMessage("a"), ToolMessage("x", tool_call_id="c", artifact={"f": threading.Lock()})]
    error = refused(saver, {"message": 1, "messages": messages})

    assert str(error).startswith("messages[1].artifact['f']: ")
    assert error.details == {
        "path": "state['channel_values']['messages'][1].artifact['f']",
        "channel": "messages",
    }
