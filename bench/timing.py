"""Timing: wall and processor time of one call, and what to say about many of them.

Machines are noisy, so nothing is said about a single call: medians, and the processor time beside the wall time, which
tells waiting for the disk or for others from working.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Sample = tuple[int, int]
"""Nanoseconds of wall time and of processor time."""


def timed(call: Callable[[], Any]) -> tuple[Any, Sample]:
    """What `call` gave, and how long it took."""
    cpu, wall = time.process_time_ns(), time.perf_counter_ns()
    result = call()
    wall, cpu = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
    return result, (wall, cpu)


def summary(samples: list[Sample]) -> dict[str, Any]:
    """Milliseconds: median, 90th percentile and mean, of the wall and of the processor."""
    wall, cpu = zip(*samples, strict=True)
    return {"count": len(samples), "wall": _figures(wall), "cpu": _figures(cpu)}


def _figures(values: tuple[int, ...]) -> dict[str, float]:
    ordered = sorted(values)
    tenth = ordered[min(len(ordered) - 1, int(len(ordered) * 0.9))]
    return {
        "median": statistics.median(ordered) / 1e6,
        "p90": tenth / 1e6,
        "mean": statistics.fmean(ordered) / 1e6,
    }


def sync_cost(folder: Path, rounds: int = 50) -> dict[str, Any]:
    """What this disk asks for one small write and one fsync: the least that a durable save can take."""
    file = folder / "sync-cost"
    samples = []
    with file.open("wb", buffering=0) as opened:
        for _ in range(rounds):
            opened.write(bytes(4096))
            samples.append(timed(lambda: os.fsync(opened.fileno()))[1])
    file.unlink()
    return summary(samples)
