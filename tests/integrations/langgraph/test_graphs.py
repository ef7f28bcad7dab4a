"""Real graphs: each shows on holdfast what it shows with LangGraph's own memory, sync and async, on both backends."""

from __future__ import annotations

import asyncio
import operator
import time
from collections import Counter
from functools import cache
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Overwrite, RetryPolicy, Send, interrupt
from tests.integrations.langgraph.graph_runs import Run, seen
from typing_extensions import TypedDict

from holdfast.integrations.langgraph import HoldfastSaver

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


def at(snapshot: Any) -> Any:
    """The config of a checkpoint of the past, as people pass it on."""
    return snapshot.config


def chat_graph(saver: Any) -> Any:
    def answer(state: Chat) -> Any:
        number = len(state["messages"])
        said = state["messages"][-1].content
        if said == "forget":
            return {"messages": [RemoveMessage(id="h0"), AIMessage("gone", id=f"a{number}")]}
        if said == "use a tool":
            call = {"name": "look", "args": {"at": [1, {"deep": None}]}, "id": "c1", "type": "tool_call"}
            return {"messages": [AIMessage("", id=f"a{number}", tool_calls=[call])]}
        return {"messages": [AIMessage(f"{said}, too", id=f"a{number}", response_metadata={"tokens": 3})]}

    graph = StateGraph(Chat)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph.compile(checkpointer=saver)


async def memory_over_turns(run: Run) -> None:
    run.compile(chat_graph)
    for number, text in enumerate(["hello", "use a tool", "what?", "forget", "bye"]):
        said: list[AnyMessage] = [HumanMessage(text, id=f"h{number}")]
        if text == "what?":
            said.insert(0, ToolMessage("seen", tool_call_id="c1", id="t1"))
        await run.invoke({"messages": said}, CONFIG)
        run.reopen()
        await run.state(CONFIG)
    await run.invoke({"messages": [HumanMessage("other", id="h0")]}, {"configurable": {"thread_id": "u"}})
    await run.history(CONFIG)
    await run.history(CONFIG, limit=3)
    await run.history(CONFIG, filter={"source": "input"})
    newest = await run.history(CONFIG, filter={"step": 4})
    await run.history(CONFIG, before=at(newest[0]), limit=2)


def asking_graph(saver: Any) -> Any:
    def first(state: Log) -> Any:
        return {"log": ["first"]}

    def ask(state: Log) -> Any:
        name = interrupt({"question": "name?", "so far": state["log"]})
        age = interrupt("age?")
        return {"log": [f"{name} is {age}"]}

    graph = StateGraph(Log)
    graph.add_node("first", first)
    graph.add_node("ask", ask)
    graph.add_node("last", lambda state: {"log": ["last"]})
    graph.add_edge(START, "first")
    graph.add_edge("first", "ask")
    graph.add_edge("ask", "last")
    return graph.compile(checkpointer=saver, interrupt_after=["ask"])


async def a_human_in_the_loop(run: Run) -> None:
    run.compile(asking_graph)
    await run.invoke({"log": ["in"]}, CONFIG)
    await run.state(CONFIG)
    run.reopen()
    await run.invoke(Command(resume="Ada"), CONFIG)
    await run.state(CONFIG)
    run.reopen()
    await run.invoke(Command(resume=36, update={"log": ["on the way"]}), CONFIG)
    await run.state(CONFIG)
    await run.invoke(None, CONFIG)
    await run.history(CONFIG)


async def time_travel(run: Run) -> None:
    run.compile(asking_graph)
    await run.invoke({"log": ["in"]}, CONFIG)
    await run.invoke(Command(resume="Ada"), CONFIG)
    await run.invoke(Command(resume=36), CONFIG)
    await run.invoke(None, CONFIG)
    before = await run.history(CONFIG)
    run.reopen()
    asked = next(each for each in before if each.next == ("ask",))
    # Again from the question, with other answers.
    await run.invoke(None, at(asked))
    await run.invoke(Command(resume="Bob"), CONFIG)
    await run.invoke(Command(resume=40), CONFIG)
    await run.state(CONFIG)
    # New input on an old checkpoint.
    await run.invoke({"log": ["other"]}, at(before[-2]))
    await run.state(CONFIG)
    await run.state(at(before[0]))
    await run.history(CONFIG)


async def editing_state(run: Run) -> None:
    run.compile(asking_graph)
    await run.update(CONFIG, {"log": ["before anything"]}, as_node="first")
    await run.state(CONFIG)
    await run.invoke(None, CONFIG)
    await run.update(CONFIG, {"log": ["answered by hand"]}, as_node="ask")
    await run.state(CONFIG)
    await run.invoke(None, CONFIG)
    history = await run.history(CONFIG)
    run.reopen()
    # From the past.
    forked = await run.update(at(history[-1]), {"log": ["otherwise"]}, as_node="first")
    await run.state(CONFIG)
    await run.state(forked)
    await run.invoke(None, forked)
    await run.update(CONFIG, None, as_node=END)
    await run.state(CONFIG)
    await run.update(at(history[0]), None, as_node="__copy__")
    await run.history(CONFIG)


def parent_graph(saver: Any) -> Any:
    def look(state: Log) -> Any:
        return {"log": [f"looked at {len(state['log'])}"]}

    def confirm(state: Log) -> Any:
        return {"log": [f"confirmed {interrupt('sure?')}"]}

    inner = StateGraph(Log)
    inner.add_node("look", look)
    inner.add_node("confirm", confirm)
    inner.add_edge(START, "look")
    inner.add_edge("look", "confirm")
    middle = StateGraph(Log)
    middle.add_node("inner", inner.compile())
    middle.add_edge(START, "inner")
    outer = StateGraph(Log)
    outer.add_node("prepare", lambda state: {"log": ["prepared"]})
    outer.add_node("middle", middle.compile())
    outer.add_edge(START, "prepare")
    outer.add_edge("prepare", "middle")
    return outer.compile(checkpointer=saver)


async def subgraphs(run: Run) -> None:
    run.compile(parent_graph)
    await run.invoke({"log": ["in"]}, CONFIG)
    found: Any = await run.state(CONFIG, subgraphs=True)
    inner = found.tasks[0].state.tasks[0].state
    await run.history(inner.config)
    await run.update(inner.config, {"log": ["by hand"]})
    run.reopen()
    await run.state(CONFIG, subgraphs=True)
    await run.invoke(Command(resume="yes"), CONFIG)
    await run.state(CONFIG, subgraphs=True)
    await run.history(CONFIG)
    await run.invoke({"log": ["again"]}, CONFIG)
    await run.invoke(Command(resume="no"), CONFIG)
    await run.history(CONFIG)


async def time_travel_into_subgraphs(run: Run) -> None:
    run.compile(parent_graph)
    await run.invoke({"log": ["in"]}, CONFIG)
    await run.invoke(Command(resume="yes"), CONFIG)
    history = await run.history(CONFIG)
    run.reopen()
    await run.invoke(None, at(next(each for each in history if each.next == ("middle",))))
    await run.state(CONFIG, subgraphs=True)
    await run.invoke(Command(resume="no"), CONFIG)
    await run.history(CONFIG)


def failing_graph(saver: Any, runs: Counter[str]) -> Any:
    def step(name: str, *, fails: int = 0) -> Any:
        def work(state: Log) -> Any:
            runs[name] += 1
            if runs[name] <= fails:
                if name != "join":
                    # Those beside it are over by then, so that it is the same each time who has to run again.
                    time.sleep(0.2)
                raise ValueError(f"{name} failed")
            return {"log": [f"{name} after {state['log']}"]}

        return work

    graph = StateGraph(Log)
    for name, fails in [("a", 0), ("b", 1), ("c", 0)]:
        graph.add_node(name, step(name, fails=fails))
        graph.add_edge(START, name)
        graph.add_edge(name, "join")
    retry = RetryPolicy(initial_interval=0.001, retry_on=ValueError)
    graph.add_node("join", step("join", fails=1), retry_policy=retry)
    return graph.compile(checkpointer=saver)


async def parallel_branches_after_an_error(run: Run) -> None:
    runs: Counter[str] = Counter()
    run.compile(lambda saver: failing_graph(saver, runs))
    await run.fail({"log": ["in"]}, CONFIG)
    await run.state(CONFIG)
    run.reopen()
    await run.invoke(None, CONFIG)
    # What was over when the other one failed is not run again.
    assert runs == {"a": 1, "b": 2, "c": 1, "join": 2}
    await run.history(CONFIG)


def mapping_graph(saver: Any) -> Any:
    class Work(TypedDict):
        item: Any
        log: Annotated[list[str], operator.add]

    def work(state: Any) -> Any:
        item = state["item"]
        return {"log": [f"{item}: {interrupt('which?')}" if item == "ask" else f"{item!r} done"]}

    graph = StateGraph(Log)
    graph.add_node("plan", lambda state: {"log": ["planned"]})
    graph.add_node("work", work)
    graph.add_node("sum", lambda state: {"log": [f"{len(state['log'])} lines"]})
    graph.add_edge(START, "plan")
    items = ["one", "ask", {"n": [2]}]
    graph.add_conditional_edges(
        "plan", lambda state: [Send("work", {"item": each}) for each in items], ["work"]
    )
    graph.add_edge("work", "sum")
    return graph.compile(checkpointer=saver)


async def fan_out_with_send(run: Run) -> None:
    run.compile(mapping_graph)
    await run.invoke({"log": ["in"]}, CONFIG)
    await run.state(CONFIG)
    run.reopen()
    await run.invoke(Command(resume="this"), CONFIG)
    await run.state(CONFIG)


def functional_graph(saver: Any, runs: Counter[str]) -> Any:
    @task
    def draft(topic: str) -> dict[str, Any]:
        runs["draft"] += 1
        return {"topic": topic, "words": (1, 2, 3)}

    @task
    async def polish(text: dict[str, Any]) -> str:
        runs["polish"] += 1
        return f"{text['topic']} polished"

    @task
    def polish_now(text: dict[str, Any]) -> str:
        runs["polish"] += 1
        return f"{text['topic']} polished"

    @entrypoint(checkpointer=saver)
    def write(topic: str, *, previous: Any = None) -> Any:
        text = draft(topic).result()
        verdict = interrupt({"draft": text["topic"]})
        done = polish_now(text).result()
        return entrypoint.final(value=f"{done}: {verdict}", save=[*(previous or []), topic])

    @entrypoint(checkpointer=saver)
    async def awrite(topic: str, *, previous: Any = None) -> Any:
        text = await draft(topic)
        verdict = interrupt({"draft": text["topic"]})
        done = await polish(text)
        return entrypoint.final(value=f"{done}: {verdict}", save=[*(previous or []), topic])

    return write, awrite


async def the_functional_api(run: Run) -> None:
    runs: Counter[str] = Counter()
    run.compile(lambda saver: functional_graph(saver, runs)[run._by_await])
    for topic in ("rain", "sun"):
        await run.invoke(topic, CONFIG)
        await run.state(CONFIG)
        run.reopen()
        await run.invoke(Command(resume="good"), CONFIG)
    run.note(dict(runs))
    await run.history(CONFIG)


def durable(mode: str) -> Any:
    async def script(run: Run) -> None:
        run.compile(asking_graph)
        await run.invoke({"log": ["in"]}, CONFIG, durability=mode)
        await run.history(CONFIG)
        run.reopen()
        await run.invoke(Command(resume="Ada"), CONFIG, durability=mode)
        await run.invoke(Command(resume=36), CONFIG, durability=mode)
        await run.state(CONFIG)
        await run.invoke(None, CONFIG, durability=mode)
        await run.history(CONFIG)
        runs: Counter[str] = Counter()
        run.compile(lambda saver: failing_graph(saver, runs))
        other = {"configurable": {"thread_id": "failing"}}
        await run.fail({"log": ["in"]}, other, durability=mode)
        await run.invoke(None, other, durability=mode)
        run.note(dict(sorted(runs.items())))
        await run.history(other)

    return script


def delta_graph(saver: Any) -> Any:
    class Frequent(TypedDict):
        lines: Annotated[
            list[str],
            DeltaChannel(lambda state, writes: state + [y for x in writes for y in x], snapshot_frequency=4),
        ]
        rare: Annotated[list[str], DeltaChannel(lambda state, writes: state + [y for x in writes for y in x])]
        count: int

    def left(state: Any) -> Any:
        return {"lines": [f"left {len(state['lines'])}"], "count": len(state["lines"])}

    def right(state: Any) -> Any:
        if state["lines"][-1] == "overwrite":
            return {"lines": Overwrite(["anew"])}
        return {"lines": [f"right {len(state['lines'])}"], "rare": ["r"]}

    graph = StateGraph(Frequent)
    graph.add_node("left", left)
    graph.add_node("right", right)
    graph.add_node("ask", lambda state: {"lines": [interrupt("?")] if len(state["lines"]) % 5 == 0 else []})
    graph.add_edge(START, "left")
    graph.add_edge(START, "right")
    graph.add_edge("left", "ask")
    graph.add_edge("right", "ask")
    return graph.compile(checkpointer=saver)


def deltas(mode: str) -> Any:
    async def script(run: Run) -> None:
        run.compile(delta_graph)
        for number in range(9):
            found = await run.invoke({"lines": [f"in {number}"]}, CONFIG, durability=mode)
            if "__interrupt__" in found:
                run.reopen()
                await run.invoke(Command(resume=f"answer {number}"), CONFIG, durability=mode)
            run.reopen()
            await run.state(CONFIG)
        history = await run.history(CONFIG)
        middle = history[len(history) // 2]
        await run.update(at(middle), {"lines": ["by hand"]}, as_node="ask")
        await run.state(CONFIG)
        await run.invoke({"lines": ["overwrite"]}, CONFIG, durability=mode)
        await run.invoke({"lines": ["after the fork"]}, at(history[3]), durability=mode)
        await run.state(CONFIG)
        await run.history(CONFIG)

    return script


SCRIPTS: dict[str, Any] = {
    "memory over turns": memory_over_turns,
    "a human in the loop": a_human_in_the_loop,
    "time travel": time_travel,
    "editing state": editing_state,
    "subgraphs": subgraphs,
    "time travel into subgraphs": time_travel_into_subgraphs,
    "parallel branches": parallel_branches_after_an_error,
    "send": fan_out_with_send,
    "functional": the_functional_api,
    **{f"durability {mode}": durable(mode) for mode in ("sync", "async", "exit")},
    **{f"delta channels, {mode}": deltas(mode) for mode in ("sync", "async", "exit")},
}


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path):
    if request.param == "sqlite":
        return tmp_path / "store.db"
    return request.getfixturevalue("postgres_store")


@cache
def shown_with_langgraphs_own_memory(name: str, *, by_await: bool) -> Any:
    """The same whatever it is compared with."""
    return asyncio.run(seen(SCRIPTS[name], InMemorySaver, by_await=by_await))


@pytest.mark.parametrize("by_await", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_graph_shows_what_it_shows_with_langgraphs_own_memory(place, name, by_await):
    def open_saver() -> HoldfastSaver:
        return HoldfastSaver.open(place, durability="process")

    shown = asyncio.run(seen(SCRIPTS[name], open_saver, by_await=by_await))
    assert shown == shown_with_langgraphs_own_memory(name, by_await=by_await)
