"""Interrupts inside of one process: handlers, deadlines, cancellation, and what a last save does when it fails."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

import holdfast
from holdfast import (
    AsyncRecorder,
    BackendError,
    Interrupted,
    Recorder,
    StateError,
    every,
)
from holdfast.backends.memory import MemoryBackend
from holdfast.errors import InvalidInputError
from holdfast.testing.faults import Fault, FaultyBackend, disk_full, failing


class Part:
    value = 1

    def snapshot(self):
        return {"value": self.value}

    def restore(self, value):
        self.value = value["value"]


@pytest.fixture
def recorder():
    with holdfast.open("memory:") as store:
        yield Recorder(store.session("s"), trigger=every(steps=5)).connect("part", Part())


def handlers():
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


def test_the_applications_handlers_are_given_back_exactly(recorder):
    own = lambda *_: None  # noqa: E731
    before = signal.signal(signal.SIGTERM, own)
    try:
        expected = handlers()
        with recorder.interrupts():
            assert handlers()[0] is not expected[0]
            assert handlers()[1] is not own
        assert handlers() == expected
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_signal_that_is_ignored_stays_ignored(recorder):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with recorder.interrupts():
            signal.raise_signal(signal.SIGINT)
            assert recorder.step(1) is None
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_recorder_can_be_used_again_after_it_was_stopped(recorder):
    with pytest.raises(Interrupted), recorder.interrupts():  # noqa: PT012 - the block is what is tested
        recorder.interrupt()
        recorder.tick()

    with pytest.raises(Interrupted) as end, recorder.interrupts():  # noqa: PT012 - the block is what is tested
        assert recorder.step(5) is not None
        signal.raise_signal(signal.SIGTERM)
        recorder.tick()
    assert end.value.checkpoint is not None
    assert end.value.checkpoint.seq == 3


def test_a_recorder_that_is_not_enabled_stops_without_a_checkpoint(recorder):
    recorder.enabled = False
    recorder.interrupt()

    with pytest.raises(Interrupted) as end:
        recorder.step(5)

    assert end.value.checkpoint is None
    assert recorder.session.log() == []


def test_a_last_save_that_fails_reaches_the_caller_and_is_tried_again():
    backend = FaultyBackend(MemoryBackend(), [Fault("commit", nth=1, before=failing(disk_full()))])
    recorder = Recorder(holdfast.Store(backend).session("s")).connect("part", Part())
    recorder.interrupt()

    with pytest.raises(BackendError):
        recorder.tick()
    with pytest.raises(Interrupted) as end:
        recorder.tick()

    assert end.value.checkpoint is not None
    assert end.value.checkpoint.status == "interrupted"


def test_an_error_after_the_signal_ends_in_a_checkpoint_too(recorder, caplog):
    with pytest.raises(Interrupted) as end, recorder.interrupts():  # noqa: PT012 - the block is what is tested
        signal.raise_signal(signal.SIGTERM)
        raise OSError("a child died of the same signal")

    assert end.value.checkpoint is not None
    assert end.value.checkpoint.status == "interrupted"
    assert isinstance(end.value.__cause__, OSError)
    assert "a child died" in caplog.text


def test_asking_by_hand_begins_the_deadline(recorder):
    with pytest.raises(Interrupted) as end, recorder.interrupts(0.05):  # noqa: PT012 - the block is what is tested
        threading.Thread(target=recorder.interrupt).start()
        threading.Event().wait(60)

    assert end.value.checkpoint is not None
    assert end.value.checkpoint.status == "interrupted"


def test_what_is_only_half_restored_is_not_saved_at_the_end(recorder):
    class Stopping(Part):
        def restore(self, value):
            raise KeyboardInterrupt

    recorder.connect("other", Stopping())
    recorder.save()
    with pytest.raises(KeyboardInterrupt):
        recorder.resume()

    with pytest.raises(StateError, match="only some"):
        recorder.save()
    recorder.interrupt()
    with pytest.raises(Interrupted) as end:
        recorder.tick()
    assert end.value.checkpoint is None


def test_a_cancelled_task_saves_and_is_cancelled():
    async def main():
        async with holdfast.aopen("memory:") as store:
            recorder = AsyncRecorder(store.session("s")).connect("part", Part())

            async def work():
                async with recorder.interrupts():
                    await asyncio.sleep(1000)

            task = asyncio.create_task(work())
            await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled()
            saved = await store.session("s").checkpoint()
            # It was the task that was to end, not the recorder.
            await recorder.tick()
            return saved

    assert asyncio.run(main()).status == "interrupted"


def test_several_tasks_of_one_recorder_end_with_one_checkpoint():
    async def main():
        async with holdfast.aopen("memory:") as store:
            recorder = AsyncRecorder(store.session("s")).connect("part", Part())

            async def work():
                with pytest.raises(Interrupted) as end:
                    await recorder.sleep(1000)
                assert end.value.checkpoint is not None
                return end.value.checkpoint.seq

            tasks = [asyncio.create_task(work()) for _ in range(5)]
            await asyncio.sleep(0.01)
            recorder.interrupt()
            return await asyncio.gather(*tasks), len(await store.session("s").log())

    assert asyncio.run(main()) == ([1] * 5, 1)


@pytest.mark.parametrize("bad", [0, -1, "5", float("nan"), True])
def test_a_deadline_that_is_none_is_refused(recorder, bad):
    with pytest.raises(InvalidInputError):
        recorder.interrupts(bad)
