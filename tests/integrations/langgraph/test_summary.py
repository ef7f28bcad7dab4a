"""What the rows of a thread say: what changed, what comes next, who waits for an answer and what failed."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.types import ERROR, TASKS
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt
from tests.integrations.langgraph.saver_data import FLOW, checkpoint
from typing_extensions import TypedDict

from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.integrations.langgraph.rows import folded

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

        line = [each.message for each in reversed(saver.store.session("t", branch="main").log())]
        assert line == [
            "human: hi (input: messages)",
            "human: hi (messages; next: answer)",
            "ai: yes (messages, plan; next: review)",
            "ai: ok (messages; next: mapped)",
            "ai: m (messages; next: boom)",
        ]
        update = saver.store.session("t", branch="main-1").checkpoint("@")
        assert (update.message, update.step) == ("human: no (update: messages; next: review)", 2)
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


def test_a_graph_that_ended_is_completed_and_one_that_waits_is_paused():
    def listed(saver: HoldfastSaver, thread: str) -> list[tuple[str, str]]:
        return [(each.status, each.message) for each in folded(saver.store.find(session=thread))]

    made: Any = StateGraph(State)
    for name in ("one", "other"):
        made.add_node(name, lambda _state, name=name: {"messages": [AIMessage(name)]})
        made.add_edge(START, name)
    made.add_node("review", review)
    made.add_edge(["one", "other"], "review")
    with HoldfastSaver("memory:") as saver:
        run = made.compile(checkpointer=saver)
        run.invoke({"messages": [HumanMessage("hi")]}, THREAD)
        waiting, *before = listed(saver, "t")
        # The edge that joins both has all it waits for, so that the graph has not ended.
        assert waiting == ("paused", "ai: other (messages; next: review); review: interrupt")
        assert [status for status, _ in before] == ["running"] * 2
        run.invoke(Command(resume="ok"), THREAD)
        assert listed(saver, "t")[:2] == [
            ("completed", "ai: ok (messages)"),
            ("running", "ai: other (messages; next: review)"),
        ]
        failing = graph(saver)
        with pytest.raises(ValueError, match="kaput"):
            failing.invoke(Command(goto="boom"), {"configurable": {"thread_id": "u"}})
        assert listed(saver, "u")[0][0] == "failed"


@pytest.mark.parametrize("version", [1, 3, 4])
def test_what_was_sent_before_format_4_is_found_among_the_values(version):
    """As PostgresSaver has it: it stood among the writes of the parent."""
    with HoldfastSaver("memory:") as saver:
        parent = saver.put(THREAD, checkpoint({"a": 1}, id="1", v=version), FLOW, {})
        sends = [Send("node", 1), Send("node", 2)]
        saver.put_writes(parent, [(TASKS, sends[1])], "task 2", "~2")
        saver.put_writes(parent, [("a", 5), (TASKS, sends[0])], "task 1", "~1")
        child: Any = checkpoint({"a": 5}, id="2", v=version, channel_versions={"a": 7})
        at = saver.put(parent, child, FLOW, {})
        found = saver.get_tuple(at)
        assert found is not None
        assert found == next(saver.list(THREAD))
        values, versions = found.checkpoint["channel_values"], found.checkpoint["channel_versions"]
        assert values == ({"a": 5, TASKS: sends} if version < 4 else {"a": 5})
        assert versions == ({"a": 7, TASKS: 7} if version < 4 else {"a": 7})


def test_a_row_is_one_short_line_whatever_the_names_are():
    with HoldfastSaver("memory:") as saver:
        channels = ["a\nb\x1b[0m", "x" * 500, *"cdefg"]
        made = saver.put(THREAD, checkpoint(dict.fromkeys(channels), updated_channels=channels), FLOW, {})
        saver.put_writes(made, [(ERROR, KeyError(1))], "8f1c9a3e-1111", "~__pregel_pull, review")
        begun: Any = {"source": "input", "step": -1, "parents": {}}
        saver.put(made, checkpoint(), begun, {})
        found = {each.message for each in saver.store.find(session="t")}
    assert found == {f"a b [0m, {'x' * 99}…, c, d, 3 more", "review: KeyError(1)", "input, step -1"}
