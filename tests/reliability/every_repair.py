"""A program that repairs a damaged store, and is killed before its first write, its second ... until one gets through.

    python -m tests.reliability.every_repair FOLDER

Each repair happens in a process of its own. After each kill a new process finds the damaged store or the repaired one,
and repairs it if need be. Prints how many kills there were, and after how many of them it was repaired already.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import apsw
from tests.reliability.every_write import Killer, forked, sweep
from tests.reliability.shim import listen

import holdfast
import holdfast.backends.sqlite.repair
import holdfast.store.repair
from holdfast.backends.memory import MemoryBackend

SAVES, LOST = 6, 3
REPAIRED = 3
"""The status of a process that found the store repaired."""


def prepare(path: Path) -> None:
    """A store that has lost the state of one checkpoint; all of it in the file."""
    with holdfast.open(path) as store:
        for step in range(SAVES):
            store.session("agent").save({"step": step, "noise": os.urandom(700)}, step=step)
        root = bytes.fromhex(store.session("agent").checkpoint(f"#{LOST + 1}").root)
    connection = apsw.Connection(str(path), vfs="cksmvfs")
    connection.execute("UPDATE chunks SET data = x'00' WHERE hash = ?", (root,)).fetchall()
    connection.close()


def repair(path: Path, killer: Killer, victim: int) -> None:
    killer.victim = victim
    with holdfast.open(path) as store:
        assert store.repair().needed


def check(path: Path) -> None:
    """The old store or the new one, never a mix of both; and the next repair and the next save work."""
    with holdfast.open(path, durability="process") as store:
        found = store.verify()
        steps = [each.step for each in store.session("agent").log()]
        whole = [step for step in reversed(range(SAVES)) if step != LOST]
        if found.ok:
            assert steps == whole, steps
        else:
            assert [each.seq for each in found.damaged] == [LOST + 1], found
            assert steps == [*reversed(range(SAVES))], steps
            store.repair()
        assert [each.step for each in store.session("agent").log()] == whole
        assert all(store.session("agent").load(f"#{step + 1}")["step"] == step for step in whole)
        store.session("agent").save({"on": "we go"})
        assert store.verify().ok
    if found.ok:
        os._exit(REPAIRED)


def main(folder: Path) -> tuple[int, int]:
    killer = Killer()
    layer = listen(killer)
    # Otherwise each child would import all that it needs.
    with holdfast.Store(MemoryBackend()) as store:
        store.session("warm").save({"a": list(range(1000))})
        store.session("warm").load()
        store.verify()
    master = folder / "master.db"
    assert forked(partial(prepare, master)) == 0
    found = sweep(folder, master, repair, check, killer)
    assert found[-1] == REPAIRED
    del layer
    return len(found) - 1, found[:-1].count(REPAIRED)


if __name__ == "__main__":
    print(*main(Path(sys.argv[1])))
