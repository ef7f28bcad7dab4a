"""What the rows of a thread say: what changed, what comes next, who waits for an answer and what failed."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME, TASKS
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Interrupt, Send, interrupt
from typing_extensions import TypedDict

from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.integrations.langgraph.describing import checkpoint_message, writes_message, writes_status
from holdfast.integrations.langgraph.pending import state_of
from holdfast.store.draft import check_message, check_status

THREAD: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict):
    messages: Annotated[list[Any], add_messages]
    plan: str


def answer(state: State) -> Any:
    del state
    return {"messages": [AIMessage("yes")], "plan": "p"}


def review(state: State) -> Any:
    del state
    return {"messages": [AIMessage(interrupt("right?"))]}


def boom(state: State) -> Any:
    raise ValueError("kaput\nbadly")


def graph(saver: HoldfastSaver) -> Any:
    made: Any = StateGraph(State)
    for node in (answer, review, boom):
        made.add_node(node.__name__, node)
    made.add_node("mapped", lambda _: {"messages": [AIMessage("m")]})
    made.add_edge(START, "answer")
    made.add_edge("answer", "review")
    made.add_conditional_edges("review", lambda state: [Send("mapped", state), Send("mapped", state)])
    made.add_edge("mapped", "boom")
    return made.compile(checkpointer=saver)


def test_the_rows_of_a_graph_tell_its_story():
    with HoldfastSaver("memory:") as saver:
        run = graph(saver)
        run.invoke({"messages": [HumanMessage("hi")]}, THREAD)
        waiting = saver.store.find(session="t", status="paused")
        assert [each.message for each in waiting] == ["review: interrupt"]
        with pytest.raises(ValueError, match="kaput"):
            run.invoke(Command(resume="ok"), THREAD)
        first = next(each for each in run.get_state_history(THREAD) if each.next == ("review",))
        run.update_state(first.config, {"messages": [HumanMessage("no")]})

        line = [each.message for each in reversed(saver.store.session("t").log())]
        assert line == [
            "input: messages",
            "messages; next: answer",
            "messages, plan; next: review",
            "messages; next: mapped",
            "messages; next: boom",
        ]
        update = saver.store.session("t", branch="main-1").checkpoint("@")
        assert (update.message, update.step) == ("update: messages; next: review", 2)
        failed = saver.store.find(session="t", status="failed")
        assert [each.message for each in failed] == [r"boom: ValueError('kaput\nbadly')"]
        written = {each.message for each in saver.store.session("t", branch="writes").log()}
        assert {
            "__start__: messages; next: answer",
            "answer: messages, plan; next: review",
            "resume",
            "review: resume, messages; next: mapped",
        } <= written
        mapped = [each for each in written if each.startswith("task ")]
        assert len(mapped) == 2
        assert all(each[13:] == ": messages; next: boom" for each in mapped)
        assert all(each.isprintable() for each in written)


@pytest.mark.parametrize(
    ("source", "step", "entries", "message"),
    [
        ("loop", 7, {}, "loop, step 7"),
        ("loop", 7, {"updated_channels": ["a", "__hidden", "branch:to:n"]}, "a; next: n"),
        ("loop", 7, {"updated_channels": ["branch:to:n", "branch:to:m"]}, "next: n, m"),
        ("loop", 7, {"updated_channels": list("abcdefg")}, "a, b, c, d, 3 more"),
        ("fork", 7, {"updated_channels": []}, "fork, step 7"),
        ("fork", 7, {"updated_channels": ["a"]}, "fork: a"),
        ("put", None, {}, "put"),
        (
            "input",
            -1,
            {"channel_values": {"__start__": {"a": 1, "b": 2}}, "updated_channels": None},
            "input: a, b",
        ),
        ("input", -1, {"channel_values": {"__start__": "text"}}, "input, step -1"),
        # What has the highest version changed last, unless it was emptied then.
        (
            "update",
            2,
            {"channel_values": {"a": 1, "b": 1}, "channel_versions": {"a": 2, "b": 1, "c": 2}},
            "update: a",
        ),
        ("update", 2, {"channel_values": {"a": 1}, "channel_versions": {"a": 2, "b": "1"}}, "update, step 2"),
        ("loop", 7, {"updated_channels": ["a\nb\x1b[0m", "x" * 500]}, f"a b [0m, {'x' * 99}…"),
        ("loop", 1, {"channel_values": {TASKS: [Send("n", 1)]}, "updated_channels": [TASKS]}, "next: n"),
    ],
)
def test_a_checkpoint_says_what_changed_and_what_comes_next(source, step, entries, message):
    assert checkpoint_message(source, step, entries) == message


class Unspeakable(Exception):
    def __repr__(self) -> str:
        raise RuntimeError


PULL = "~__pregel_pull, review"
TASK = "8f1c9a3e-1111-2222-3333-444444444444"


@pytest.mark.parametrize(
    ("writes", "task", "path", "message", "status"),
    [
        ([("a", 1), ("branch:to:n", None)], TASK, PULL, "review: a; next: n", "running"),
        ([(INTERRUPT, (Interrupt("?"),))], TASK, PULL, "review: interrupt", "paused"),
        ([(ERROR, KeyError(1))], TASK, PULL, "review: KeyError(1)", "failed"),
        ([(ERROR, "KeyError(1)")], TASK, PULL, "review: KeyError(1)", "failed"),
        ([(ERROR, Unspeakable())], TASK, PULL, "review: Unspeakable", "failed"),
        ([(ERROR, ValueError("x" * 500))], TASK, PULL, "review: ValueError('" + "x" * 87 + "…", "failed"),
        ([(RESUME, 1)], "00000000-0000-0000-0000-000000000000", "", "resume", "running"),
        ([("__no_writes__", None)], TASK, PULL, "review: nothing", "running"),
        ([("a", 1)], TASK, "~__pregel_push, 0000000001", "task 8f1c9a3e: a", "running"),
        ([("a", 1)], "t1", "", "task t1: a", "running"),
        ([(TASKS, Send("n", 1)), (TASKS, Send("n", 2))], TASK, PULL, "review: next: n", "running"),
    ],
)
def test_writes_say_whose_they_are_and_what(writes, task, path, message, status):
    call = state_of(writes, task, path)
    assert (writes_message(call), writes_status(call)) == (message, status)


NAMES = st.text(max_size=60)


@given(
    st.text(min_size=1),
    st.integers() | st.none() | st.text(),
    st.none() | st.lists(NAMES),
    st.dictionaries(NAMES, st.integers() | st.text()),
    NAMES,
)
def test_whatever_names_there_are_the_message_is_one_short_line(source, step, updated, versions, path):
    entries = {
        "updated_channels": updated,
        "channel_versions": versions,
        "channel_values": dict.fromkeys(versions),
    }
    call = {
        "task_id": path,
        "task_path": path,
        "writes": [[n, name, source] for n, name in enumerate(updated or [])],
    }
    for message in (checkpoint_message(source, step, entries), writes_message(call)):
        assert check_message(message).isprintable()
        assert len(message) < 1000
    check_status(writes_status(call))
