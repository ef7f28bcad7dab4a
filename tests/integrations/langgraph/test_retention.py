"""What retention and prune leave of a thread: whole checkpoints, each with its pending writes."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from tests.integrations.langgraph.saver_data import config, id_of, ids, put

from holdfast import Keep
from holdfast.integrations.langgraph import HoldfastSaver

THREAD: Any = {"configurable": {"thread_id": "t"}}


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


@pytest.fixture
def saver():
    with HoldfastSaver("memory:") as saver:
        yield saver


def waiting_graph(saver, ran):
    """Two tasks in one step: one ends, the other asks."""

    def works(_state: Log) -> Any:
        ran.append("works")
        return {"log": ["worked"]}

    def asks(_state: Log) -> Any:
        return {"log": [interrupt("go on?")]}

    builder: Any = StateGraph(Log)
    builder.add_node("works", works)
    builder.add_node("asks", asks)
    builder.add_edge(START, "works")
    builder.add_edge(START, "asks")
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("keep", [Keep(last=1), Keep(at_most=1), Keep(last=2, per="branch")])
def test_a_graph_that_waits_goes_on_after_retention_without_running_a_task_again(saver, keep):
    ran: list[str] = []
    graph = waiting_graph(saver, ran)
    graph.invoke({"log": ["first"]}, THREAD)
    graph.invoke(Command(resume="yes"), THREAD)
    graph.invoke({"log": ["second"]}, THREAD)
    before = graph.get_state(THREAD)
    saver.store.session("t").prune(keep, only=True)
    after = graph.get_state(THREAD)
    assert (after.tasks, after.interrupts, after.next) == (before.tasks, before.interrupts, before.next)
    assert len(after.interrupts) == 1
    done = graph.invoke(Command(resume="yes"), THREAD)
    assert done["log"][-3:] == ["second", "yes", "worked"]
    assert ran == ["works"] * 2


def test_writes_are_not_counted_and_go_with_their_checkpoint(saver):
    made = [put(saver, values={"a": 0})]
    for number in range(1, 6):
        for task in ("one", "two"):
            saver.put_writes(made[-1], [("a", number)], task)
        made.append(put(saver, made[-1], values={"a": number}))
    saver.put_writes(made[0], [("a", 9)], "late")
    session = saver.store.session("t")
    report = session.prune(Keep(last=3), only=True)
    assert ids(saver.list(config())) == [id_of(each) for each in reversed(made[-3:])]
    assert [len(each.pending_writes) for each in saver.list(config())] == [0, 2, 2]
    assert (report.kept, report.deleted) == (3 + 4, 3 + 7)
    late = next(each for each in report.decisions if (each.checkpoint.key or "").endswith("late 000000"))
    assert not late.kept
    owner = next(each for each in report.decisions if each.checkpoint.seq == 1)
    assert late.reasons == (f"part of {owner.checkpoint.id[:12]}",)
    # The line of the writes went back, and both this saver and another one go on with it.
    saver.put_writes(made[-1], [("a", 7)], "next")
    HoldfastSaver(saver.store).put_writes(made[-1], [("a", 8)], "another")
    assert len(saver.get_tuple(made[-1]).pending_writes) == 2
    assert saver.store.verify().ok


def test_all_writes_may_go_and_come_back_with_undo(saver):
    first = put(saver, values={"a": 0})
    saver.put_writes(first, [("a", 1)], "one")
    second = put(saver, first, values={"a": 1})
    session = saver.store.session("t")
    session.prune(Keep(last=1), only=True)
    assert [each.name for each in session.branches()] == ["main"]
    session.undo()
    assert len(saver.get_tuple(first).pending_writes) == 1
    session.prune(Keep(last=1), only=True)
    saver.put_writes(second, [("a", 2)], "two")
    assert len(saver.get_tuple(second).pending_writes) == 1
