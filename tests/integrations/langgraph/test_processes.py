"""Several processes on one thread, and processes that are killed: no update is lost, and nothing is run for nothing."""

from __future__ import annotations

import json
import operator
import os
import random
import signal
import time
from collections import Counter, defaultdict
from functools import partial
from typing import Annotated, Any

import pytest
from langgraph.checkpoint.base.id import uuid6
from langgraph.graph import END, START, StateGraph
from tests.reliability.witness import in_new_process
from typing_extensions import TypedDict

from holdfast.integrations.langgraph import HoldfastSaver

CONFIG: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
ROUNDS = 100
STEPS = 60
KILLS = 12


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, memory_folder):
    if request.param == "sqlite":
        return memory_folder / "store.db"
    return request.getfixturevalue("postgres_place")


def open_saver(place):
    return HoldfastSaver.open(place, durability="process", timeout=60)


def in_processes(*works):
    """Run each in a process of its own, all at once; what each of them said."""
    pipes = []
    for work in works:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(read)
                with os.fdopen(write, "w") as say:
                    work(lambda line, say=say: print(line, file=say, flush=True))
                status = 0
            finally:
                os._exit(status)
        os.close(write)
        pipes.append((child, read))
    said = []
    for child, read in pipes:
        with os.fdopen(read) as lines:
            said.append([json.loads(line) for line in lines])
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return said


def put_on_latest(place, name, say):
    """What two graphs on one thread do: each continues the checkpoint that it finds."""
    with open_saver(place) as saver:
        for n in range(ROUNDS):
            found = saver.get_tuple(CONFIG)
            checkpoint: Any = {
                "v": 4,
                "id": str(uuid6()),
                "ts": "now",
                "channel_values": {"by": name, "n": n},
                "channel_versions": {"by": 1, "n": n},
                "versions_seen": {},
            }
            made = saver.put(found.config, checkpoint, {"source": "loop", "step": n}, {})
            saver.put_writes(made, [("by", name)], f"task of {name}")
            say(json.dumps([made["configurable"]["checkpoint_id"], found.checkpoint["id"], name, n]))


def test_two_processes_on_one_thread_lose_no_update(place):
    with open_saver(place) as saver:
        first: Any = {
            "v": 4,
            "id": str(uuid6()),
            "ts": "",
            "channel_values": {},
            "channel_versions": {},
            "versions_seen": {},
        }
        saver.put(CONFIG, first, {"source": "input", "step": -1}, {})
    said = in_processes(*(partial(put_on_latest, place, name) for name in ("left", "right")))
    made = [each for lines in said for each in lines]
    with open_saver(place) as saver:
        found = {each.checkpoint["id"]: each for each in saver.list(CONFIG)}
        assert len(found) == 2 * ROUNDS + 1
        for checkpoint_id, parent, name, n in made:
            each = found[checkpoint_id]
            assert each.checkpoint["channel_values"] == {"by": name, "n": n}
            assert each.parent_config["configurable"]["checkpoint_id"] == parent
            assert each.pending_writes == [(f"task of {name}", "by", name)]
        children = Counter(parent for _, parent, _, _ in made)
        # Two on one parent, which one of them would not have seen, are on two branches; every line has its head.
        session = saver.store.session("t")
        heads = {each.head.key for each in session.branches() if each.name != "writes"}
        assert heads == {f"/ {each}" for each in found if each not in children}
        assert len(session.log("writes")) == 2 * ROUNDS
        records = {each.id: each for each in saver.store.find(session="t") if each.branch != "writes"}
        for each in records.values():
            parent = found[each.key.split(" ")[1]].parent_config
            above = None if each.parent is None else records[each.parent].key
            assert above == (None if parent is None else f"/ {parent['configurable']['checkpoint_id']}")
        assert saver.store.verify().ok


class Work(TypedDict):
    done: Annotated[list[str], operator.add]


def counting_graph(saver, say):
    """A chain of steps, each of two tasks; each says when it begins."""

    def step(state: Work) -> Any:
        number = len(state["done"]) // 2
        say(f"a{number}")
        time.sleep(0.001)
        return {"done": [f"a{number}"]}

    def beside(state: Work) -> Any:
        number = len(state["done"]) // 2
        say(f"b{number}")
        time.sleep(0.002)
        return {"done": [f"b{number}"]}

    def again(state: Work) -> Any:
        return END if len(state["done"]) >= 2 * STEPS else ["step", "beside"]

    graph = StateGraph(Work)
    graph.add_node("step", step)
    graph.add_node("beside", beside)
    graph.add_node("join", lambda state: {"done": []})
    graph.add_edge(START, "step")
    graph.add_edge(START, "beside")
    graph.add_edge("step", "join")
    graph.add_edge("beside", "join")
    graph.add_conditional_edges("join", again, ["step", "beside", END])
    return graph.compile(checkpointer=saver)


def run_graph(place, mode, say):
    """Begin it, or go on with it."""
    with open_saver(place) as saver:
        graph = counting_graph(saver, say)
        begun = saver.get_tuple(CONFIG) is not None
        graph.invoke(None if begun else {"done": []}, {**CONFIG, "recursion_limit": 1000}, durability=mode)


def run_and_kill(place, mode, source):
    """Let a process run the graph, and kill it somewhere; which tasks began, and whether it was killed."""
    read, write = os.pipe()
    victim = os.fork()
    if victim == 0:
        status = 1
        try:
            run_graph(place, mode, lambda task: os.write(write, f"{task}\n".encode()))
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    said, wanted = b"", source.randrange(1, 8)
    while said.count(b"\n") < wanted and (piece := os.read(read, 4096)):
        said += piece
    time.sleep(source.random() * 0.01)
    os.kill(victim, signal.SIGKILL)
    while piece := os.read(read, 4096):
        said += piece
    os.close(read)
    killed = os.waitstatus_to_exitcode(os.waitpid(victim, 0)[1]) == -signal.SIGKILL
    return said.decode().split("\n")[:-1], killed


def look(place, say):
    """What the killed process left: how many steps are over, and which tasks of the next one are."""
    with open_saver(place) as saver:
        found = saver.get_tuple(CONFIG)
        if found is None:
            say(json.dumps(None))
            return
        done = found.checkpoint["channel_values"].get("done", [])
        pending = [write[2][0] for write in found.pending_writes if write[1] == "done" and write[2]]
        say(json.dumps([done, pending]))


def check_whole(place, mode):
    with open_saver(place) as saver:
        run_graph(place, mode, lambda task: None)
        found = saver.get_tuple(CONFIG)
        assert sorted(found.checkpoint["channel_values"]["done"]) == sorted(
            f"{kind}{n}" for kind in "ab" for n in range(STEPS)
        )
        assert saver.store.verify().ok


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_graph_that_is_killed_goes_on_with_nothing_lost_and_nothing_run_that_was_saved(place, mode):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    source = random.Random(seed)
    kills = 0
    runs: dict[str, int] = defaultdict(int)
    for _ in range(KILLS):
        [[left]] = in_processes(partial(look, place))
        before = Counter(runs)
        begun, killed = run_and_kill(place, mode, source)
        for each in begun:
            runs[each] += 1
        if left is not None:
            done, pending = left
            # What was saved when it began is not run again: neither whole steps nor tasks of a step that was not over.
            assert not set(begun) & {*done, *pending}
        if mode == "sync":
            # Each step is saved before the next begins: what is run once more is of the last one that had begun.
            last = max((int(each[1:]) for each in before), default=0)
            assert all(int(each[1:]) >= last for each in begun)
        kills += killed
        if not killed:
            break
    assert kills >= 3
    in_new_process(partial(check_whole, place, mode))
