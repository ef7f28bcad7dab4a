"""Databases of LangGraph's own savers, written by real graphs, to import from."""

from __future__ import annotations

import asyncio
import operator
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt
from typing_extensions import TypedDict

Graph = Callable[[Any], Any]
THREADS = ("chat", "asked", "forked", "nested", "spread", "delta")


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


class Grown(TypedDict):
    often: Annotated[
        list[str], DeltaChannel(lambda old, new: old + [y for x in new for y in x], snapshot_frequency=3)
    ]
    rare: Annotated[list[str], DeltaChannel(lambda old, new: old + [y for x in new for y in x])]


def config(thread: str, **more: Any) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, **more}}


def made(**entries: Any) -> Any:
    """A checkpoint with these entries."""
    return {**empty_checkpoint(), **entries}


def chat(saver: Any) -> Any:
    def answer(state: Chat) -> Any:
        call = {"name": "look", "args": {"at": [1, {"deep": None}]}, "id": "c1", "type": "tool_call"}
        if state["messages"][-1].content == "use a tool":
            return {"messages": [AIMessage("", tool_calls=[call])]}
        return {"messages": [AIMessage(f"answer {len(state['messages'])}", response_metadata={"tokens": 3})]}

    graph = StateGraph(Chat)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    return graph.compile(checkpointer=saver)


def asking(saver: Any) -> Any:
    """Two nodes at once, one of which asks a person; what the other did is pending until the answer comes."""

    def ask(state: Log) -> Any:
        del state
        return {"log": [f"told {interrupt({'question': 'go on?'})}"]}

    graph = StateGraph(Log)
    graph.add_node("work", lambda _: {"log": ["worked"]})
    graph.add_node("ask", ask)
    graph.add_node("last", lambda state: {"log": [f"{len(state['log'])} before"]})
    for name in ("work", "ask"):
        graph.add_edge(START, name)
        graph.add_edge(name, "last")
    return graph.compile(checkpointer=saver)


def nested(saver: Any) -> Any:
    """A graph in a graph in a graph; the innermost asks."""

    def deepest(state: Log) -> Any:
        del state
        return {"log": [f"deep {interrupt('how deep?')}"]}

    inner = StateGraph(Log)
    inner.add_node("deepest", deepest)
    inner.add_edge(START, "deepest")
    middle = StateGraph(Log)
    middle.add_node("first", lambda _: {"log": ["first"]})
    middle.add_node("inner", inner.compile())
    middle.add_edge(START, "first")
    middle.add_edge("first", "inner")
    outer = StateGraph(Log)
    outer.add_node("middle", middle.compile())
    outer.add_edge(START, "middle")
    return outer.compile(checkpointer=saver)


def spread(saver: Any) -> Any:
    """Tasks that are sent, not drawn."""
    graph = StateGraph(Log)
    graph.add_node("split", lambda _: {"log": ["split"]})
    graph.add_node("part", lambda state: {"log": [f"part {state['n']}"]})
    graph.add_edge(START, "split")
    graph.add_conditional_edges("split", lambda _: [Send("part", {"n": n}) for n in range(3)], ["part"])
    return graph.compile(checkpointer=saver)


def delta(saver: Any) -> Any:
    graph = StateGraph(Grown)
    graph.add_node("step", lambda state: {"often": [f"o{len(state['often'])}"], "rare": ["r"]})
    graph.add_edge(START, "step")
    return graph.compile(checkpointer=saver)


GRAPHS: dict[str, Graph] = {
    "chat": chat,
    "asked": asking,
    "forked": chat,
    "nested": nested,
    "spread": spread,
    "delta": delta,
}
GOING_ON: dict[str, Any] = {
    "chat": {"messages": [HumanMessage("and now?", id="last")]},
    "asked": Command(resume="yes"),
    "forked": {"messages": [HumanMessage("and now?", id="last")]},
    "nested": Command(resume="very"),
    "spread": {"log": ["again"]},
    "delta": {"often": ["again"], "rare": []},
}


async def run_graphs(saver: BaseCheckpointSaver[Any], threads: tuple[str, ...] = THREADS) -> None:
    """Run one graph for each thread."""
    for thread in threads:
        graph, where = GRAPHS[thread](saver), config(thread)
        if thread in ("chat", "forked"):
            for number, text in enumerate(["hello", "use a tool", "thanks"]):
                said: list[AnyMessage] = [HumanMessage(text, id=f"h{number}", name="ada")]
                if text == "thanks":
                    said.insert(0, ToolMessage("seen", tool_call_id="c1", id="t1"))
                await graph.ainvoke({"messages": said}, where)
        elif thread == "delta":
            for number in range(5):
                await graph.ainvoke({"often": [f"in {number}"], "rare": []}, where)
        else:
            await graph.ainvoke({"log": ["begun"]}, where)
        if thread == "forked":
            past = [each async for each in graph.aget_state_history(where)]
            # Two ways on from one moment of the past, and an edit.
            for text in ("one way", "another way"):
                await graph.ainvoke({"messages": [HumanMessage(text, id=text)]}, past[4].config)
            await graph.aupdate_state(past[2].config, {"messages": [AIMessage("edited", id="e")]})


class InAThread(BaseCheckpointSaver[Any]):
    """The async methods of a saver that has none."""

    def __init__(self, saver: Any) -> None:
        super().__init__(serde=saver.serde)
        self.saver = saver

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        found: CheckpointTuple | None = self.saver.get_tuple(config)
        return found

    async def aput(self, *args: Any) -> RunnableConfig:
        where: RunnableConfig = self.saver.put(*args)
        return where

    async def aput_writes(self, *args: Any) -> None:
        self.saver.put_writes(*args)

    async def alist(self, config: RunnableConfig | None, **options: Any) -> AsyncIterator[CheckpointTuple]:
        for each in list(self.saver.list(config, **options)):
            yield each

    async def aget_delta_channel_history(self, **options: Any) -> Any:
        return self.saver.get_delta_channel_history(**options)

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self.saver.get_next_version(current, channel)


@asynccontextmanager
async def writing(kind: str, place: str) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    """A saver of LangGraph's, by its kind."""
    if kind == "sqlite":
        with SqliteSaver.from_conn_string(place) as saver:
            yield InAThread(saver)
    elif kind == "async sqlite":
        async with AsyncSqliteSaver.from_conn_string(place) as saver:
            yield saver
    elif kind == "postgres":
        with PostgresSaver.from_conn_string(place) as saver:
            saver.setup()
            yield InAThread(saver)
    else:
        async with AsyncPostgresSaver.from_conn_string(place) as saver:
            await saver.setup()
            yield saver


def fill(
    kind: str, place: str | Path, threads: tuple[str, ...] = THREADS
) -> dict[str, list[CheckpointTuple]]:
    """Write a database; what its saver gives of each thread."""

    async def both() -> dict[str, list[CheckpointTuple]]:
        async with writing(kind, str(place)) as saver:
            await run_graphs(saver, threads)
            return {thread: [each async for each in saver.alist(config(thread))] for thread in threads}

    return asyncio.run(both())


def by_id(tuples: list[CheckpointTuple]) -> dict[tuple[str, str], CheckpointTuple]:
    """Tuples by namespace and id, which is all the order there is between namespaces."""
    return {(each.config["configurable"]["checkpoint_ns"], each.checkpoint["id"]): each for each in tuples}


def put_row(path: Path, kind: str, data: bytes, *, thread: str = "t", number: str = "1") -> None:
    """Put a checkpoint into a SQLite file as raw bytes."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.setup()
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(
            "INSERT INTO checkpoints VALUES (?, '', ?, NULL, ?, ?, ?)",
            (thread, number, kind, data, b'{"step": 1}'),
        )
    connection.close()
