"""A program that copies a store, and is killed before its first write, its second ... until one gets through.

    python -m tests.reliability.every_copy FOLDER

The target has an older copy of one session, and nothing of another: checkpoints come, change, hide and go. Each copy
happens in a process of its own. After each kill a new process looks at the target, which must be a store in order,
and copies again, after which it must be what the source is. Prints how many kills there were, how many of them left
the target as it was, and how many left it finished.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from tests.reliability.every_write import Killer, forked, sweep
from tests.reliability.shim import listen

import holdfast
import holdfast.backends.sqlite.commit
from holdfast.backends.memory import MemoryBackend
from holdfast.store import copy as copying
from holdfast.testing.rows import contents

AS_IT_WAS, BETWEEN, FINISHED = 3, 4, 5
"""The status of a process that looked at the target before it copied again."""


def prepare(source: Path, target: Path) -> None:
    """A source, and a target that was copied from it some time ago."""
    with holdfast.open(source) as store:
        session = store.session("agent", agent="scout")
        for step in range(6):
            session.save({"step": step, "noise": os.urandom(300)}, key=f"{step}", tags=["t"] * (step % 2))
        session.delete("#2")
        store.copy_to(target)
        session.undo()
        session.tag("#4", "golden")
        session.delete("#6")
        session.fork("#4", "idea").save({"idea": os.urandom(300)})
        session.delete("#3", force=True)
        store.gc(keep_days=0)
        session.delete("#5")
        store.session("other").save({"large": [os.urandom(300) for _ in range(20)]})
        for step in range(3):
            session.save({"more": step, "noise": os.urandom(300)}, key=f"more {step}")


def told(store: holdfast.Store) -> object:
    seen = contents(store._backend)
    rows = sorted((row._replace(position=0) for row in seen.checkpoints), key=lambda r: (r.session, r.seq))
    return list(seen.sessions), list(seen.branches), rows, list(seen.operations)


def copy(source: Path, target: Path, killer: Killer, victim: int) -> None:
    with holdfast.open(source, create=False) as store, holdfast.open(target, create=False) as other:
        killer.victim = victim
        store.copy_to(other)


def check(target: Path, source: Path, before: Path) -> None:
    """Whatever is there is in order; and the same copy finishes."""
    with (
        holdfast.open(source) as store,
        holdfast.open(target, durability="process") as other,
        holdfast.open(before) as older,
    ):
        found = other.verify()
        assert found.ok, found
        seen = told(other)
        status = FINISHED if seen == told(store) else AS_IT_WAS if seen == told(older) else BETWEEN
        for checkpoint in other.find():
            other.session(checkpoint.session).load(checkpoint.id)
        store.copy_to(other)
        assert told(other) == told(store)
        assert other.verify().ok
        assert {each.status for each in store.copy_to(other).sessions} == {"unchanged"}
    os._exit(status)


def main(folder: Path) -> tuple[int, ...]:
    # Many small batches: each is a place to be interrupted at.
    copying._ROWS, copying._BYTES, copying._READ_AT_ONCE = 2, 1000, 2  # type: ignore[misc]
    killer = Killer()
    layer = listen(killer)
    # Otherwise each child would import all that it needs.
    with holdfast.Store(MemoryBackend()) as store:
        store.session("warm").save({"a": list(range(1000))})
        store.copy_to(holdfast.Store(MemoryBackend()))
        store.verify()
    source, before = folder / "source.db", folder / "before.db"
    assert forked(partial(prepare, source, before)) == 0
    found = sweep(folder, before, partial(copy, source), partial(check, source=source, before=before), killer)
    assert found.pop() == FINISHED
    del layer
    return len(found), *(found.count(each) for each in (AS_IT_WAS, BETWEEN, FINISHED))


if __name__ == "__main__":
    print(*main(Path(sys.argv[1])))
