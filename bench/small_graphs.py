"""Short LangGraph graphs with tiny states: `python -m bench.small_graphs [--quick]`, SQLite and PostgreSQL.

The other side of `bench.graphs`: a counter and a word instead of a long conversation, in a store made anew for each
graph of 1 to 10 steps, and once 300 steps. What counts is all of it: the store is made, the graph runs and the saver is
closed. Everyone takes turns; the ratio is to LangGraph's own saver of the same database.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph

from bench.contenders.graph_savers import GraphSaver, Holdfast, HoldfastOnPostgres, OnPostgres, OnSqlite
from bench.servers import running
from bench.timing import Sample, timed

_THREAD: Any = {"configurable": {"thread_id": "small"}}
_NUMBERS = count(1)


class Counter(TypedDict):
    """The state of the graph."""

    n: int
    word: str


def main() -> int:
    """Run and print a table for each database."""
    asked = argparse.ArgumentParser(prog="python -m bench.small_graphs")
    asked.add_argument("--quick", action="store_true", help="a check that everything runs")
    asked.add_argument("--folder", type=Path, help="where the stores go; a real disk")
    given = asked.parse_args()
    rounds = {1: 2, 10: 2, 30: 1} if given.quick else {1: 40, 3: 40, 10: 20, 300: 3}
    print(
        "| database | steps | SqliteSaver or PostgresSaver, ms (CPU) | HoldfastSaver, ms (CPU) | wall | CPU |"
    )
    print("|---|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:

        def own() -> Path:
            place = Path(folder, str(next(_NUMBERS)))
            place.mkdir()
            return place

        for steps, turns in rounds.items():
            print(row("SQLite", steps, taken(steps, turns, {OnSqlite: own, Holdfast: own})), flush=True)
    with running(given.folder) as server:
        for steps, turns in rounds.items():
            made = {OnPostgres: server.fresh_database, HoldfastOnPostgres: server.fresh_database}
            print(row("PostgreSQL", steps, taken(steps, turns, made)), flush=True)
    return 0


def taken(
    steps: int, turns: int, kinds: dict[type[GraphSaver], Callable[[], Any]]
) -> list[tuple[float, float]]:
    """Milliseconds of each contender, on the clock and of the processor: the median of its turns."""
    samples: dict[type[GraphSaver], list[Sample]] = {kind: [] for kind in kinds}
    for turn in range(turns + 1):
        for kind, place in kinds.items():
            contender = kind(place())
            _, sample = timed(lambda: one(contender, steps))  # noqa: B023 - called at once
            if turn:  # the first one imports
                samples[kind].append(sample)
    return [
        (
            statistics.median(wall for wall, _ in each) / 1e6,
            statistics.median(cpu for _, cpu in each) / 1e6,
        )
        for each in samples.values()
    ]


def one(contender: GraphSaver, steps: int) -> None:
    """A graph from its first step to its last, in a store made anew."""
    builder = StateGraph(Counter)
    builder.add_node("step", lambda state: {"n": state["n"] + 1, "word": f"word {state['n']}"})
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", lambda state: END if state["n"] >= steps else "step")
    saver = contender.open()
    try:
        graph = builder.compile(checkpointer=saver)
        done = graph.invoke(
            {"n": 0, "word": ""}, {**_THREAD, "recursion_limit": steps + 5}, durability="sync"
        )
        assert done["n"] == steps
    finally:
        contender.close(saver)


def row(database: str, steps: int, found: list[tuple[float, float]]) -> str:
    """A line of the table."""
    (wall, cpu), (own_wall, own_cpu) = found
    return (
        f"| {database} | {steps} | {wall:.1f} ({cpu:.1f}) | {own_wall:.1f} ({own_cpu:.1f}) "
        f"| {own_wall / wall:.2f} x | {own_cpu / cpu:.2f} x |"
    )


if __name__ == "__main__":
    sys.exit(main())
