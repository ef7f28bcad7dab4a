"""A program that saves while everything it does to its files is written down.

    python -m tests.reliability.recording STORE DURABILITY SEED EVENTS

The story is a list of events in order: what SQLite did to which file, and `ack` when a save had returned. It ends up in
the file EVENTS, from which `powercut.py` works out what a disk could look like after the power went at any point.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import ormsgpack
from tests.reliability.shim import listen
from tests.reliability.witness import SESSION, save_step

import holdfast

ROUNDS, SAVES = 5, 6


def record(path: Path, durability: Any, seed: int) -> list[Any]:
    """Open, save, close, and again: closing moves the log into the file, as a long run does in between."""
    events: list[Any] = []

    def note(what: str, file: str, details: Any) -> None:
        events.append([what, os.path.basename(file), details])

    layer = listen(note)
    step = 0
    for _ in range(ROUNDS):
        with holdfast.open(path, durability=durability) as store:
            session = store.session(SESSION)
            for _ in range(SAVES):
                step += 1
                events.append(["ack", save_step(session, seed, step).id, None])
    del layer
    return events


if __name__ == "__main__":
    where, how, seed, target = sys.argv[1:]
    Path(target).write_bytes(ormsgpack.packb(record(Path(where), how, int(seed))))
