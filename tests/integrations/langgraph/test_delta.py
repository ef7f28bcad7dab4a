"""DeltaChannel and pruning: what a kept checkpoint is rebuilt from stays, and everything else goes."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from holdfast.integrations.langgraph import HoldfastSaver

CONFIG: Any = {"configurable": {"thread_id": "t"}}


def joined(state: list[str], writes: Any) -> list[str]:
    return state + [line for write in writes for line in write]


class Lines(TypedDict):
    often: Annotated[list[str], DeltaChannel(joined, snapshot_frequency=3)]
    seldom: Annotated[list[str], DeltaChannel(joined, snapshot_frequency=20)]
    plain: str


def graph_on(saver: Any) -> Any:
    def left(state: Lines) -> Any:
        return {"often": [f"left {len(state['often'])}"], "plain": "left"}

    def right(state: Lines) -> Any:
        return {"often": [f"right {len(state['often'])}"], "seldom": [f"{len(state['often'])}"]}

    graph = StateGraph(Lines)
    graph.add_node("left", left)
    graph.add_node("right", right)
    graph.add_edge(START, "left")
    graph.add_edge(START, "right")
    return graph.compile(checkpointer=saver)


@pytest.mark.parametrize("turns", range(1, 12))
@pytest.mark.parametrize("mode", ["sync", "exit"])
def test_a_pruned_thread_has_its_state_and_goes_on_as_if_nothing_were_gone(turns, mode):
    with HoldfastSaver("memory:") as saver:
        graph, never_pruned = graph_on(saver), graph_on(InMemorySaver())
        for n in range(turns):
            for each in (graph, never_pruned):
                each.invoke({"often": [f"in {n}"]}, CONFIG, durability=mode)
        before = len(list(saver.list(CONFIG)))
        saver.prune(["t"])
        assert graph.get_state(CONFIG).values == never_pruned.get_state(CONFIG).values
        assert len(list(saver.list(CONFIG))) <= before
        for n in range(8):
            for each in (graph, never_pruned):
                each.invoke({"often": [f"later {n}"]}, CONFIG, durability=mode)
            if n % 3 == 0:
                asyncio.run(saver.aprune(["t"]))
            assert graph.get_state(CONFIG).values == never_pruned.get_state(CONFIG).values
        assert saver.store.verify().ok


def test_what_lies_before_the_last_snapshot_of_every_channel_goes():
    with HoldfastSaver("memory:") as saver:
        graph = graph_on(saver)
        for n in range(60):
            graph.invoke({"often": [f"in {n}"]}, CONFIG)
        records = len(saver.store.find(session="t"))
        saver.prune(["t"])
        kept = list(saver.list(CONFIG))
        # A snapshot of the rarer one comes once in twenty of its updates, and each of these has two checkpoints.
        assert 1 <= len(kept) <= 42
        assert len(saver.store.find(session="t")) < records // 2
        # The way back is unbroken.
        assert [each.parent_config for each in kept[:-1]] == [each.config for each in kept[1:]]
        assert kept[-1].parent_config is None
