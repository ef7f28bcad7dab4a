"""What a saver refuses it names as people know it: the channel first, and who wrote to it."""

from __future__ import annotations

import asyncio
import copy
import threading
from typing import Any

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.graph import START, StateGraph
from langgraph.types import Send
from tests.integrations.langgraph.saver_data import FLOW, config, put
from typing_extensions import TypedDict

import holdfast
from holdfast import ErrorCode, InvalidInputError, StateError
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


def test_a_write_of_a_task_that_was_sent_is_named_by_its_task(saver):
    with pytest.raises(InvalidInputError) as caught:
        run(saver, by_send=True)

    assert str(caught.value).startswith("client['tools'][0]['f'], written by task ")
    assert "(~__pregel_push, " in str(caught.value)


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


@pytest.mark.parametrize("name", ["branch:to:x", "it's", 'a "b"', "two words", "é\ud800", "x" * 300])
def test_a_channel_of_any_name_is_named(saver, name):
    error = refused(saver, {"x": 1, name: [threading.Lock()]})
    shown = name if name.isidentifier() else ascii(name[:80])

    assert str(error).startswith(f"{shown}[0]: ")
    assert error.details["channel"] == name


def test_a_cycle_is_named_by_both_of_its_ends(saver):
    inner: Any = {"list": []}
    inner["list"].append(inner)
    error = refused(saver, {"a": inner})

    assert error.code is ErrorCode.VALUE_CYCLE
    assert str(error) == "a['list'][0]: this dict contains itself (it is a)"


def test_metadata_is_named_as_such(saver):
    error = refused(saver, {"a": 1}, {**FLOW, "who": {"lock": threading.Lock()}})

    assert str(error).startswith("metadata['who']['lock']: ")


def test_what_is_no_channel_keeps_its_path(saver):
    with pytest.raises(InvalidInputError, match=r"^state\['versions_seen'\]\['n'\]: "):
        saver.put(config(), {**put_checkpoint(), "versions_seen": {"n": threading.Lock()}}, FLOW, {})


def put_checkpoint() -> Any:
    return {"v": 4, "id": "1", "ts": "", "channel_values": {"n": 1}, "channel_versions": {}}


def test_async_methods_say_the_same(saver):
    asyncio.run(refused_async(saver))


async def refused_async(saver):
    with pytest.raises(InvalidInputError, match=r"^a\[0\]: "):
        await saver.aput(
            config(), {**put_checkpoint(), "channel_values": {"a": [threading.Lock()]}}, FLOW, {}
        )
    with pytest.raises(InvalidInputError, match=r"^a, written by task x: "):
        await saver.aput_writes(config(checkpoint="c"), [("a", threading.Lock())], "x")


def test_a_saver_that_was_closed_says_how_to_go_on(tmp_path):
    saver = HoldfastSaver(tmp_path / "s.db")
    made = put(saver, values={"a": 1})
    saver.close()
    saver.close()
    for call in (
        lambda: saver.get_tuple(config()),
        lambda: list(saver.list(config())),
        lambda: list(saver.list(None)),
        lambda: put(saver, made, values={"a": 2}),
        lambda: saver.put_writes(made, [("a", 1)], "task"),
        lambda: saver.delete_thread("t"),
        lambda: saver.delete_for_runs(["r"]),
        lambda: saver.copy_thread("t", "u"),
        lambda: saver.prune(["t"]),
        lambda: list(saver.store.sessions()),
        lambda: saver.with_allowlist({("a", "b")}),
    ):
        with pytest.raises(StateError) as caught:
            call()
        assert caught.value.code is ErrorCode.STORE_CLOSED
        assert "HoldfastSaver(" in caught.value.hint
        assert "holdfast.open()" not in caught.value.hint
    assert "s.db" in repr(saver)
    assert copy.copy(saver).store.url == saver.store.url


def test_a_store_that_was_given_is_left_open():
    with holdfast.open("memory://") as store:
        saver = HoldfastSaver(store)
        saver.close()
        put(saver, values={"a": 1})
        assert [each.id for each in store.sessions()] == ["t"]
