"""The benchmark of the LangGraph saver: `python -m bench.graphs`, from the root of the repository.

python -m bench.graphs                     everything: about ten minutes, and 2 GB of disk while it runs
python -m bench.graphs --quick             the same with fewer steps; its ratios are no measurement
python -m bench.graphs --only sqlite       one of the databases: sqlite, postgres

A real graph: an agent that answers and uses tools, one LangChain message of about 1 KB a step, a thousand steps, with
`durability="sync"`, so that a step ends when its checkpoint is on the disk. Everyone runs the same graph with the same
messages. `put` and `put_writes` are timed inside of the graph, each for itself: LangGraph calls them in two threads at
once, where either would be charged with waiting for the other. `get_state`, the saver's `list` and `get_state_history`
are timed with a saver that was opened anew. What is loaded is compared with what was said, after the clock was stopped:
all of it, or of a list and a history every tenth part.

Processor time is that of the calling thread for `put` and `put_writes`, and that of the process for the rest.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Annotated, Any, TypedDict

from bench.timing import Sample, summary, timed

_RESULTS = Path(__file__).resolve().parent / "results"
_PACKAGES = (
    "holdfast",
    "langgraph",
    "langgraph-checkpoint",
    "langgraph-checkpoint-sqlite",
    "langgraph-checkpoint-postgres",
    "langchain-core",
    "psycopg",
)
_DATABASES = ("sqlite", "postgres")
_THREAD: Any = {"configurable": {"thread_id": "bench"}}
_LOADS = 7
_HISTORIES = 2


def main() -> int:
    """Parse, run, print, write."""
    options = _options()
    try:
        from bench.environment import described
        from bench.graphs_report import render
        from bench.targets import judge_graphs
    except ModuleNotFoundError as error:
        print(f"{error}. Install what the benchmark needs: pip install -e . --group bench", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        meta = described(quick=options.quick, seed=options.seed, folder=Path(folder), packages=_PACKAGES)
        steps = 100 if options.quick else 1_000
        results: dict[str, Any] = {"meta": meta, "steps": steps, "databases": {}}
        for database in options.only:
            place = options.folder if database == "postgres" else Path(folder)
            results["databases"][database] = _database(database, place, steps, options.seed)
    targets = judge_graphs(results)
    results["targets"] = [each.to_dict() for each in targets]
    print(render(results, targets))
    path = options.json or _RESULTS / f"graphs-{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=1), encoding="utf-8")
    print(f"\nAll figures: {path}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.graphs", description="LangGraph with its own savers and with holdfast's"
    )
    parser.add_argument("--quick", action="store_true", help="fewer steps: a check that everything runs")
    parser.add_argument("--only", nargs="+", default=_DATABASES, choices=_DATABASES, help="databases")
    parser.add_argument(
        "--json", type=Path, metavar="PATH", help="where the figures go (default: bench/results/)"
    )
    parser.add_argument("--folder", type=Path, metavar="PATH", help="where the stores go: a real disk")
    parser.add_argument("--seed", type=int, default=20261115, help="another seed, another conversation")
    return parser.parse_args()


def _database(database: str, folder: Path | None, steps: int, seed: int) -> dict[str, Any]:
    from bench.contenders.graph_savers import POSTGRES, SQLITE
    from bench.servers import running

    if folder is not None and database == "sqlite":
        made = {}
        for name, kind in SQLITE.items():
            place = folder / name
            place.mkdir()
            made[name] = kind(place)
        return _all(made, steps, seed)
    with running(folder) as server:
        return _all({name: kind(server.fresh_database()) for name, kind in POSTGRES.items()}, steps, seed)


def _all(savers: dict[str, Any], steps: int, seed: int) -> dict[str, Any]:
    """Everyone one after the other; loads and histories in turns."""
    found: dict[str, Any] = {}
    for name, each in savers.items():
        print(f"{datetime.now(UTC):%H:%M:%S} {each.label}", file=sys.stderr)
        found[name] = {"label": each.label} | _run(each, steps, seed)
        each.settle()
    said = list(conversation(steps, seed))
    loads: dict[str, list[Sample]] = {name: [] for name in savers}
    lists: dict[str, list[Sample]] = {name: [] for name in savers}
    histories: dict[str, list[Sample]] = {name: [] for name in savers}
    for turn in range(_LOADS):
        for name, each in savers.items():
            loads[name].append(_opened(each, said, _get_state))
            if turn < _HISTORIES:
                lists[name].append(_opened(each, said, _list))
                histories[name].append(_opened(each, said, _history))
    for name in savers:
        found[name] |= {
            "get_state": summary(loads[name]),
            "list": summary(lists[name]),
            "history": summary(histories[name]),
        }
    return found


def conversation(steps: int, seed: int) -> Any:
    """The messages, one for each step: a person's, the model's and those of tools."""
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    from bench.messages import message

    rng = Random(seed)
    for number in range(steps):
        made = message(rng, number)
        content = made["content"] if isinstance(made["content"], str) else json.dumps(made["content"])
        if made["role"] == "user":
            yield HumanMessage(content, id=made["id"])
        elif made["role"] == "tool":
            yield ToolMessage(content, tool_call_id=made["tool_call_id"], id=made["id"])
        else:
            calls = [
                {"name": call["name"], "args": call["arguments"], "id": call["id"]}
                for call in made["tool_calls"]
            ]
            used = made["usage"]
            total = used["input_tokens"] + used["output_tokens"]
            yield AIMessage(
                content, id=made["id"], tool_calls=calls, usage_metadata={**used, "total_tokens": total}
            )


def build(saver: Any, messages: list[Any], *, delta: bool) -> Any:
    """The graph: a node that says the next thing until everything is said."""
    from langgraph.channels.delta import DeltaChannel
    from langgraph.graph import END, START, StateGraph
    from langgraph.graph.message import add_messages

    def collected(value: list[Any], writes: list[list[Any]]) -> list[Any]:
        return [*value, *(each for write in writes for each in write)]

    kept = DeltaChannel(collected, list, snapshot_frequency=100) if delta else add_messages

    class State(TypedDict):
        messages: Annotated[list[Any], kept]

    def agent(state: Any) -> dict[str, Any]:
        return {"messages": [messages[len(state["messages"])]]}

    def more(state: Any) -> str:
        return "agent" if len(state["messages"]) < len(messages) else END

    # The types are local: without this, LangGraph would look them up by name and find nothing.
    State.__annotations__ = {"messages": Annotated[list[Any], kept]}
    builder = StateGraph(State)
    builder.add_node("agent", agent)
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", more)
    return builder.compile(checkpointer=saver)


def _run(each: Any, steps: int, seed: int) -> dict[str, Any]:
    """Run the whole graph; what its saver took late in the run, and what is on the disk."""
    saver = each.open()
    puts: list[Sample] = []
    writes: list[Sample] = []
    turn = threading.Lock()
    saver.put = _watched(saver.put, puts, turn)
    saver.put_writes = _watched(saver.put_writes, writes, turn)
    messages = list(conversation(steps, seed))
    graph = build(saver, messages, delta=each.delta)
    gc.collect()
    config = _THREAD | {"recursion_limit": steps + 10}
    _, whole = timed(lambda: graph.invoke({"messages": []}, config, durability="sync"))
    each.close(saver)
    late = max(1, len(puts) // 10)
    return {
        "put": summary(puts[-late:]),
        "put_writes": summary(writes[-late:]),
        "run": summary([whole]),
        "checkpoints": len(puts),
        "bytes": each.size(),
    }


def _watched(call: Callable[..., Any], samples: list[Sample], turn: threading.Lock) -> Callable[..., Any]:
    """Time every call: one at a time, and of the processor what the calling thread used.

    Without the turns, a call of one kind that comes while one of the other kind is at work waits for it, in the saver
    or for Python's own lock, and its time would say more about the other than about itself. The graph goes on
    meanwhile in a thread of its own, which the time of the whole process would have in it.
    """

    def watched(*args: Any, **more: Any) -> Any:
        with turn:
            cpu, wall = time.thread_time_ns(), time.perf_counter_ns()
            result = call(*args, **more)
            samples.append((time.perf_counter_ns() - wall, time.thread_time_ns() - cpu))
        return result

    return watched


def _opened(each: Any, said: list[Any], work: Callable[[Any, int], dict[int, Any]]) -> Sample:
    """Time what a program does with a saver that it has just opened; opening is not part of it, nor is checking."""
    saver = each.open()
    try:
        graph = build(saver, [], delta=each.delta)
        gc.collect()
        found, sample = timed(lambda: work(graph, len(said)))
        _check(found, said)
        return sample
    finally:
        each.close(saver)


def _check(found: dict[int, Any], said: list[Any]) -> None:
    """Compare states with what was said, each by how many steps it lies before the last one."""
    for before, messages in found.items():
        expected = said[: len(said) - before]
        if messages != expected:
            raise WrongStateError(
                f"{len(messages)} messages came back, which are not the {len(expected)} that were said"
            )


def _get_state(graph: Any, _steps: int) -> dict[int, Any]:
    return {0: graph.get_state(_THREAD).values["messages"]}


def _list(graph: Any, steps: int) -> dict[int, Any]:
    """What the saver does of a history; LangGraph makes snapshots of it."""
    config = {"configurable": {"thread_id": "bench", "checkpoint_ns": ""}}
    some = _sampled(graph.checkpointer.list(config, limit=steps), steps)
    values = {before: each.checkpoint["channel_values"].get("messages") for before, each in some.items()}
    # Where a channel keeps what was added, most checkpoints do not have the whole list: LangGraph puts it together.
    return {before: each for before, each in values.items() if isinstance(each, list)}


def _history(graph: Any, steps: int) -> dict[int, Any]:
    some = _sampled(graph.get_state_history(_THREAD, limit=steps), steps)
    return {before: each.values["messages"] for before, each in some.items()}


def _sampled(found: Iterator[Any], steps: int) -> dict[int, Any]:
    """Every tenth part, by its place, once all have come."""
    every = max(1, steps // 10)
    some: dict[int, Any] = {}
    count = 0
    for each in found:
        if count % every == 0:
            some[count] = each
        count += 1
    if count != steps:
        raise WrongStateError(f"{count} checkpoints came back, not {steps}")
    return some


class WrongStateError(Exception):
    """A saver gave back something else than was saved."""


if __name__ == "__main__":
    sys.exit(main())
