"""Many processes with `keep=` in one store: whoever begins to collect gets to the end, and what is not kept goes.

Each collection opens an epoch, and only the newest removes anything. Were each process to begin one whenever it had
removed enough, the newest would always be younger than the time that it takes to look through the store.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import traceback
from collections import Counter

import pytest

import holdfast
from holdfast import Keep
from holdfast.store import gc as collecting
from holdfast.store import keep as upkeep

PROCESSES = 8
SAVES = 150
KEPT = 3
PATIENCE = 300.0


class Ends:
    """Collects as `collecting` does, and counts how that ends; each process has a copy."""

    def __init__(self):
        self.seen: Counter[str] = Counter()

    def __call__(self, *args, **options):
        for swept in collecting.collecting(*args, **options):
            if swept.done:
                self.seen["overtaken" if swept.superseded else "done"] += 1
            yield swept


def work(path, name, together):
    """Save again and again; the most chunks that were in the store at any time."""
    most = 0
    with holdfast.open(path) as store:
        session = store.session(name, keep=Keep(at_most=KEPT))
        for n in range(SAVES):
            # Nobody is more than one save ahead: whoever collects may be held up, and there would be more each time.
            together.wait(PATIENCE)
            session.save({"n": n, "lines": [f"{name} {n} {line * 7919 % 100_003}" for line in range(300)]})
            most = max(most, store.stats().chunks)
    return most


def start(path, name, together, ends, told):
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        most = work(path, name, together)
        os.write(told, b"%6d %6d %6d\n" % (most, ends.seen["done"], ends.seen["overtaken"]))
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
    ends = Ends()
    monkeypatch.setattr(upkeep, "collecting", ends)
    path = tmp_path / "s.hf"
    holdfast.open(path).close()
    together = multiprocessing.get_context("fork").Barrier(PROCESSES)
    heard, told = os.pipe()
    children = [start(path, f"s{n}", together, ends, told) for n in range(PROCESSES)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * PROCESSES
    mosts, done, overtaken = zip(
        *(map(int, line.split()) for line in os.read(heard, 4096).splitlines()), strict=True
    )
    for each in (heard, told):
        os.close(each)

    with holdfast.open(path) as store:
        assert len(store.find()) == PROCESSES * KEPT
        store.gc(keep_days=0)
        needed = store.stats().chunks
        written = needed * SAVES // KEPT
        assert (sum(done) > 2, sum(overtaken)) == (True, 0), f"done: {done}, overtaken: {overtaken}"
        most = max(mosts)
        # Where nobody gets to the end, most of what was written is there until the others are done.
        assert most < written / 2, f"{most} of about {written} chunks were there, and {needed} are needed"
        assert store.verify().ok
