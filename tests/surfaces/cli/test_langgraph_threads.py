"""A thread of LangGraph on the command line: what the graph shows is what `holdfast show` shows."""

from __future__ import annotations

import json
from typing import Annotated, Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt
from tests.surfaces.cli.places import place
from typing_extensions import TypedDict

from holdfast.integrations.langgraph import HoldfastSaver

THREAD: Any = {"configurable": {"thread_id": "42"}}


class Chat(TypedDict):
    messages: Annotated[list[Any], add_messages]


def graph(saver: HoldfastSaver) -> Any:
    def answer(state: Chat) -> Any:
        return {"messages": [AIMessage(f"answer {len(state['messages'])}: {'word ' * 40}")]}

    def review(state: Chat) -> Any:
        del state
        return {"messages": [AIMessage(interrupt("right?"))]}

    made: Any = StateGraph(Chat)
    made.add_node("answer", answer)
    made.add_node("review", review)
    made.add_edge(START, "answer")
    made.add_edge("answer", "review")
    return made.compile(checkpointer=saver)


def travelled(home: Any) -> str:
    """A thread that went back and on another way; the id of what the graph is at."""
    with HoldfastSaver(place(home)) as saver:
        run = graph(saver)
        run.invoke({"messages": [HumanMessage("one")]}, THREAD)
        first = next(each for each in run.get_state_history(THREAD) if each.next == ("answer",))
        run.update_state(first.config, {"messages": [HumanMessage("two")]})
        return str(run.get_state(THREAD).config["configurable"]["checkpoint_id"])


def test_after_time_travel_show_gives_what_the_graph_gives(run, home):
    latest = travelled(home)

    shown = json.loads(run("show", "--session", "42", "--json").stdout)

    assert shown["checkpoint"]["key"] == f"/ {latest}"
    assert shown["checkpoint"]["branch"] == "main-1"


def test_an_id_of_the_graph_leads_to_a_row_and_a_row_to_the_id(run, home):
    with HoldfastSaver(place(home)) as saver:
        made = graph(saver)
        made.invoke({"messages": [HumanMessage("one")]}, THREAD)
        ids = [each.config["configurable"]["checkpoint_id"] for each in made.get_state_history(THREAD)]

    for each in ids:
        found = json.loads(run("show", "--session", "42", f"key:/ {each}", "--record", "--json").stdout)
        assert found["checkpoint"]["key"] == f"/ {each}"
    back = json.loads(run("show", "--session", "42", f"key:/ {ids[0]}~1", "--record", "--json").stdout)
    assert back["checkpoint"]["key"] == f"/ {ids[1]}"

    missing = run("show", "--session", "42", "key:/ 1f1e")
    assert missing.exit_code == 4
    assert "no checkpoint has the key '/ 1f1e'" in missing.stderr
    alone = run("tag", "--session", "42", f"key:/ {ids[0]}")
    assert f"holdfast tag --session 42 'key:/ {ids[0]}' NAME" in alone.stderr


def test_a_thread_that_waits_is_found_by_its_status(run, home):
    travelled(home)

    rows = run("list", "--all-sessions", "--status", "paused").stdout.splitlines()

    assert [(row.split("\t")[3], row.split("\t")[9]) for row in rows] == [("42", "review: interrupt")]


def test_where_the_channels_are_is_said_to_who_asks_for_one_as_if_it_were_the_state(run, home):
    travelled(home)

    result = run("show", "--session", "42", "--path", "messages[-1]")

    assert result.exit_code == 4
    assert "path-missing" in result.stderr
    assert "channel_values" in result.stderr
    assert run("show", "--session", "42", "--path", "channel_values.messages[-1]").exit_code == 0
