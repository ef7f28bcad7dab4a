"""Ctrl-C at any moment of saves and loads: the store stays whole, and the Session works on or says so once.

A program saves and loads as fast as it can, and its parent interrupts it at random. Each interrupt is an exception
in the middle of a call. Afterwards the next call works, or raises ConflictError once; nothing that a save
returned is ever missing.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time

import pytest

import holdfast

INTERRUPTS = 200

PROGRAM = """
import signal
import sys
import holdfast

inside = False


def interrupt(*_):
    # Between two calls nothing is at stake, and the loop below need not defend itself.
    if inside:
        raise KeyboardInterrupt


signal.signal(signal.SIGINT, interrupt)
store = holdfast.open(sys.argv[1], durability="process")
session = store.session("s")
session.save({"n": 0, "log": []}, step=0)
newest, conflicts, interrupts, n = 0, 0, 0, 0
print("ready", flush=True)
while interrupts < int(sys.argv[2]):
    n += 1
    state = {"n": n, "log": [f"entry {n} {number}" for number in range(40)]}
    try:
        inside = True
        if n % 3:
            saved = session.save(state, step=n)
            inside = False
            newest, conflicts = saved.step, 0
        else:
            loaded = session.load()
            inside = False
            # What was saved last, or what an interrupted save wrote after it.
            assert loaded["n"] >= newest, (loaded["n"], newest)
            newest = loaded["n"]
    except KeyboardInterrupt:
        inside = False
        interrupts += 1
    except holdfast.ConflictError:
        inside = False
        conflicts += 1
        assert conflicts == 1, "a second conflict in a row, and nobody else writes"
        session.load()
signal.signal(signal.SIGINT, signal.SIG_IGN)
store.close()
print("done", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGINT")
def test_two_hundred_interrupts_in_saves_and_loads_leave_the_store_whole(tmp_path):
    path = tmp_path / "store"
    chance = random.Random(7)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(path), str(INTERRUPTS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        while program.poll() is None:
            # Only how far the program has come depends on this, not whether it passes.
            time.sleep(chance.uniform(0.0005, 0.01))
            program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=60)
    assert program.returncode == 0, errors
    with holdfast.open(path) as store:
        assert store.verify().ok
        log = store.session("s").log()
        assert [each.seq for each in log] == list(range(len(log), 0, -1))
        assert len(log) > 1
        assert store.session("s").load()["n"] == log[0].step
