"""A program that changes history, and is killed before its first write to the disk, its second ... until it is done.

    python -m tests.reliability.every_change FOLDER OPERATION

The operation is one of OPERATIONS. Each runs in a process of its own on a copy of the same store. After each kill a new
process looks at what is there: it is the history from before or the one from after, never something between; every
state that is left loads; a gc runs to its end, and everything still loads. Prints how many kills there were, and how
many of them left the new history behind.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.reliability.every_write import Killer, forked, sweep
from tests.reliability.shim import listen

import holdfast
from holdfast import Keep, Store
from holdfast.backends.memory import MemoryBackend
from holdfast.storage.records import Query
from holdfast.store import gc as collecting

History = dict[str, Any]
NEW = 3
"""The status of a process that found the operation done."""


def state(n: int) -> dict[str, Any]:
    """Told from its number; most of it like the one before, so that some are stored as differences."""
    lines = [f"said {each} and {each * 7919 % 1009}" for each in range(n, n + 200)]
    return {"n": n, "log": lines, "noise": random.Random(n // 3).randbytes(6_000)}


def write_master(path: Path) -> None:
    with holdfast.open(path) as store:
        for name in ("agent", "other"):
            session = store.session(name)
            for n in range(10):
                session.save(state(n), step=n)
            session.fork("#4", "side").save(state(50), step=50)
            session.pin("#2")
        # Something for gc to remove and for undo to bring back.
        store.session("agent").prune(Keep(last=6), only=True)


OPERATIONS: dict[str, Callable[[Store], object]] = {
    "gc": lambda store: store.gc(keep_days=0),
    "prune": lambda store: store.session("agent").prune(Keep(at_most=2), only=True),
    "restore": lambda store: store.session("agent").restore("#7"),
    "undo": lambda store: store.session("agent").undo(),
    "delete": lambda store: store.session("agent").delete("#8"),
    "clear": lambda store: store.session("agent").clear(force=True),
    "forget": lambda store: store.forget("agent", "#7", "#8"),
}


def history(store: Store) -> History:
    """All that an operation may change, with every state loaded and checked."""
    seen: History = {}
    for info in store.sessions():
        session = store.session(info.id)
        for branch in session.branches():
            on = store.session(info.id, branch=branch.name)
            log = on.log()
            for checkpoint in log:
                step = checkpoint.step
                if step is None:
                    # A fork or a restore: the state of the one that it was made from.
                    step = on.load(checkpoint)["n"]
                assert on.load(checkpoint) == state(step), checkpoint
            seen[f"{info.id} {branch.name}"] = [(each.seq, each.prev is not None) for each in log]
        with store._backend.reader() as reader:
            rows = reader.checkpoints(Query(session=info.id, include_hidden=True))
            kinds = [each.kind for each in reader.operations(info.id)]
        seen[info.id] = [sorted((row.seq, bool(row.hidden)) for row in rows), kinds]
    return seen


def change(path: Path, killer: Killer, victim: int, operation: str) -> None:
    killer.victim = victim
    # Many short transactions, as in a store of many chunks.
    setattr(collecting, "_STEP", 2)  # noqa: B010 - a constant, but for this program
    with holdfast.open(path) as store:
        OPERATIONS[operation](store)


def write_down(path: Path, to: Path) -> None:
    with holdfast.open(path, durability="process") as store:
        to.write_text(repr(history(store)), encoding="utf-8")


def check(path: Path, before: str, after: str, operation: str, chunks: int) -> None:
    """Old or new; then the operation again, a gc, and a save."""
    with holdfast.open(path, durability="process") as store:
        found = repr(history(store))
        assert found in (before, after), f"neither old nor new:\n{found}\n{before}\n{after}"
        if found == before:
            OPERATIONS[operation](store)
            assert repr(history(store)) == after
        store.gc(keep_days=0)
        assert store.gc(keep_days=0).chunks == 0
        history(store)
        # What a gc that was killed, or that came later, leaves is what one at a time leaves.
        assert store.stats().chunks == chunks, (store.stats().chunks, chunks)
        store.session("other").save(state(99), step=99)
        assert store.session("other").load() == state(99)
    os._exit(NEW if found == after else 0)


def settled(path: Path, operation: str, to: Path) -> None:
    """How many chunks there are once the operation and a gc have run without being killed."""
    with holdfast.open(path, durability="process") as store:
        OPERATIONS[operation](store)
        store.gc(keep_days=0)
        to.write_text(str(store.stats().chunks), encoding="utf-8")


def main(folder: Path, operation: str) -> tuple[int, int]:
    killer = Killer()
    layer = listen(killer)
    # Otherwise each child would import all that it needs.
    with Store(MemoryBackend()) as store:
        store.session("agent").save(state(0))
        store.session("agent").prune(Keep(last=1), only=True)
        store.gc()
        store.session("agent").load()
    master, files = folder / "master.db", [folder / name for name in ("before", "after", "chunks")]
    assert forked(partial(write_master, master)) == 0
    assert forked(partial(write_down, master, files[0])) == 0
    for name, work in (
        ("once.db", partial(change, killer=killer, victim=-1, operation=operation)),
        ("twice.db", None),
    ):
        shutil.copy(master, folder / name)
        if work is not None:
            assert forked(partial(work, folder / name)) == 0
            assert forked(partial(write_down, folder / name, files[1])) == 0
        else:
            assert forked(partial(settled, folder / name, operation, files[2])) == 0
    before, after, chunks = (file.read_text(encoding="utf-8") for file in files)
    assert before != after
    looking = partial(check, before=before, after=after, operation=operation, chunks=int(chunks))
    found = sweep(folder, master, partial(change, operation=operation), looking, killer)
    assert found[-1] == NEW
    del layer
    return len(found) - 1, found[:-1].count(NEW)


if __name__ == "__main__":
    print(*main(Path(sys.argv[1]), sys.argv[2]))
