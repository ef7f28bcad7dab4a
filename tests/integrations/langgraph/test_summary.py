"""What the rows of a thread say: what changed, what comes next, who waits for an answer and what failed."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.types import ERROR
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt
from tests.integrations.langgraph.saver_data import FLOW, checkpoint
from typing_extensions import TypedDict

from holdfast.integrations.langgraph import HoldfastSaver

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


def test_a_row_is_one_short_line_whatever_the_names_are():
    with HoldfastSaver("memory:") as saver:
        channels = ["a\nb\x1b[0m", "x" * 500, *"cdefg"]
        made = saver.put(THREAD, checkpoint(dict.fromkeys(channels), updated_channels=channels), FLOW, {})
        saver.put_writes(made, [(ERROR, KeyError(1))], "8f1c9a3e-1111", "~__pregel_pull, review")
        begun: Any = {"source": "input", "step": -1, "parents": {}}
        saver.put(made, checkpoint(), begun, {})
        found = {each.message for each in saver.store.find(session="t")}
    assert found == {f"a b [0m, {'x' * 99}…, c, d, 3 more", "review: KeyError(1)", "input, step -1"}
