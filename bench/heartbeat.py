"""A heartbeat of 100,000 beats with a megabyte of state: `python -m bench.heartbeat [--beats N] [--json PATH]`.

Each beat changes one page of a thousand, and every 50 beats are saved. What is looked at: memory and open files on the
way, what a checkpoint costs beside a plain save and a Document's save of the same change, and how long the event loop
was ever held, seen by a task that wants to run every millisecond, beside what a capture alone takes. About a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import holdfast
from bench.environment import described
from bench.report import Row, table
from bench.timing import timed
from holdfast.agents import Beat, Heartbeat, HeartbeatAgent
from holdfast.recording.sources import source_of

_PAGES = 1000
_EVERY = 50
_TICK = 0.001
_RESULTS = Path(__file__).resolve().parent / "results"


class Heavy(HeartbeatAgent):
    """A thousand pages of a kilobyte."""

    def __init__(self) -> None:
        super().__init__("heavy")
        self.pages = [f"{n:010}" * 100 for n in range(_PAGES)]
        self.marks: list[tuple[int, int, int]] = []
        self.mark_every = 1

    def parts(self) -> dict[str, Any]:
        return super().parts() | {"pages": holdfast.attributes(self, "pages")}

    def act(self, beat: Beat) -> None:
        place = beat.number * 37 % _PAGES
        self.pages[place] = f"{beat.number:06}{place:04}" * 100
        if beat.number % self.mark_every == 0:
            self.marks.append((beat.number, _resident(), len(list(Path("/proc/self/fd").iterdir()))))


class Ticker:
    """A task that wants to run every millisecond, and notes how late it was, and what its thread did meanwhile.

    Late by the wall clock also counts what other processes and the thread that writes took; the processor time of the
    loop's own thread between two ticks does not.
    """

    def __init__(self) -> None:
        self.late: list[float] = []
        self.busy: list[float] = []

    async def run(self) -> None:
        while True:
            wanted, before = time.perf_counter() + _TICK, time.thread_time()
            await asyncio.sleep(_TICK)
            self.late.append(time.perf_counter() - wanted)
            self.busy.append(time.thread_time() - before)

    def figures(self) -> dict[str, list[float]]:
        """Median, 99.9th percentile and worst, in ms."""
        return {
            name: [
                value * 1e3 for value in (statistics.median(times), times[int(len(times) * 0.999)], times[-1])
            ]
            for name, times in (("late", sorted(self.late)), ("busy", sorted(self.busy)))
        }


def main() -> int:
    """Run, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.heartbeat", description=__doc__)
    parser.add_argument("--beats", type=int, default=100_000, metavar="N", help="how many beats (100,000)")
    parser.add_argument("--folder", type=Path, help="where the store goes; a temporary folder otherwise")
    parser.add_argument("--json", type=Path, help="where the figures go; bench/results/ by default")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-heartbeat-", dir=chosen.folder) as folder:
        meta = described(quick=False, seed=0, folder=Path(folder), packages=("holdfast", "apsw"))
        results = {"kind": "heartbeat", "meta": meta} | _measured(chosen.beats, Path(folder))
    print("\n\n".join(tables(results)))
    path = chosen.json or _RESULTS / f"heartbeat-{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=1), encoding="utf-8")
    print(f"\nAll figures: {path}")
    return 0


def _measured(beats: int, folder: Path) -> dict[str, Any]:
    agent, ticker, quiet = Heavy(), Ticker(), Ticker()
    agent.mark_every = max(1, beats // 10)
    life, (wall, cpu) = timed(lambda: asyncio.run(_live(agent, beats, folder / "saved.db", ticker)))
    # Shorter: without checkpoints all beats are alike.
    bare_beats = max(1, beats // 10)
    _, (_, bare) = timed(
        lambda: asyncio.run(_live(Heavy(), bare_beats, folder / "bare.db", quiet, enabled=False))
    )
    return {
        "beats": beats,
        "checkpoints": life.checkpoints,
        "state_bytes": life.last.size_bytes,
        "wall_s": wall / 1e9,
        "beat_us": bare / bare_beats / 1e3,
        "checkpoint_ms": (cpu - bare / bare_beats * beats) / life.checkpoints / 1e6,
        "beside_ms": {name: value / 1e6 for name, value in _saves(agent, folder).items()},
        "ticks_ms": {"with checkpoints": ticker.figures(), "without": quiet.figures()},
        "marks": agent.marks,
    }


def tables(results: dict[str, Any]) -> list[str]:
    """What a checkpoint costs, how long the loop was held, and what grew."""
    costs: list[Row] = [
        ("a beat without a checkpoint", f"{results['beat_us'] / 1e3:.3f}"),
        ("a checkpoint", f"{results['checkpoint_ms']:.2f}"),
        *((name, f"{value:.2f}") for name, value in results["beside_ms"].items()),
    ]
    ticks: list[Row] = [
        (name, *(f"{value:.2f}" for part in ("late", "busy") for value in each[part]))
        for name, each in results["ticks_ms"].items()
    ]
    marks: list[Row] = [
        (f"{beat:,}", f"{resident / 2**20:.1f}", f"{files}") for beat, resident, files in results["marks"]
    ]
    return [
        (
            f"### {results['beats']:,} beats, {results['checkpoints']:,} checkpoints of {results['state_bytes']:,} "
            f"bytes, in {results['wall_s']:.0f} s: ms of processor"
        ),
        table(("", "ms"), costs),
        "### A task of 1 ms on the event loop: how late, and what the loop's own thread did meanwhile, ms",
        table(("", "late: median", "99.9 %", "worst", "busy: median", "99.9 %", "worst"), ticks),
        "### On the way",
        table(("beat", "resident MB", "open files"), marks),
    ]


async def _live(
    agent: Heavy, beats: int, path: Path, ticker: Ticker | None = None, *, enabled: bool = True
) -> Any:
    async with holdfast.aopen(path, durability="process") as store:
        gc.collect()
        heartbeat = Heartbeat(
            agent,
            store,
            session="heavy",
            interval=0,
            trigger=holdfast.every(beats=_EVERY),
            keep=holdfast.Keep(at_most=10),
            enabled=enabled,
        )
        ticking = None if ticker is None else asyncio.create_task(ticker.run())
        life = await heartbeat.run(max_beats=beats)
        if ticking is not None:
            ticking.cancel()
        return life


def _saves(agent: Heavy, folder: Path) -> dict[str, float]:
    """What the same change costs without a heartbeat: capture alone, a plain save, and a Document's save."""
    with holdfast.open(folder / "plain.db", durability="process") as store:
        session, lone = store.session("plain", keep=holdfast.Keep(at_most=10)), store.session("lone")
        document = store.session("document", keep=holdfast.Keep(at_most=10)).document(
            default={"pages": list(agent.pages)}
        )
        lone.save(_captured(agent))
        # The figures for one are of a capture that has something to compare with, as all but the first have.
        capture, plain, tracked = [], [], []
        gc.collect()
        for turn in range(60):
            for beat in range(turn * _EVERY, (turn + 1) * _EVERY):
                place = beat * 37 % _PAGES
                agent.pages[place] = f"{beat:06}{place:04}" * 100
                document["pages"][place] = agent.pages[place]
            capture.append(timed(lambda: lone.encode(_captured(agent)))[1][1])
            plain.append(timed(lambda: session.save(_captured(agent)))[1][1])
            tracked.append(timed(document.save)[1][1])
    return {
        "beside it: capture alone": min(capture),
        "beside it: a plain save of the same": statistics.median(plain[5:]),
        "beside it: a Document's save of the same": statistics.median(tracked[5:]),
    }


def _captured(agent: Heavy) -> dict[str, Any]:
    return {name: source_of(part).snapshot() for name, part in agent.parts().items()}


def _resident() -> int:
    with Path("/proc/self/statm").open(encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    sys.exit(main())
