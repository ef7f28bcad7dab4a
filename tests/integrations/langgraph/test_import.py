"""Import of real databases: every tuple is what LangGraph's own saver gives, and the graph goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Interrupt, PregelTask, StateSnapshot
from tests.integrations.langgraph.import_sources import (
    GOING_ON,
    GRAPHS,
    THREADS,
    by_id,
    config,
    fill,
    run_graphs,
)

import holdfast
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.integrations.langgraph.import_saver import ImportReport, import_langgraph

KINDS = ("sqlite", "async sqlite", "postgres", "async postgres")


class Filled:
    """A database and what its saver says is in it."""

    def __init__(self, kind: str, place: str) -> None:
        self.kind = kind
        self.place = place
        self.tuples: dict[str, list[CheckpointTuple]] = fill(kind, place)


@pytest.fixture(scope="module")
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    kind = request.param
    if "postgres" not in kind:
        yield Filled(kind, str(tmp_path_factory.mktemp("source") / "checkpoints.sqlite"))
        return
    server = request.getfixturevalue("postgres")
    url = server.fresh_database()
    yield Filled(kind, url)
    server.drop_database(url)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[holdfast.Store]:
    place = tmp_path / "store.db" if request.param == "sqlite" else request.getfixturevalue("postgres_place")
    with holdfast.open(place) as opened:
        yield opened


every_kind = pytest.mark.parametrize("filled", KINDS, indirect=True)
from_one_to_the_other = pytest.mark.parametrize(
    ("filled", "store"), [("sqlite", "postgres"), ("postgres", "sqlite")], indirect=True
)


@every_kind
def test_every_tuple_is_what_the_source_gives(filled: Filled, store: holdfast.Store) -> None:
    report = import_langgraph(filled.place, store)

    saver = HoldfastSaver(store)
    for thread in THREADS:
        wanted = by_id(filled.tuples[thread])
        found = by_id(list(saver.list(config(thread))))
        assert found.keys() == wanted.keys()
        for place, each in wanted.items():
            assert found[place] == each, place
            assert types_in(found[place]) == types_in(each)
    assert report.checkpoints == sum(map(len, filled.tuples.values()))
    assert report.writes == sum(
        len(each.pending_writes or ()) for them in filled.tuples.values() for each in them
    )
    assert (report.opaque, report.bare) == ({}, {})
    assert store.verify().ok


@from_one_to_the_other
@pytest.mark.parametrize("thread", THREADS)
def test_a_graph_goes_on_as_it_would_have(filled: Filled, store: holdfast.Store, thread: str) -> None:
    import_langgraph(filled.place, store, threads=[thread])
    graph = GRAPHS[thread](HoldfastSaver(store))

    wanted = GRAPHS[thread](asyncio.run(in_memory(thread)))

    for step in (
        lambda each: each.get_state(config(thread), subgraphs=True),
        lambda each: go_on(each, thread),
    ):
        assert shown(step(graph)) == shown(step(wanted))
    assert shown(list(graph.get_state_history(config(thread)))) == shown(
        list(wanted.get_state_history(config(thread)))
    )
    assert store.verify().ok


@from_one_to_the_other
def test_a_second_import_writes_nothing(filled: Filled, store: holdfast.Store) -> None:
    import_langgraph(filled.place, store)
    count = store.stats().checkpoints

    again = import_langgraph(filled.place, store)

    assert {each.status for each in again.threads} == {"unchanged"}
    assert (again.checkpoints, again.writes) == (0, 0)
    assert store.stats().checkpoints == count


@from_one_to_the_other
def test_a_dry_run_says_the_same_and_writes_nothing(filled: Filled, store: holdfast.Store) -> None:
    dry = import_langgraph(filled.place, store, dry_run=True)

    assert store.sessions() == []
    real = import_langgraph(filled.place, store)
    assert dry == real._replace(dry_run=True)
    assert {each.status for each in real.threads} == {"new"}


@from_one_to_the_other
def test_only_the_threads_that_are_named_are_imported(filled: Filled, store: holdfast.Store) -> None:
    told: list[tuple[str, int]] = []

    report: ImportReport = import_langgraph(
        filled.place, store, threads=["spread", "chat"], progress=lambda what, done: told.append((what, done))
    )

    assert [each.id for each in report.threads] == ["spread", "chat"]
    assert {each.id for each in store.sessions()} == {"spread", "chat"}
    count = report.checkpoints
    assert told[0] == ("checkpoints at the source", count)
    assert told[1:] == [("importing checkpoints", n) for n in range(1, count + 1)]
    with pytest.raises(holdfast.NotFoundError, match="no thread 'chatt'"):
        import_langgraph(filled.place, store, threads=["asked", "chatt"])
    assert "asked" not in {each.id for each in store.sessions()}


async def in_memory(thread: str) -> InMemorySaver:
    """The same run on a saver that never was imported."""
    saver = InMemorySaver()
    await run_graphs(saver, (thread,))
    return saver


def go_on(graph: Any, thread: str) -> Any:
    return graph.invoke(GOING_ON[thread], config(thread))


def shown(value: Any) -> Any:
    """What a graph shows, without ids and times, which differ from run to run."""
    if isinstance(value, StateSnapshot):
        # What asks are tasks, and they are in it; the ids of both are those of checkpoints.
        return [shown(part) for part in (value.values, value.next, value.metadata, value.tasks)]
    if isinstance(value, PregelTask):
        return [
            shown(part) for part in (value.name, value.error, value.interrupts, value.state, value.result)
        ]
    if isinstance(value, Interrupt):
        return shown(value.value)
    if isinstance(value, BaseMessage):
        return type(value).__name__, value.content
    if isinstance(value, dict):
        return {
            name: shown(each)
            for name, each in value.items()
            if name not in ("parents", "configurable", "checkpoint_ns")
        }
    if isinstance(value, list | tuple):
        return [shown(each) for each in value]
    return value


def types_in(value: Any) -> Any:
    """The classes of everything in a value."""
    if isinstance(value, dict):
        return type(value), {name: types_in(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value), [types_in(each) for each in value]
    return type(value)
