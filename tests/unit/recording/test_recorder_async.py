"""AsyncRecorder: one moment per checkpoint whatever other tasks do, and no bookkeeping lost to a cancellation."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.unit.recording.parts import Part

import holdfast
from holdfast import (
    AsyncRecorder,
    AsyncStore,
    CheckpointCreated,
    Event,
    InvalidInputError,
    Recorder,
    StateError,
    every,
    on,
)
from holdfast.backends.memory import MemoryBackend
from holdfast.testing.faults import Fault, FaultyBackend


class SlowPart(Part):
    async def restore(self, value):
        await asyncio.sleep(0)
        self.value = value["value"]


class Gate:
    """Holds the commits of a store until it is opened."""

    def __init__(self):
        self.reached = threading.Event()
        self.open = threading.Event()

    def __call__(self):
        self.reached.set()
        assert self.open.wait(30)


def gated():
    gate = Gate()
    backend = FaultyBackend(MemoryBackend(), [Fault("commit", nth=None, before=gate)])
    return AsyncStore(backend), gate


async def reached(gate):
    await asyncio.to_thread(gate.reached.wait, 30)


def in_loop(test):
    """Run a test that is a coroutine function."""

    def run():
        asyncio.run(asyncio.wait_for(test(), 60))

    run.__name__ = test.__name__
    return run


@in_loop
async def test_it_saves_and_resumes_as_a_recorder_does():
    async with holdfast.aopen("memory:") as store:
        part, slow = Part(1), SlowPart(2)
        recorder = AsyncRecorder(store.session("s"), trigger=every(steps=5) | on("a.b"))
        recorder.connect("part", part).connect("slow", slow)
        assert [n for n in range(12) if await recorder.step(n) is not None] == [0, 5, 10]
        emitted = await recorder.emit("a.b")
        assert emitted is not None
        assert emitted.trigger == "auto:a.b"
        assert await recorder.beat() is await recorder.tick() is None
        part.value, slow.value = 8, 9

        report = await recorder.resume()

        assert report is not None
        assert report.complete
        assert (part.value, slow.value) == (1, 2)
        assert recorder.steps == 11


@in_loop
async def test_a_task_that_changes_the_state_while_it_is_written_does_not_show():
    store, gate = gated()
    one, two = Part([1]), Part([1])
    recorder = AsyncRecorder(store.session("s")).connect("one", one).connect("two", two)

    saving = asyncio.create_task(recorder.save())
    await reached(gate)
    one.value.append("later")
    two.value.append("later")
    gate.open.set()
    await saving

    assert await store.session("s").load() == {"one": {"value": [1]}, "two": {"value": [1]}}


@in_loop
async def test_no_task_gets_to_run_between_two_snapshots():
    async with holdfast.aopen("memory:") as store:
        shared = {"n": 0}

        async def change():
            while True:
                shared["n"] += 1
                await asyncio.sleep(0)

        changing = asyncio.create_task(change())
        recorder = AsyncRecorder(store.session("s"))
        for name in "abcdef":
            recorder.connect(name, holdfast.functions(lambda: shared["n"], print))
        for _ in range(20):
            saved = await recorder.save()
            assert len(set((await store.session("s").load(saved)).values())) == 1
        changing.cancel()


@in_loop
async def test_saves_that_are_under_way_at_once_are_written_in_order():
    async with holdfast.aopen("memory:") as store:
        part = Part(0)
        recorder = AsyncRecorder(store.session("s")).connect("part", part)
        waiting = []
        for part.value in range(20):
            waiting.append(recorder.save(str(part.value)))
        await asyncio.gather(*waiting)

        log = await store.session("s").log()
        states = [(await store.session("s").load(each))["part"]["value"] for each in reversed(log)]
        assert states == list(range(20))


@in_loop
async def test_cancelling_while_it_is_written_loses_no_bookkeeping():
    store, gate = gated()
    part = Part(1)
    recorder = AsyncRecorder(store.session("s"), trigger=every(steps=5)).connect("part", part)
    told: list[Event] = []
    recorder.events.subscribe("checkpoint.created", told.append)

    saving = asyncio.ensure_future(recorder.step(5))
    await reached(gate)
    saving.cancel()
    await asyncio.wait({saving})
    assert saving.cancelled()
    part.value = 2
    following = asyncio.ensure_future(recorder.save())
    await asyncio.sleep(0.01)
    gate.open.set()
    second = await following

    assert recorder.last == second
    assert (second.seq, second.branch) == (2, "main")
    assert [
        each["part"]["value"] for each in [await store.session("s").load(ref) for ref in ("@~1", "@")]
    ] == [
        1,
        2,
    ]
    assert await recorder.step(6) is None
    assert await recorder.events.aflush(5)
    created = [each for each in told if isinstance(each, CheckpointCreated)]
    assert created == told
    assert [each.seq for each in created] == [1, 2]


@in_loop
async def test_cancelling_before_it_is_its_turn_loses_no_save():
    store, gate = gated()
    recorder = AsyncRecorder(store.session("s"), trigger=every(steps=5)).connect("part", Part(1))
    first = asyncio.ensure_future(recorder.save())
    await reached(gate)

    waiting = asyncio.ensure_future(recorder.step(5))
    await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.wait({waiting})
    gate.open.set()
    await first

    assert (await recorder.save()).seq == 3
    assert [each.step for each in await store.session("s").log()] == [5, 5, None]


@in_loop
async def test_a_restore_that_fails_while_it_is_awaited_is_reported_and_carried():
    class Broken(Part):
        async def restore(self, value):
            value["value"] = "spoilt"
            await asyncio.sleep(0)
            raise OSError("gone")

    async with holdfast.aopen("memory:") as store:
        await AsyncRecorder(store.session("s")).connect("a", Part(1)).connect("b", Part(2)).save()
        other = Part(0)
        recorder = AsyncRecorder(store.session("s")).connect("a", Broken("fresh")).connect("b", other)

        report = await recorder.resume()
        await recorder.save()

        assert report is not None
        assert (report.named("failed"), other.value) == (("a",), 2)
        assert await store.session("s").load() == {"a": {"value": 1}, "b": {"value": 2}}


@in_loop
async def test_nothing_is_saved_while_only_some_have_their_state_back():
    refused: list[str] = []

    class Saving(Part):
        async def restore(self, value):
            await asyncio.sleep(0)
            with pytest.raises(StateError) as failure:
                await recorder.step(0)
            refused.append(failure.value.code)

    async with holdfast.aopen("memory:") as store:
        recorder = AsyncRecorder(store.session("s"), trigger=every(steps=5))
        recorder.connect("a", Part(1)).connect("b", Saving(2))
        await recorder.save()

        await recorder.resume()

        assert refused == ["resume-unfinished"]
        stepped = await recorder.step(5)
        assert stepped is not None
        assert stepped.seq == 2


@pytest.mark.parametrize(
    ("kind", "store", "said"),
    [(AsyncRecorder, holdfast.Store, "needs a AsyncSession"), (Recorder, AsyncStore, "needs a Session")],
)
def test_each_kind_of_recorder_takes_its_kind_of_session(kind, store, said):
    session = store(MemoryBackend()).session("s")
    with pytest.raises(InvalidInputError, match=said):
        kind(session)
