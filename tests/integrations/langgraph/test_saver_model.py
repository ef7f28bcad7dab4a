"""HoldfastSaver against InMemorySaver: whatever is put, in whatever order, both answer the same."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME, SCHEDULED

from holdfast.integrations.langgraph import HoldfastSaver

THREADS = ["t", "u"]
NAMESPACES = ["", "sub:1", "main"]
IDS = [f"1f0{n}" for n in range(6)]
VALUES = st.integers(0, 3) | st.sampled_from(["x", None]) | st.lists(st.integers(0, 2), max_size=3)
CHANNELS = st.sampled_from(["a", "b", "c", ERROR, INTERRUPT, RESUME, SCHEDULED])

PUTS = st.tuples(
    st.just("put"),
    st.sampled_from(THREADS),
    st.sampled_from(NAMESPACES),
    st.none() | st.sampled_from(IDS),
    st.sampled_from(IDS),
    st.dictionaries(st.sampled_from(["a", "b"]), VALUES, max_size=2),
    st.dictionaries(st.sampled_from(["source", "step", "k"]), VALUES, max_size=3),
)
WRITES = st.tuples(
    st.just("writes"),
    st.sampled_from(THREADS),
    st.sampled_from(NAMESPACES),
    st.sampled_from(IDS),
    st.lists(st.tuples(CHANNELS, VALUES), min_size=1, max_size=4),
    st.sampled_from(["task1", "task2"]),
    st.sampled_from(["", "path1", "path2"]),
)
DELETES = st.tuples(st.just("delete"), st.sampled_from(THREADS))


def config(thread: str, namespace: str, checkpoint_id: str | None) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}}


def carry_out(saver: Any, step: tuple[Any, ...], taken: set[Any]) -> None:
    kind, thread, *rest = step
    if kind == "delete":
        saver.delete_thread(thread)
    elif kind == "writes":
        namespace, checkpoint_id, writes, task, path = rest
        saver.put_writes(config(thread, namespace, checkpoint_id), writes, task, path)
    else:
        namespace, parent, checkpoint_id, values, metadata = rest
        versions = {name: len(taken) + 1 for name in values}
        checkpoint: Any = {
            "v": 4,
            "id": checkpoint_id,
            "ts": "now",
            "channel_values": values,
            "channel_versions": versions,
            "versions_seen": {"node": versions},
            "updated_channels": sorted(values),
        }
        saver.put(config(thread, namespace, parent), checkpoint, metadata, versions)


def answers(saver: Any) -> Any:
    found: dict[Any, Any] = {}
    for thread in THREADS:
        for namespace in NAMESPACES:
            found[thread, namespace] = saver.get_tuple(config(thread, namespace, None))
            for each in IDS:
                at = config(thread, namespace, each)
                found[thread, namespace, each] = saver.get_tuple(at)
                found[thread, namespace, each, "before"] = list(
                    saver.list(config(thread, namespace, None), before=at)
                )
                found[thread, namespace, each, "deltas"] = saver.get_delta_channel_history(
                    config=at, channels=["a", "b"]
                )
            for wanted in ({}, {"source": "x"}, {"k": None}, {"k": 1, "step": [1]}):
                for limit in (None, 1, 2):
                    listed = list(saver.list(config(thread, namespace, None), filter=wanted, limit=limit))
                    found[thread, namespace, str(wanted), limit] = listed
    return found


@given(st.lists(PUTS | PUTS | WRITES | WRITES | DELETES, max_size=25), st.booleans())
@settings(max_examples=100)
def test_it_answers_as_the_memory_of_langgraph_does(steps, forgetful):
    memory, taken = InMemorySaver(), set()
    with HoldfastSaver("memory:") as saver:
        for step in steps:
            if step[0] == "put":
                # An id names one checkpoint for good, and no checkpoint is its own ancestor.
                if (*step[1:3], step[4]) in taken or (step[3] or "") >= step[4]:
                    continue
                taken.add((*step[1:3], step[4]))
            if step[0] == "delete":
                taken = {each for each in taken if each[0] != step[1]}
            carry_out(memory, step, taken)
            # As if each step were of another process.
            carry_out(HoldfastSaver(saver.store) if forgetful else saver, step, taken)
        assert answers(saver) == answers(memory)
        assert saver.store.verify().ok


@given(st.lists(WRITES, max_size=12))
def test_of_repeated_writes_the_same_ones_count(steps):
    memory = InMemorySaver()
    with HoldfastSaver("memory:") as saver:
        for each in (memory, saver):
            carry_out(each, ("put", "t", "", None, IDS[0], {}, {}), set())
        for _, _, _, _, writes, task, path in steps:
            memory.put_writes(config("t", "", IDS[0]), writes, task, path)
            saver.put_writes(config("t", "", IDS[0]), writes, task, path)
            mine: Any = saver.get_tuple(config("t", "", None))
            theirs: Any = memory.get_tuple(config("t", "", None))
            assert mine.pending_writes == theirs.pending_writes


PLAIN = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)) | st.binary()
)
METADATA = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(st.characters(codec=None), max_size=5), METADATA, max_size=5))
def test_any_metadata_comes_back_and_is_found_by_what_it_is(metadata):
    with HoldfastSaver("memory:") as saver:
        checkpoint: Any = {
            "v": 4,
            "id": "1",
            "ts": "",
            "channel_values": {},
            "channel_versions": {},
            "versions_seen": {},
        }
        made: Any = saver.put(config("t", "", None), checkpoint, metadata, {})
        # LangGraph itself takes NUL out of texts.
        expected = {
            name: each.replace("\0", "") if isinstance(each, str) else each for name, each in metadata.items()
        }
        found: Any = saver.get_tuple(made)
        assert same(found.metadata, expected)
        for name, value in expected.items():
            listed = list(saver.list(config("t", "", None), filter={name: value}))
            assert len(listed) == (found.metadata[name] == value)
            assert (
                list(saver.list(config("t", "", None), filter={name: "another"})) == [] or value == "another"
            )


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other
