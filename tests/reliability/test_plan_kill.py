"""SIGKILL at every boundary of every step: what is completed never runs again, and the rest does, with the same key."""

from __future__ import annotations

import os
import signal
from functools import partial

import pytest
from tests.reliability.plans import ONCE, SESSION, Diary, in_child, layered, run_and_die

import holdfast
from holdfast import Executor
from holdfast.agents.journal import STEPS

BOUNDARIES = ("before intent", "after intent", "body", "after body", "before commit", "after commit")


def settle_what_waits(store, diary) -> int:
    """A person looks at each step of unknown outcome, and lets it run again."""
    executor = Executor(store.session(SESSION))
    waiting = executor.status().waiting
    for each in waiting:
        assert (each.step in ONCE, each.kind) == (True, "outcome")
        executor.settle(each.step, again=True)
        diary.write("settled", each.step)
    return len(waiting)


def is_done(path, step) -> bool:
    """Whether a step was completed by a process that was killed because of another one."""
    with holdfast.open(path) as store:
        if not store.sessions():
            return False
        statuses = {each.id: each.status for each in Executor(store.session(SESSION)).status().steps}
        return statuses[step] == "completed"


@pytest.mark.parametrize("where", BOUNDARIES)
@pytest.mark.parametrize("auto", [True, False])
def test_killed_at_a_boundary_of_each_step_it_goes_on(memory_folder, where, auto) -> None:
    path, diary = memory_folder / "store.db", Diary(memory_folder / "diary")
    steps = [each.id for each in layered(diary).steps]
    asked = kills = 0
    for step in steps if auto else steps[::3]:
        while not is_done(path, step):
            ended = in_child(partial(run_and_die, path, diary, where, step, auto_checkpoint=auto))
            if ended != 0:
                assert ended == -signal.SIGKILL
                kills += 1
                break
            with holdfast.open(path) as store:
                # It did not come to that step: something waits for a person first.
                assert settle_what_waits(store, diary) > 0
                asked += 1
    assert kills >= 5
    with holdfast.open(path) as store:
        while True:
            result = Executor(store.session(SESSION), keep=None).run(layered(diary), auto_checkpoint=auto)
            if result.status != "waiting":
                break
            asked += settle_what_waits(store, diary)
        assert result.success, result.error
        outputs = {each.step_id: each.output for each in result.state.results}
        assert outputs == {
            f"{row}-{column}": sum(4**up for up in range(row + 1)) for row in range(5) for column in range(4)
        }
        assert {row["status"] for row in store.rows(STEPS).find(execution=result.execution)} == {"completed"}

    ran: dict = {}
    keys: dict = {}
    done, settled = set(), set()
    for kind, step, *rest in diary.lines():
        if kind == "committed":
            done.add(step)
        elif kind == "settled":
            settled.add(step)
        else:
            key, attempt = rest
            assert step not in done, f"{step} ran again after it was completed"
            assert keys.setdefault(step, key) == key, f"{step} got another key"
            assert int(attempt) > ran.get(step, (0,))[-1]
            if step in ONCE and step in ran:
                assert step in settled, f"{step} ran twice, and nobody was asked"
                settled.discard(step)
            ran.setdefault(step, []).append(int(attempt))
    assert len(set(keys.values())) == len(steps)
    if where in ("after intent", "body", "after body", "before commit") and auto:
        assert asked > 0


def test_a_zombie_cannot_write(memory_folder) -> None:
    path, diary = memory_folder / "store.db", Diary(memory_folder / "diary")
    ready, go = os.pipe(), os.pipe()

    def zombie() -> None:
        def hook(where: str, step: str) -> None:
            if (where, step) == ("before commit", "1-1"):
                # Stopped here; the lease runs out and is taken meanwhile, as after SIGSTOP.
                os.write(ready[1], b".")
                os.read(go[0], 1)

        with holdfast.open(path) as store:
            executor = Executor(store.session(SESSION), workers=1, lease_seconds=0.3)
            executor._hook = hook
            try:
                executor.run(layered(diary))
            except holdfast.ConflictError as error:
                diary.write("refused", error.code)

    child = os.fork()
    if child == 0:
        try:
            zombie()
        finally:
            os._exit(0)
    os.read(ready[0], 1)
    os.kill(child, signal.SIGSTOP)
    with holdfast.open(path) as store:
        # Its process lives: the lease is free when its time is over.
        while True:
            try:
                result = Executor(store.session(SESSION), workers=1).run(layered(diary))
                break
            except holdfast.ConflictError as error:
                if error.code != "lease-held":
                    raise
        while result.status == "waiting":
            assert settle_what_waits(store, diary)
            result = Executor(store.session(SESSION)).run(layered(diary))
        assert result.success
        before = store.session(SESSION).checkpoint().id
    os.kill(child, signal.SIGCONT)
    os.write(go[1], b".")
    os.waitpid(child, 0)
    with holdfast.open(path) as store:
        assert store.session(SESSION).checkpoint().id == before
    assert ["refused", "lease-lost"] in diary.lines()
