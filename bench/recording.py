"""What a recorder costs: `python -m bench.recording`, from the root of the repository.

python -m bench.recording                  everything: about a minute
python -m bench.recording --quick          the same with fewer rounds; its figures are no measurement
python -m bench.recording --json PATH      where the figures go, beside the tables

Three questions. What does a step cost that does not save, beyond calling an empty function: processor time, the least
of many rounds, both in turns. What does a save of a 1 MB state in ten sources cost beside `session.save` and
`document.save` of the same state. And for how long does an AsyncRecorder that saves such a state hold the event loop:
a task that wants to run every millisecond writes down how late it was, beside the time that capturing takes.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import holdfast
from bench.environment import described
from bench.messages import message
from bench.report import Row, table
from bench.timing import Sample, summary, timed
from holdfast import AsyncRecorder, Recorder, every, on, when

_RESULTS = Path(__file__).resolve().parent / "results"
_SOURCES = 10
_STATE_BYTES = 1_000_000
_LIMIT_US = 2.0
"""Beyond an empty function: what a step that does not save may cost."""
_SAVES = {
    "recorder": "recorder.save",
    "session": "session.save",
    "document": "document.save",
    "snapshots": "the snapshots of all sources alone",
}
_STALLS = ("worst_ms", "median_ms", "capture_worst_ms", "capture_median_ms")


def main() -> int:
    """Parse, run, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.recording", description="What a recorder costs")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: a check that everything runs")
    parser.add_argument("--folder", type=Path, help="where the stores go; a temporary folder by default")
    parser.add_argument("--json", type=Path, help="where the figures go; bench/results/ by default")
    options = parser.parse_args()
    rounds = 5 if options.quick else 60
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        results = {
            "kind": "recording",
            "meta": described(
                quick=options.quick, seed=1, folder=Path(folder), packages=("holdfast", "apsw")
            ),
            "checks": _checks(rounds) | asyncio.run(_async_checks(rounds)),
            "saves": _saves(Path(folder), rounds),
            "stalls": _stalls(Path(folder), rounds),
        }
    print("\n\n".join(tables(results)))
    path = options.json or _RESULTS / f"recording-{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=1), encoding="utf-8")
    print(f"\nAll figures: {path}")
    return 0


class _Source:
    """A tenth of an agent: messages that grow by one a step."""

    def __init__(self, rng: Random, size: int) -> None:
        self.messages: list[Any] = []
        while size > 0:
            self.messages.append(message(rng, len(self.messages)))
            size -= len(json.dumps(self.messages[-1]))

    def snapshot(self) -> dict[str, Any]:
        return {"messages": self.messages}

    def restore(self, value: dict[str, Any]) -> None:
        self.messages = value["messages"]


def _sources() -> dict[str, _Source]:
    rng = Random(1)
    return {f"source-{number}": _Source(rng, _STATE_BYTES // _SOURCES) for number in range(_SOURCES)}


def _empty(_n: int) -> None:
    return None


def _checks(rounds: int, calls: int = 20_000) -> dict[str, Any]:
    """Microseconds of processor time for one call, the least of all rounds."""
    with holdfast.open("memory:") as store:

        def recorder(trigger: Any) -> Recorder:
            made = Recorder(store.session("s"), trigger=trigger).connect("a", _Source(Random(1), 100))
            made.step(1)
            return made

        busy = every(steps=10**12) | every(seconds=10**6) | on("tool.completed")
        contenders: dict[str, Callable[[int], Any]] = {
            "an empty function": _empty,
            "step, no trigger": recorder(None).step,
            "step, every(steps=)": recorder(every(steps=10**12)).step,
            "step, every(seconds=)": recorder(every(seconds=10**6)).step,
            "step, steps | seconds": recorder(every(steps=10**12, seconds=10**6)).step,
            "step, steps | seconds | on": recorder(busy).step,
            "step, steps & when": recorder(every(steps=10**12) & when(lambda *_: False)).step,
            "beat, every(beats=)": _without_number(recorder(every(beats=10**12)).beat),
            "tick, steps | seconds": _without_number(recorder(every(steps=10**12, seconds=10**6)).tick),
        }
        least = {name: float("inf") for name in contenders}
        for _ in range(rounds):
            for name, call in contenders.items():
                least[name] = min(least[name], _time_calls(call, calls))
    base = least["an empty function"]
    return {
        name: {"us": value, "beyond_us": value - base, "ratio": value / base} for name, value in least.items()
    }


async def _async_checks(rounds: int, calls: int = 20_000) -> dict[str, Any]:
    """The same for calls that are awaited."""
    async with holdfast.aopen("memory:") as store:
        recorder = AsyncRecorder(store.session("s"), trigger=every(steps=10**12, seconds=10**6, beats=10**12))
        recorder.connect("a", _Source(Random(1), 100))
        await recorder.step(1)

        async def empty(_n: int) -> None:
            return None

        contenders: dict[str, Callable[[int], Coroutine[Any, Any, Any]]] = {
            "await an empty function": empty,
            "await step, steps | seconds | beats": recorder.step,
            "await beat, steps | seconds | beats": lambda _n: recorder.beat(),
        }
        least = dict.fromkeys(contenders, float("inf"))
        for _ in range(rounds):
            for name, call in contenders.items():
                gc.disable()
                begun = time.process_time_ns()
                for number in range(2, calls + 2):
                    await call(number)
                least[name] = min(least[name], (time.process_time_ns() - begun) / calls / 1000)
                gc.enable()
    base = least["await an empty function"]
    return {
        name: {"us": value, "beyond_us": value - base, "ratio": value / base} for name, value in least.items()
    }


def _without_number(call: Callable[[], Any]) -> Callable[[int], Any]:
    return lambda _n: call()


def _time_calls(call: Callable[[int], Any], calls: int) -> float:
    numbers = range(2, calls + 2)
    gc.disable()
    begun = time.process_time_ns()
    for number in numbers:
        call(number)
    took = time.process_time_ns() - begun
    gc.enable()
    return took / calls / 1000


def _saves(folder: Path, rounds: int) -> dict[str, Any]:
    """A message is added, then saved: by a recorder, by a session, by a document; in turns."""
    samples: dict[str, list[Sample]] = {"recorder": [], "session": [], "document": [], "snapshots": []}
    with holdfast.open(folder / "saves.db", durability="process") as store:
        parts = _sources()
        recorder = Recorder(store.session("recorder"))
        for name, part in parts.items():
            recorder.connect(name, part)
        state = {name: part.snapshot() for name, part in _sources().items()}
        session = store.session("session")
        document = store.session("document").document(
            default={name: part.snapshot() for name, part in _sources().items()}
        )
        savers: list[tuple[str, Callable[[], Any]]] = [
            ("recorder", recorder.save),
            ("session", partial(session.save, state)),
            ("document", document.save),
        ]
        for _, save in savers:
            save()
        rng = Random(2)
        gc.collect()
        gc.freeze()
        for turn in range(rounds):
            new = message(rng, turn)
            name = f"source-{turn % _SOURCES}"
            parts[name].messages.append(new)
            state[name]["messages"].append(new)
            document[name]["messages"].append(new)
            samples["snapshots"].append(
                timed(lambda: {name: part.snapshot() for name, part in parts.items()})[1]
            )
            for label, save in savers[turn % 3 :] + savers[: turn % 3]:
                samples[label].append(timed(save)[1])
        gc.unfreeze()
        size = recorder.last.size_bytes if recorder.last else 0
    figures: dict[str, Any] = {name: summary(each) for name, each in samples.items()}
    for name, each in samples.items():
        figures[name]["least_cpu_ms"] = min(cpu for _, cpu in each) / 1e6
    return {"state_bytes": size, "rounds": rounds, **figures}


def _stalls(folder: Path, saves: int) -> dict[str, Any]:
    return {
        name: asyncio.run(_stalled(folder / f"{name}.db", saves, saving=saving))
        for name, saving in (("idle", False), ("saving", True))
    }


async def _stalled(path: Path, saves: int, *, saving: bool) -> dict[str, Any]:
    """How late a task is that wants to run every millisecond, while there are saves, or the same time without."""
    late: list[float] = []
    captures: list[float] = []
    running = True

    async def tick() -> None:
        while running:
            due = time.perf_counter() + 0.001
            await asyncio.sleep(0.001)
            late.append((time.perf_counter() - due) * 1000)

    async with holdfast.aopen(path, durability="process") as store:
        recorder = AsyncRecorder(store.session("s"))
        parts = _sources()
        for name, part in parts.items():
            recorder.connect(name, part)
        await recorder.save()
        rng = Random(3)
        gc.collect()
        gc.freeze()
        ticking = asyncio.create_task(tick())
        for turn in range(saves):
            parts[f"source-{turn % _SOURCES}"].messages.append(message(rng, turn))
            if saving:
                begun = time.perf_counter()
                # The call captures; what it returns only waits for the writer.
                writing: Coroutine[Any, Any, Any] = recorder.save()
                captures.append((time.perf_counter() - begun) * 1000)
                await writing
            await asyncio.sleep(0.02)
        running = False
        await ticking
        gc.unfreeze()
    return {
        "worst_ms": max(late),
        "median_ms": statistics.median(late),
        "capture_worst_ms": max(captures, default=0.0),
        "capture_median_ms": statistics.median(captures) if captures else 0.0,
    }


def tables(results: dict[str, Any]) -> list[str]:
    """The answers to the three questions."""
    checks: list[Row] = [
        # A table has bars of its own.
        (
            name.replace(" | ", " or ").replace(" & ", " and "),
            f"{each['us']:.3f}",
            f"{each['beyond_us']:.3f}",
            f"{each['ratio']:.1f} x",
        )
        for name, each in results["checks"].items()
    ]
    most = max(each["beyond_us"] for each in results["checks"].values())
    judged = "pass" if most <= _LIMIT_US else f"SHORT by {most / _LIMIT_US:.2f} x"
    saves = results["saves"]
    kinds: list[Row] = [
        (
            label,
            f"{saves[name]['wall']['median']:.2f}",
            f"{saves[name]['cpu']['median']:.2f}",
            f"{saves[name]['least_cpu_ms']:.2f}",
        )
        for name, label in _SAVES.items()
    ]
    stalls: list[Row] = [
        (name, *(f"{each[figure]:.2f}" for figure in _STALLS)) for name, each in results["stalls"].items()
    ]
    return [
        "### A call that does not save: us of processor, least of all rounds",
        table(("", "us", "beyond an empty one", "ratio"), checks),
        f"The most is {most:.2f} us beyond an empty function, and {_LIMIT_US:g} are allowed: {judged}.",
        f"### A save of {saves['state_bytes']:,} bytes in ten sources, one message more each time: ms",
        table(("", "wall", "cpu", "least cpu"), kinds),
        "### How late a task of 1 ms was on the event loop: ms",
        table(("", "worst", "median", "capturing: worst", "median"), stalls),
    ]


if __name__ == "__main__":
    raise SystemExit(main())
