"""A program that imports an archive, and is killed before its first write, its second ... until one gets through.

    python -m tests.reliability.every_import FOLDER

Each import happens in a process of its own. After each kill a new process looks at the store: of each session all that
the archive has is there or nothing is, what was there before is as it was, and the same import finishes. Then the same
once more with an import whose last session cannot be written, which takes back what it wrote before. Prints, for both,
how many kills there were, how many of them left the store as it was, and how many left it finished.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path

import holdfast.store.archive.importing
from holdfast.store.archives import bringing
from tests.reliability.every_write import Killer, forked
from tests.reliability.shim import listen

import holdfast
from holdfast.store.session import Session
from holdfast.testing.faults import io_failed

AS_IT_WAS, FINISHED = 3, 4


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


def bring(archive: Path, target: Path, killer: Killer, victim: int, *, failing: bool) -> None:
    write = bringing.Delivery._write

    def fail_at_last(delivery: bringing.Delivery) -> None:
        if delivery.plan.told.id == "new":
            raise io_failed()
        write(delivery)

    if failing:
        bringing.Delivery._write = fail_at_last  # type: ignore[method-assign, assignment]
        # What goes ahead was killed at before.
        bringing._AT_ONCE = 1 << 20  # type: ignore[misc]
    with holdfast.open(target, create=False) as store:
        killer.victim = victim
        with suppress(holdfast.BackendError) if failing else nullcontext():
            store.import_(archive)


def check(archive: Path, target: Path, before: Path) -> None:
    with holdfast.open(target, durability="process") as store, holdfast.open(before) as older:
        found = store.verify()
        assert found.ok, found
        finished = []
        for name, whole in (("new", 9 + 1), ("known", 9 + 1)):
            ids, heads = seen(store, name)
            was = seen(older, name)
            assert len(ids) == whole or (ids, heads) == was, (name, len(ids), heads)
            assert heads.items() >= was[1].items(), heads
            finished.append(len(ids) == whole)
        for checkpoint in store.find():
            store.session(checkpoint.session).load(checkpoint.id)
        store.import_(archive)
        assert [len(seen(store, name)[0]) for name in ("new", "known")] == [10, 10]
        assert set(seen(store, "known")[1]) == {"main", "main-1", "idea"}
        assert store.import_(archive).checkpoints == 0
        assert store.verify().ok
    os._exit(FINISHED if all(finished) else AS_IT_WAS)


def main(folder: Path) -> list[tuple[int, int, int]]:
    # Chunks go ahead in small parts: each is a place to be killed at.
    bringing._AT_ONCE = bringing._PART = 3000  # type: ignore[misc]
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
    kills = [
        kill_each(folder / name, archive, before, killer, failing=failing)
        for name, failing in (("whole", False), ("failing", True))
    ]
    del layer
    return kills


def kill_each(
    folder: Path, archive: Path, before: Path, killer: Killer, *, failing: bool
) -> tuple[int, int, int]:
    found: list[int] = []
    while True:
        target = folder / str(len(found)) / "store.db"
        target.parent.mkdir(parents=True)
        shutil.copy(before, target)
        # Of one that fails every third write will do: all but the way back is the same.
        victim = (3 if failing else 1) * len(found) + 1
        ended = forked(partial(bring, archive, target, killer, victim, failing=failing))
        assert ended in (0, -signal.SIGKILL), ended
        status = forked(partial(check, archive, target, before))
        assert status in (AS_IT_WAS, FINISHED), f"killed before write {victim}: {status}"
        shutil.rmtree(target.parent)
        if ended == 0:
            assert status == (AS_IT_WAS if failing else FINISHED), status
            return len(found), found.count(AS_IT_WAS), found.count(FINISHED)
        found.append(status)


if __name__ == "__main__":
    for kills in main(Path(sys.argv[1])):
        print(*kills)
