"""A heartbeat of 100,000 beats with a megabyte of state: `python -m bench.heartbeat [--beats N]`.

Each beat changes one page of a thousand, and every 50 beats are saved. What is looked at: memory and open files on the
way, what a checkpoint costs beside a plain save and a Document's save of the same change, and how long the event loop
was ever held, seen by a task that wants to run every millisecond, beside what a capture alone takes. About a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import holdfast
from bench.timing import timed
from holdfast.agents import Beat, Heartbeat, HeartbeatAgent

_PAGES = 1000
_EVERY = 50
_TICK = 0.001


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

    def told(self) -> str:
        """Median, 99.9th percentile and worst, in ms."""
        return "".join(
            f"{value * 1e3:>10.2f}"
            for times in (sorted(self.late), sorted(self.busy))
            for value in (statistics.median(times), times[int(len(times) * 0.999)], times[-1])
        )


def main() -> int:
    """Run, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.heartbeat", description=__doc__)
    parser.add_argument("--beats", type=int, default=100_000, metavar="N", help="how many beats (100,000)")
    parser.add_argument("--folder", type=Path, help="where the store goes; a temporary folder otherwise")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-heartbeat-", dir=chosen.folder) as folder:
        _report(chosen.beats, Path(folder))
    return 0


def _report(beats: int, folder: Path) -> None:
    agent, ticker, quiet = Heavy(), Ticker(), Ticker()
    agent.mark_every = max(1, beats // 10)
    life, (wall, cpu) = timed(lambda: asyncio.run(_live(agent, beats, folder / "saved.db", ticker)))
    # Shorter: without checkpoints all beats are alike.
    bare_beats = max(1, beats // 10)
    _, (_, bare) = timed(
        lambda: asyncio.run(_live(Heavy(), bare_beats, folder / "bare.db", quiet, enabled=False))
    )
    each = (cpu - bare / bare_beats * beats) / life.checkpoints
    print(f"{'beats':52}{beats:>12,}")
    print(f"{'checkpoints':52}{life.checkpoints:>12,}")
    print(f"{'size of the state, bytes':52}{life.last.size_bytes:>12,}")
    print(f"{'a beat without a checkpoint, us of processor':52}{bare / bare_beats / 1e3:>12.1f}")
    print(f"{'a checkpoint, ms of processor':52}{each / 1e6:>12.2f}")
    for name, value in _saves(agent, folder).items():
        print(f"{name:52}{value / 1e6:>12.2f}")
    print(f"{'wall, s':52}{wall / 1e9:>12.1f}")
    print("\nevent loop, a tick of 1 ms        late by, ms                  its own thread busy, ms")
    print(f"{'':24}{'median':>10}{'99.9 %':>10}{'worst':>10}{'median':>10}{'99.9 %':>10}{'worst':>10}")
    print(f"{'with checkpoints':24}{ticker.told()}")
    print(f"{'without':24}{quiet.told()}")
    print("\nbeat          resident MB    open files")
    for number, resident, files in agent.marks:
        print(f"{number:<14,}{resident / 2**20:>11.1f}{files:>14}")


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
        "  beside it: capture alone, ms": min(capture),
        "  beside it: a plain save of the same, ms": statistics.median(plain[5:]),
        "  beside it: a Document's save of the same, ms": statistics.median(tracked[5:]),
    }


def _captured(agent: Heavy) -> dict[str, Any]:
    return {name: part.snapshot() for name, part in agent.parts().items()}


def _resident() -> int:
    with Path("/proc/self/statm").open(encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    sys.exit(main())
