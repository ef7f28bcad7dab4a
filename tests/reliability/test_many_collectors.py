"""Many processes with `keep=` in one store: whoever begins to collect gets to the end, and what is not kept goes.

Each collection opens an epoch, and only the newest removes anything. Were each process to begin one whenever it had
removed enough, the newest would always be younger than the time that it takes to look through the store.
"""

from __future__ import annotations

import os
import sys
import traceback

import pytest

import holdfast
from holdfast import Keep
from holdfast.store import collecting, upkeep

PROCESSES = 8
SAVES = 150
KEPT = 3


def work(path, name):
    """Save again and again; the most chunks that were in the store at any time."""
    most = 0
    with holdfast.open(path) as store:
        session = store.session(name, keep=Keep(at_most=KEPT))
        for n in range(SAVES):
            session.save({"n": n, "lines": [f"{name} {n} {line * 7919 % 100_003}" for line in range(300)]})
            most = max(most, store.stats().chunks)
    return most


def start(path, name, gate, told):
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.read(gate, 1)
        os.write(told, b"%6d\n" % work(path, name))
        status = 0
    except BaseException:
        traceback.print_exc(file=sys.stderr)
    finally:
        os._exit(status)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_what_many_processes_do_not_keep_goes(tmp_path, monkeypatch):
    # As a large store would be: many steps from the beginning of a collection to its end.
    monkeypatch.setattr(upkeep, "_WORTH_COLLECTING", 8)
    monkeypatch.setattr(collecting, "_STEP", 8)
    monkeypatch.setattr(upkeep, "_LINGERING", 4)
    path = tmp_path / "s.hf"
    holdfast.open(path).close()
    gate, opened = os.pipe()
    heard, told = os.pipe()
    children = [start(path, f"s{n}", gate, told) for n in range(PROCESSES)]
    # All of them begin when all are there.
    os.write(opened, b"x" * PROCESSES)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * PROCESSES
    most = max(map(int, os.read(heard, 4096).split()))
    for each in (gate, opened, heard, told):
        os.close(each)

    with holdfast.open(path) as store:
        assert len(store.find()) == PROCESSES * KEPT
        store.gc(keep_days=0)
        needed = store.stats().chunks
        written = needed * SAVES // KEPT
        # Where nobody gets to the end, most of what was written is there until the others are done.
        assert most < written / 2, f"{most} of about {written} chunks were there, and {needed} are needed"
        assert store.verify().ok
