"""Run the command line, or a Python file, at a moment and with random bytes that are the same each time.

python tools/tour_clock.py CLOCK holdfast ARGUMENTS...
python tools/tour_clock.py CLOCK FILE.py

Ids and ages then are the same in every run, and a page can show them. CLOCK is a file with the time in microseconds.
Time stands still in a run, but for `time.sleep`, which is over at once and counts as five minutes of work.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import runpy
import sys
import time
from itertools import count
from pathlib import Path

A_SLEEP = 5 * 60 * 1_000_000


def stop(clock: Path) -> None:
    """Make this process read the time from `clock`; before holdfast is imported, which takes some of it by name."""
    seeds = count()

    def now() -> int:
        return int(clock.read_text())

    class Still(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Still:
            return cls.fromtimestamp(now() / 1_000_000, tz)

    def sleep(_seconds: float) -> None:
        clock.write_text(str(now() + A_SLEEP))

    def urandom(size: int) -> bytes:
        return hashlib.shake_256(f"{now()} {next(seeds)}".encode()).digest(size)

    stopped = [
        (time, "time", lambda: now() / 1_000_000),
        (time, "time_ns", lambda: now() * 1000),
        (time, "sleep", sleep),
        (dt, "datetime", Still),
        (os, "urandom", urandom),
    ]
    for module, name, instead in stopped:
        setattr(module, name, instead)


def main() -> None:
    """Run what the command line says."""
    clock, program, *arguments = sys.argv[1:]
    stop(Path(clock))
    sys.argv = [program, *arguments]
    if program == "holdfast":
        runpy.run_module("holdfast", run_name="__main__")
    else:
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
