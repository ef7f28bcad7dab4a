"""A program that saves, and is killed before its first write to the disk, its second ... until a save gets through.

    python -m tests.reliability.every_write FOLDER EXISTING [KIND]

Each save happens in a process of its own, on a store with EXISTING checkpoints (0: on no store at all). After each
kill a new process reads everything back. KIND is one of KINDS: what is saved, and how. Prints how many kills
there were.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.reliability.large_states import change, state_at
from tests.reliability.shim import listen

import holdfast
import holdfast.backends.sqlite
from holdfast.backends.memory import MemoryBackend

STATE = {"plan": ["look", "think", "act"] * 50, "noise": bytes(os.urandom(30_000))}
_LAST = 4
"""The step of the save that is killed; those before are of steps 0, 1 ..."""


SAVED = 3
"""The status of a process that found one checkpoint more than there were."""
KINDS = ("small", "large", "document")


def state_of(kind: str, step: int) -> Any:
    """The state of a checkpoint by its step; `small` ones end with one that is unlike the others."""
    if kind != "small":
        return state_at(step)
    return STATE if step == _LAST else {"step": step}


class Killer:
    """Counts the writes of this process, and ends it before the one that was chosen."""

    def __init__(self) -> None:
        self.writes = 0
        self.victim: int | None = None

    def __call__(self, what: str, file: str, details: object) -> None:
        del file, details
        self.writes += what != "open"
        if self.writes == self.victim:
            os.kill(os.getpid(), signal.SIGKILL)


def forked(work: Callable[[], None]) -> int:
    """Run `work` in a process of its own; how that ended."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def prepare(path: Path, existing: int, kind: str) -> None:
    with holdfast.open(path) as store:
        for step in range(existing):
            store.session("agent").save(state_of(kind, step), message="before", step=step)


def save(path: Path, killer: Killer, victim: int, kind: str) -> None:
    killer.victim = victim
    with holdfast.open(path) as store:
        session = store.session("agent")
        if kind == "document":
            document = session.document()
            for step in range(document["step"] + 1, _LAST + 1):
                change(document, step)
            document.save("whole", step=_LAST)
        else:
            session.save(state_of(kind, _LAST), message="whole", step=_LAST)


def check(path: Path, existing: int, kind: str) -> None:
    """As many checkpoints as before, or one more, each of them whole; and the next save works."""
    with holdfast.open(path, durability="process") as store:
        session = store.session("agent")
        log = session.log()
        assert len(log) in (existing, existing + 1), log
        assert store.stats().checkpoints == len(log)
        for checkpoint in log:
            assert checkpoint.step is not None
            assert (checkpoint.message == "whole") == (checkpoint.step == _LAST)
            assert session.load(checkpoint) == state_of(kind, checkpoint.step), checkpoint
        assert store.verify().ok
        session.save(STATE)
        assert session.load() == STATE
    os._exit(SAVED if len(log) > existing else 0)


def sweep(
    folder: Path,
    master: Path,
    work: Callable[[Path, Killer, int], None],
    check: Callable[[Path], None],
    killer: Killer,
) -> list[int]:
    """Kill `work` before its first write, its second ... until it gets through; how `check` ended after each.

    Both run in a process of its own, on a copy of the master if there is one. The last of the answers is that after the
    work that got through. What a check ends with says what it found; 1 is a failure.
    """
    found: list[int] = []
    while True:
        path = folder / str(len(found)) / "store.db"
        path.parent.mkdir()
        if master.exists():
            shutil.copy(master, path)
        ended = forked(partial(work, path, killer, len(found) + 1))
        assert ended in (0, -signal.SIGKILL), ended
        found.append(forked(partial(check, path)))
        assert found[-1] != 1, f"killed before write {len(found)}"
        shutil.rmtree(path.parent)
        if ended == 0:
            return found


def main(folder: Path, existing: int, kind: str) -> int:
    killer = Killer()
    layer = listen(killer)
    # Otherwise each child would import all that a save needs.
    with holdfast.Store(MemoryBackend()) as store:
        store.session("warm").save(STATE)
        store.session("warm").load()
    master = folder / "master.db"
    if existing:
        assert forked(partial(prepare, master, existing, kind)) == 0
    # Made once, and known to each child: most of the time would go into them.
    for step in (*range(existing), _LAST):
        state_of(kind, step)
    found = sweep(
        folder, master, partial(save, kind=kind), partial(check, existing=existing, kind=kind), killer
    )
    assert found[-1] == SAVED
    del layer
    return len(found) - 1


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), int(sys.argv[2]), *(sys.argv[3:] or KINDS[:1])))
