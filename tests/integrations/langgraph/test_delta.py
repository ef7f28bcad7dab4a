"""DeltaChannel and pruning: what a kept checkpoint is rebuilt from stays, and everything else goes."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from tests.integrations.langgraph.saver_data import FLOW, Counting, checkpoint, config
from typing_extensions import TypedDict

from holdfast import Store
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


def test_the_way_back_is_read_in_pages():
    backend = Counting()
    saver = HoldfastSaver(Store(backend))
    graph = graph_on(saver)
    for n in range(19):
        graph.invoke({"often": [f"in {n}"]}, CONFIG)
    backend.asked.clear()
    found = saver.get_delta_channel_history(config=CONFIG, channels=["seldom", "often"])
    # More than fifty checkpoints and their writes, a page of records and a page of states at a time.
    assert len(found["seldom"]["writes"]) == 19
    assert backend.asked["reader"] <= 12


STEPS = st.tuples(
    st.integers(0, 3), st.sets(st.sampled_from("ab")), st.lists(st.sampled_from("ab"), max_size=3)
)


@given(st.lists(STEPS, min_size=3, max_size=12))
def test_the_history_of_channels_is_what_langgraphs_own_memory_says(steps):
    memory = InMemorySaver()
    with HoldfastSaver("memory:") as saver:
        for n, (back, stored, written) in enumerate(steps):
            # Mostly a chain; sometimes a branch from a little before.
            parent = f"{n - 1 - back:02}" if n > back else None
            values = {channel: f"{channel} at {n}" for channel in stored}
            new = checkpoint(values, id=f"{n:02}", channel_versions=dict.fromkeys(values, n))
            for each in (memory, saver):
                each.put(config(checkpoint=parent), new, FLOW, new["channel_versions"])
                for index, channel in enumerate(written):
                    each.put_writes(
                        config(checkpoint=f"{n:02}"), [(channel, index)], f"task {index % 2} {channel}"
                    )
        for n in range(len(steps)):
            at = config(checkpoint=f"{n:02}")
            expected = memory.get_delta_channel_history(config=at, channels=["a", "b", "c"])
            assert saver.get_delta_channel_history(config=at, channels=["a", "b", "c"]) == expected
