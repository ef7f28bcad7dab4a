"""A recorder that has not got back what is stored: whatever stops it then, nothing is saved over the past."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

import holdfast
from holdfast import AsyncRecorder, AsyncStore, Interrupted, Keep, NotFoundError, Recorder, StateError, every
from holdfast.backends.memory import MemoryBackend
from holdfast.errors import BackendError
from holdfast.testing.faults import Fault, FaultyBackend, disk_full, failing

GOOD = {"part": {"work": "ten hours"}}


class Part:
    def __init__(self):
        self.value = {"blank": True}

    def snapshot(self):
        return self.value

    def restore(self, value):
        self.value = value


@pytest.fixture
def store():
    with holdfast.open("memory:") as store:
        store.session("s").save(GOOD)
        yield store


def blank(store, **given):
    return Recorder(store.session("s"), **given).connect("part", Part())


def test_stops_while_it_starts_do_not_prune_what_is_good(store):
    for _ in range(5):
        recorder = blank(store, keep=Keep(at_most=2))
        with pytest.raises(Interrupted), recorder.interrupts():
            signal.raise_signal(signal.SIGTERM)

    assert store.session("s").load() == GOOD


def test_the_first_stop_in_a_session_without_checkpoints_is_saved():
    with holdfast.open("memory:") as store:
        recorder = blank(store)
        recorder.interrupt()
        with pytest.raises(Interrupted) as end:
            recorder.tick()
        assert end.value.checkpoint is not None
        assert end.value.checkpoint.seq == 1


def test_a_read_that_fails_leaves_the_recorder_as_it_was():
    inner = MemoryBackend()
    holdfast.Store(inner).session("s").save(GOOD)
    backend = FaultyBackend(inner, [Fault("reader", nth=1, before=failing(disk_full()))])
    recorder = Recorder(holdfast.Store(backend).session("s")).connect("part", Part())

    with pytest.raises(BackendError):
        recorder.resume()

    assert recorder.save().seq == 2
    with pytest.raises(NotFoundError):
        recorder.resume("nowhere")
    assert recorder.save().seq == 3


def slow_store(reading, go_on):
    """A store with a good checkpoint, whose first reader waits."""
    inner = MemoryBackend()
    holdfast.Store(inner).session("s").save(GOOD)

    def wait():
        reading.set()
        assert go_on.wait(30)

    return AsyncStore(FaultyBackend(inner, [Fault("reader", nth=1, before=wait)]))


def test_nobody_saves_while_a_resume_reads():
    reading, go_on = threading.Event(), threading.Event()

    async def main():
        store = slow_store(reading, go_on)
        recorder = AsyncRecorder(store.session("s"), trigger=every(beats=1)).connect("part", Part())
        resuming = asyncio.create_task(recorder.resume())
        await asyncio.to_thread(reading.wait, 30)
        with pytest.raises(StateError) as refused:
            await recorder.beat()
        go_on.set()
        await resuming
        saved = await recorder.beat()
        assert saved is not None
        return refused.value.code, saved.branch, await store.session("s").load(saved)

    assert asyncio.run(main()) == ("resume-unfinished", "main", GOOD)
