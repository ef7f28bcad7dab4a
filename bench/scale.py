"""What operations on history cost in a store with many checkpoints: `python -m bench.scale`.

Two stores with the same kind of rows, one with 1,000 checkpoints and one with 100,000, are asked the same questions in
turns; the ratio says whether the size of the store matters. Then gc looks through a store with 100,000 chunks while
another connection keeps saving: how much memory it takes, and how long those saves wait.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import holdfast
from bench.timing import summary, timed

_FEW, _MANY = 1_000, 100_000
_SESSIONS = 20
_TURNS = 31


def main() -> int:
    """Run, and print a table and JSON."""
    if sys.argv[1:2] == ["gc"]:
        print(json.dumps(_collect(Path(sys.argv[2]))))
        return 0
    with tempfile.TemporaryDirectory(prefix="holdfast-scale-") as folder:
        stores = {count: _filled(Path(folder) / str(count), count) for count in (_FEW, _MANY)}
        print(f"{'operation':44}{'1,000':>12}{'100,000':>12}{'ratio':>8}   (ms, median wall)")
        for name, few, many in _questions(stores):
            print(f"{name:44}{few:12.3f}{many:12.3f}{many / few:8.2f}")
        for store in stores.values():
            store.close()
        target = Path(folder) / "chunks"
        _fill_chunks(target, _MANY)
        # In a process of its own: its peak memory is that of gc alone.
        report = subprocess.run(
            [sys.executable, "-m", "bench.scale", "gc", str(target)],
            check=True,
            capture_output=True,
            text=True,
        )
        for name, value in json.loads(report.stdout).items():
            print(f"{name:44}{value}")
    return 0


def _filled(folder: Path, count: int) -> holdfast.Store:
    store = holdfast.open(folder, durability="process")
    sessions = [
        store.session(f"session-{n}", agent=f"agent-{n % 5}", project="scale") for n in range(_SESSIONS)
    ]
    for number in range(count):
        sessions[number % _SESSIONS].save(
            {"n": number},
            f"step {number}",
            step=number,
            tags=["rare"] if number % 997 == 0 else [],
            status="failed" if number % 50 == 0 else "running",
            metadata={"model": f"m{number % 7}"},
        )
    return store


def _questions(stores: dict[int, holdfast.Store]) -> list[tuple[str, float, float]]:
    numbers = iter(range(10**9))

    def tag(store: holdfast.Store) -> object:
        return store.session("session-3").tag("@", f"t{next(numbers)}")

    def fork(store: holdfast.Store) -> object:
        return store.session("session-4").fork("@~5", f"b{next(numbers)}")

    def undo(store: holdfast.Store) -> object:
        return store.session("session-3").undo()

    asked: dict[str, Callable[[holdfast.Store], object]] = {
        "the newest 50 of the store": lambda store: store.find(limit=50),
        "the newest 50 of a session": lambda store: store.find(session="session-3", limit=50),
        "the next 50": lambda store: store.find(
            session="session-3", before=store.session("session-3").checkpoint("@~45"), limit=50
        ),
        "log of 50": lambda store: store.session("session-3").log(limit=50),
        "50 of an agent": lambda store: store.find(agent="agent-2", limit=50),
        "50 that failed": lambda store: store.find(status="failed", limit=20),
        "by tag": lambda store: store.find(tag="rare", limit=1),
        "by id": lambda store: store.session("session-3").checkpoint("@~20"),
        "tag": tag,
        "undo of the tag": undo,
        "fork": fork,
    }
    results = []
    for name, ask in asked.items():
        samples: dict[int, list[Any]] = {count: [] for count in stores}
        for _ in range(_TURNS):
            for count, store in stores.items():
                samples[count].append(timed(lambda: ask(store))[1])  # noqa: B023 - called at once
        few, many = (summary(samples[count])["wall"]["median"] for count in (_FEW, _MANY))
        results.append((name, few, many))
    return results


def _fill_chunks(folder: Path, count: int) -> None:
    """A store with so many chunks: states of one chunk each, all different."""
    with holdfast.open(folder, durability="process") as store:
        s = store.session("s")
        for number in range(count):
            s.save({"n": number, "text": os.urandom(32).hex() * 8})


def _collect(folder: Path) -> dict[str, Any]:
    waits: list[float] = []
    stop = threading.Event()
    with holdfast.open(folder, durability="process") as store:
        s = store.session("s")
        s.prune(holdfast.Keep(hourly=1, last=_MANY // 2), only=True)

        def write() -> None:
            other = store.session("other")
            number = 0
            while not stop.is_set():
                began = time.perf_counter()
                other.save({"n": number, "x": "y" * 2000})
                waits.append(time.perf_counter() - began)
                number += 1
                time.sleep(0.002)

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        writer = threading.Thread(target=write)
        writer.start()
        began = time.perf_counter()
        report = store.gc(keep_days=0)
        took = time.perf_counter() - began
        stop.set()
        writer.join()
        waits.sort()
        return {
            "gc: chunks removed": report.chunks,
            "gc: seconds": round(took, 2),
            "gc: peak memory beyond the start (MB)": round(
                (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, 1
            ),
            "gc: saves beside it": len(waits),
            "gc: median save beside it (ms)": round(waits[len(waits) // 2] * 1e3, 3),
            "gc: slowest save beside it (ms)": round(waits[-1] * 1e3, 1),
        }


if __name__ == "__main__":
    raise SystemExit(main())
