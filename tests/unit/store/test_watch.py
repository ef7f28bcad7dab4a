"""watch: checkpoints as they come, from this process and from others, none missed and none twice."""

from __future__ import annotations

import math
import subprocess
import sys
import threading

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast import InvalidInputError, StateError
from holdfast.backends.memory import MemoryBackend
from holdfast.store import watch as watching


def test_what_undo_brings_back_does_not_come_again(store):
    session = store.session("s")
    session.save({"n": 0})
    session.save({"n": 1})
    stream = store.watch(timeout=0)
    session.delete("@")
    session.undo()
    session.tag("@", "x")

    assert list(stream) == []


def test_a_thread_that_saves_wakes_one_that_waits(store):
    seen = []
    stream = store.watch(timeout=30)

    def watch():
        for checkpoint in stream:
            seen.append(checkpoint.seq)
            if checkpoint.seq == 3:
                return

    thread = threading.Thread(target=watch)
    thread.start()
    for n in range(3):
        store.session("s").save({"n": n})
    thread.join()

    assert seen == [1, 2, 3]


def test_another_process_is_seen(tmp_path):
    path = str(tmp_path / "store")
    with holdfast.open(path) as store:
        stream = store.watch(timeout=60)
        program = (
            "import holdfast, sys\n"
            "with holdfast.open(sys.argv[1]) as store:\n"
            "    for n in range(3): store.session('other').save({'n': n}, f'from {n}')\n"
        )
        child = subprocess.Popen([sys.executable, "-c", program, path])
        seen = [next(stream).message for _ in range(3)]
        child.wait()

    assert seen == ["from 0", "from 1", "from 2"]


def test_a_store_that_is_closed_ends_it_with_an_error(store):
    stream = store.watch()
    store.session("s").save({})
    next(stream)
    store.close()

    with pytest.raises(StateError):
        next(stream)


@pytest.mark.parametrize("timeout", [-1, "5", True, math.nan])
def test_a_time_that_is_none_is_refused_at_once(store, timeout):
    with pytest.raises(InvalidInputError, match="timeout"):
        store.watch(timeout=timeout)


@given(st.lists(st.sampled_from(["save a", "save b", "look", "delete"]), max_size=30), st.integers(1, 4))
def test_every_checkpoint_comes_once_and_in_order(actions, page):
    with pytest.MonkeyPatch.context() as patch, holdfast.Store(MemoryBackend()) as store:
        patch.setattr(watching, "_PAGE", page)
        pages = store.watch(timeout=0)
        seen: list[str] = []
        expected: list[str] = []
        waiting: list[str] = []

        def look():
            while found := pages.page():
                seen.extend(each.id for each in found)
            expected.extend(waiting)
            waiting.clear()

        for n, action in enumerate(actions):
            if action.startswith("save"):
                waiting.append(store.session(action[-1]).save({"n": n}).id)
            elif action == "look":
                look()
            elif waiting:
                gone = waiting.pop()
                (row,) = [each for each in store.find() if each.id == gone]
                store.session(row.session).delete(gone)
        look()
        assert seen == expected


def test_async_sees_the_same(tmp_path):
    async def main():
        async with holdfast.aopen(tmp_path / "a.db", durability="process") as store:
            first = await store.session("s").save({"n": 0})
            seen = []

            async def watch(started):
                started.set()
                async for checkpoint in store.watch(after=first, timeout=30):
                    seen.append(checkpoint.seq)
                    if checkpoint.seq == 4:
                        return

            async with anyio.create_task_group() as group:
                started = anyio.Event()
                group.start_soon(watch, started)
                await started.wait()
                for n in range(3):
                    await store.session("s").save({"n": n + 1})
            assert [each async for each in store.watch(timeout=0)] == []
            return seen

    assert anyio.run(main) == [2, 3, 4]


def test_async_can_be_cancelled_while_it_waits(tmp_path):
    async def main():
        async with holdfast.aopen(tmp_path / "a.db", durability="process") as store:
            ended = []
            async with anyio.create_task_group() as group:

                async def watch():
                    try:
                        async for _ in store.watch():
                            pass
                    finally:
                        ended.append(True)

                group.start_soon(watch)
                await anyio.sleep(0.01)
                group.cancel_scope.cancel()
            # And the store is as good as before.
            await store.session("s").save({"n": 1})
            return ended, await store.session("s").load()

    assert anyio.run(main) == ([True], {"n": 1})
