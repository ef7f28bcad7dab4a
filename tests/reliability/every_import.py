"""A program that imports an archive, and is killed before its first write, its second ... until one gets through.

    python -m tests.reliability.every_import FOLDER

Each import happens in a process of its own. After each kill a new process looks at the store: of each session all that
the archive has is there or nothing is, what was there before is as it was, and the same import finishes. Prints how
many kills there were, how many of them left the store as it was, and how many left it finished.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from tests.reliability.every_write import Killer, forked, sweep
from tests.reliability.shim import listen

import holdfast
from holdfast.store.archive import import_
from holdfast.store.session import Session

AS_IT_WAS, BETWEEN, FINISHED = 3, 4, 5


def work(session: Session, *, more: bool) -> None:
    """The same history twice, and then what only the archive has."""
    for step in range(8 if more else 3):
        session.save({"step": step, "noise": os.urandom(400)}, key=f"{step}", tags=["t"] * (step % 2))
    if more:
        session.fork("#5", "idea").save({"idea": os.urandom(400)})


def prepare(archive: Path, before: Path) -> None:
    with holdfast.open("memory:") as source:
        work(source.session("new"), more=True)
        source.session("new").export(path=archive / "new.jsonl", session=True)
        work(source.session("known"), more=True)
        # Without the first: what is there comes from something that is still to come.
        source.session("known").export(["#2", "#3"], archive.parent / "first.jsonl")
        source.session("known").export(path=archive / "known.jsonl", session=True)
    with holdfast.open(before) as store:
        store.import_(archive.parent / "first.jsonl")
        store.session("mine").save({"mine": 1})


def seen(store: holdfast.Store, name: str) -> tuple[list[str], dict[str, str]]:
    session = store.session(name)
    return sorted(each.id for each in store.find(session=name)), {
        each.name: each.head.id for each in (session.branches() if store.find(session=name) else [])
    }


def bring(archive: Path, target: Path, killer: Killer, victim: int) -> None:
    with holdfast.open(target, create=False) as store:
        killer.victim = victim
        store.import_(archive)


def check(target: Path, archive: Path, before: Path) -> None:
    with holdfast.open(target, durability="process") as store, holdfast.open(before) as older:
        found = store.verify()
        assert found.ok, found
        finished = 0
        for name in ("new", "known"):
            ids, heads = seen(store, name)
            was = seen(older, name)
            assert len(ids) == 10 or (ids, heads) == was, (name, len(ids), heads)
            assert heads.items() >= was[1].items(), heads
            finished += len(ids) == 10
        for checkpoint in store.find():
            store.session(checkpoint.session).load(checkpoint.id)
        store.import_(archive)
        assert [len(seen(store, name)[0]) for name in ("new", "known")] == [10, 10]
        assert set(seen(store, "known")[1]) == {"main", "main-1", "idea"}
        assert store.import_(archive).checkpoints == 0
        assert store.verify().ok
    os._exit((AS_IT_WAS, BETWEEN, FINISHED)[finished])


def main(folder: Path) -> tuple[int, int, int]:
    # Chunks go ahead in small parts: each is a place to be killed at.
    import_._AT_ONCE = import_._PART = 3000  # type: ignore[misc]
    killer = Killer()
    layer = listen(killer)
    # Otherwise each child would import all that it needs.
    with holdfast.open("memory:") as store:
        work(store.session("warm"), more=True)
        store.session("warm").export(path=folder / "warm.jsonl", session=True)
        store.import_(folder / "warm.jsonl")
        store.verify()
    archive, before = folder / "archive", folder / "before.db"
    archive.mkdir()
    assert forked(partial(prepare, archive, before)) == 0
    found = sweep(
        folder, before, partial(bring, archive), partial(check, archive=archive, before=before), killer
    )
    assert found.pop() == FINISHED
    del layer
    return len(found), found.count(AS_IT_WAS), found.count(FINISHED)


if __name__ == "__main__":
    print(*main(Path(sys.argv[1])))
