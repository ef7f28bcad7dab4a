"""SIGKILL at every system call that writes, of one save from opening to closing: whole, or not there at all.

`tests/requirements/test_k11_atomic.py` does the same for the making of a store, from inside of SQLite.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from tests.reliability.every_change import OPERATIONS
from tests.reliability.tracing import count_calls, kill_at
from tests.reliability.witness import SESSION, check_store, in_new_process, save_step

import holdfast

ROOT = Path(__file__).parents[2]
SEED = 2
PARTS = 2
"""The calls are divided among so many tests, which can run at the same time."""
# From opening to closing: closing moves the log into the file, which must not lose anything either.
SAVE = """
import os, sys
import holdfast
from tests.reliability.witness import SESSION, save_step
with holdfast.open(sys.argv[1]) as store:
    saved = save_step(store.session(SESSION), 2, int(sys.argv[2]))
    os.write(1, saved.id.encode())
"""


@pytest.mark.parametrize("part", range(PARTS))
def test_a_save_that_is_killed_at_any_system_call_is_whole_or_absent(memory_folder, require, part):
    require("strace")
    master, path = memory_folder / "master", memory_folder / "victim"
    with holdfast.open(master) as store:
        kept = [save_step(store.session(SESSION), SEED, step).id for step in range(1, 4)]
    shutil.copytree(master, path)
    calls = count_calls(SAVE, str(path), "4", log=memory_folder / "calls")
    # Without these the sweep would not be one: at least the log is written, synced, and said so.
    assert calls["pwrite64"] > 10
    assert calls["fdatasync"] >= 2
    assert calls["write"] == 1
    outcomes = set()
    for name, count in calls.items():
        for number in range(1 + part, count + 1, PARTS):
            shutil.rmtree(path)
            shutil.copytree(master, path)
            killed = kill_at(name, number, SAVE, str(path), "4")
            # strace ends as its victim did, or in a shell's way of saying so.
            assert killed.code in (-9, 137), (name, number, killed)
            acknowledged = [killed.said] if killed.said else []
            in_new_process(partial(check, path / "store.db", kept, acknowledged))
            outcomes.add(bool(acknowledged))
    # Some died before the save was acknowledged and some after it: both sides of the line were tried.
    assert outcomes == {True, False}


@pytest.mark.parametrize(
    ("program", "least"),
    [
        # What is written: a large state; the new store, the log and the file; batches of rows; parts and rows.
        (("every_write", "2", "document"), [20]),
        (("every_repair",), [50, 1]),
        (("every_copy",), [60, 1, 20, 1]),
        (("every_import",), [12, 10, 0]),
        *((("every_change", operation), [9, 1]) for operation in OPERATIONS),
    ],
    ids=lambda value: "-".join(map(str, value)),
)
def test_what_is_killed_before_any_write_leaves_all_or_nothing(memory_folder, program, least):
    """A save, a repair, a copy, an import, and each change of history; the programs say what all or nothing is."""
    name, *arguments = program
    done = subprocess.run(
        [sys.executable, "-m", f"tests.reliability.{name}", str(memory_folder), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    counts = [int(each) for each in done.stdout.split()]
    # Otherwise hardly anything was killed, or all of it before the commit that counts, or all after it.
    assert all(count >= wanted for count, wanted in zip(counts, least, strict=True)), counts
    assert len(counts) < 2 or counts[1] < counts[0]


def check(path, kept, acknowledged):
    """What must be there, and that the next save goes on from it."""
    there = check_store(path, [*kept, *acknowledged])
    assert there[:3] == kept
    assert len(there) <= 4
    with holdfast.open(path) as store:
        saved = save_step(store.session(SESSION), SEED, 5)
    assert check_store(path, [*there, saved.id])[-1] == saved.id
