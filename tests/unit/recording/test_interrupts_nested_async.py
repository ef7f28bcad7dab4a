"""Interrupts inside of each other on an event loop: whose deadline counts, and what it does to the last save inside."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from holdfast import AsyncRecorder, AsyncStore, Interrupted
from holdfast.backends.memory import MemoryBackend
from holdfast.testing.faults import Fault, FaultyBackend

LONG = 1000.0
"""Seconds: no deadline of these tests passes by itself, they say when."""
PATIENCE = 20
"""Seconds after which a save that is held goes on by itself: a test that waits for it in vain ends, and fails."""


class Part:
    def snapshot(self):
        return 1

    def restore(self, value):
        del value


class Nest:
    """A block inside of another, in the same task or in one that was begun there. Commits of the inner one are held."""

    def __init__(self, *, is_child=False, deadline=LONG, outer_deadline=LONG):
        backend = FaultyBackend(MemoryBackend(), [Fault("commit", nth=None, before=self._commit)])
        self.inner = AsyncRecorder(AsyncStore(backend).session("inner")).connect("part", Part())
        self.outer = AsyncRecorder(AsyncStore(MemoryBackend()).session("outer")).connect("part", Part())
        self.inner_block = self.inner.interrupts(deadline)
        self.outer_block = self.outer.interrupts(outer_deadline)
        self.is_child = is_child
        self.during_the_save: Callable[[], object] = int
        self.gate = threading.Event()
        self.let_go = []
        """Of each commit, whether it was let go on, and not out of patience."""
        self.seen = []
        """What the inner recorder had saved when its block was over."""
        self.ended_by = []

    async def run(self, body):
        """Both blocks around `body`; how the outer one ended. No task may be left cancelled."""
        self.loop = asyncio.get_running_loop()
        try:
            with pytest.raises(Interrupted) as end:  # noqa: PT012 - the block is what is tested
                async with self.outer_block:
                    if self.is_child:
                        async with asyncio.TaskGroup() as group:
                            group.create_task(self._inside(body))
                    else:
                        await self._inside(body)
        finally:
            self.gate.set()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        return end.value

    async def _inside(self, body):
        async with self.inner:
            try:
                async with self.inner_block:
                    await body()
            except BaseException as error:
                self.ended_by.append(type(error))
                raise
            finally:
                self.seen.append(self.inner.last)

    def _commit(self):
        self.loop.call_soon_threadsafe(self.during_the_save)
        self.let_go.append(self.gate.wait(PATIENCE))

    def pass_outer_deadline(self):
        """Let it pass, and open the gate when whoever heard of it has had its turn."""
        self.outer_block._pass_deadline()
        self.turns = self.loop.create_task(self._open_after_turns())

    async def _open_after_turns(self):
        for _ in range(20):
            await asyncio.sleep(0)
        self.gate.set()


@pytest.mark.parametrize("is_child", [False, True])
def test_the_outer_deadline_does_not_break_the_last_save_inside(is_child):
    nest = Nest(is_child=is_child)
    nest.during_the_save = nest.pass_outer_deadline

    async def body():
        for each in (nest.outer, nest.inner):
            each.interrupt()
        await asyncio.sleep(0)
        nest.inner_block._pass_deadline()
        await asyncio.sleep(LONG)

    end = asyncio.run(nest.run(body))

    assert nest.let_go == [True]
    for each in (nest.seen[0], end.checkpoint, nest.outer.last):
        assert each is not None
        assert each.status == "interrupted"
    # It is the outer block that ends, whoever would have caught the end of the inner one.
    assert nest.ended_by == [asyncio.CancelledError]


@pytest.mark.parametrize("is_child", [False, True])
@pytest.mark.parametrize("both", [False, True], ids=["the outer one is asked", "both are asked"])
def test_the_last_save_inside_leaves_half_of_the_time_to_the_outer_one(monkeypatch, is_child, both):
    nest = Nest(is_child=is_child, outer_deadline=40.0)
    allowed = []
    wait = asyncio.wait

    async def out_of_time(tasks, **limit):
        if not limit:
            # Not one for the last save.
            return await wait(tasks)
        # Time is up at once.
        allowed.append(limit["timeout"])
        return await wait(tasks, timeout=0)

    async def body():
        for each in (nest.outer, nest.inner) if both else (nest.outer,):
            each.interrupt()
        await asyncio.sleep(0)
        monkeypatch.setattr(asyncio, "wait", out_of_time)
        nest.outer_block._pass_deadline()
        await asyncio.sleep(LONG)

    asyncio.run(nest.run(body))

    assert len(allowed) == 2
    assert allowed[0] <= 20 < allowed[1] <= 40
    assert nest.seen == [None]
    # Nobody waited for what the store still did, the end of `async with recorder` included.
    assert nest.let_go in ([], [True])


def test_a_deadline_that_begins_during_the_last_save_inside_cuts_it_short(monkeypatch):
    nest = Nest(outer_deadline=40.0)
    allowed = []
    wait = asyncio.wait

    async def noted(tasks, **limit):
        if not limit:
            return await wait(tasks)
        allowed.append(limit["timeout"])
        # The second time it is the outer deadline that counts, and time is up.
        return await wait(tasks, timeout=0 if len(allowed) == 2 else limit["timeout"])

    def hurry():
        nest.outer.interrupt()
        nest.loop.call_soon(nest.outer_block._pass_deadline)

    nest.during_the_save = hurry

    async def body():
        nest.inner.interrupt()
        monkeypatch.setattr(asyncio, "wait", noted)

    end = asyncio.run(nest.run(body))

    assert allowed[0] > 40
    assert allowed[1] <= 20
    assert end.checkpoint is not None
    assert nest.let_go in ([], [True])


def test_two_deadlines_that_pass_at_once_leave_nothing_cancelled():
    nest = Nest()
    nest.gate.set()

    async def body():
        for each in (nest.outer, nest.inner):
            each.interrupt()
        await asyncio.sleep(0)
        for block in (nest.inner_block, nest.outer_block):
            block._pass_deadline()
        await asyncio.sleep(LONG)

    end = asyncio.run(nest.run(body))

    for each in (nest.seen[0], end.checkpoint):
        assert each is not None
        assert each.status == "interrupted"


def test_whoever_cancels_a_second_time_does_not_wait_for_the_last_save():
    nest = Nest()

    async def main():
        nest.loop = asyncio.get_running_loop()

        async def work():
            async with nest.inner.interrupts(LONG):
                await asyncio.sleep(LONG)

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        nest.during_the_save = task.cancel
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        nest.gate.set()
        await nest.inner.close()

    asyncio.run(main())

    assert nest.let_go == [True]


def test_a_task_that_outlives_the_block_it_was_begun_in_has_its_own_deadline(monkeypatch):
    nest = Nest()
    nest.gate.set()
    allowed = []
    wait = asyncio.wait

    async def noted(tasks, **limit):
        allowed.append(limit["timeout"])
        return await wait(tasks, **limit)

    async def main():
        nest.loop = asyncio.get_running_loop()
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def work():
            with pytest.raises(Interrupted):  # noqa: PT012 - as above
                async with nest.inner.interrupts(LONG):
                    begun.set()
                    await go_on.wait()
                    nest.inner.interrupt()

        with pytest.raises(Interrupted):  # noqa: PT012 - the block is what is tested
            async with nest.outer_block:
                task = asyncio.create_task(work())
                await begun.wait()
                nest.outer.interrupt()
                # Its deadline begins with the next turn of the loop.
                await asyncio.sleep(0)
        monkeypatch.setattr(asyncio, "wait", noted)
        go_on.set()
        await task

    asyncio.run(main())

    # Half of it is what the other block would have left.
    assert len(allowed) == 1
    assert allowed[0] > LONG / 2
