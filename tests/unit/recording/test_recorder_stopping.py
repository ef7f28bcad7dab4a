"""Interrupts inside of one process: handlers, deadlines, cancellation, and what a last save does when it fails."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

import holdfast
from holdfast import (
    AsyncRecorder,
    AsyncStore,
    BackendError,
    HoldfastWarning,
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


def test_handlers_are_given_back_after_an_error_too(recorder):
    before = handlers()

    with pytest.raises(ZeroDivisionError), recorder.interrupts():
        1 / 0  # noqa: B018

    assert handlers() == before
    assert recorder.session.log() == []


def test_a_handler_that_is_set_inside_stays_with_a_warning(recorder):
    own = lambda *_: None  # noqa: E731
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.warns(HoldfastWarning, match="SIGTERM"), recorder.interrupts():
            signal.signal(signal.SIGTERM, own)
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


def test_handlers_of_a_loop_are_given_back_and_are_not_called_inside():
    called = []

    async def main():
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, called.append, "own")
        async with holdfast.aopen("memory:") as store:
            recorder = AsyncRecorder(store.session("s")).connect("part", Part())
            with pytest.raises(Interrupted):  # noqa: PT012 - the block is what is tested
                async with recorder.interrupts():
                    signal.raise_signal(signal.SIGTERM)
                    await asyncio.sleep(0.01)
                    await recorder.tick()
        assert called == []
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(0.01)
        loop.remove_signal_handler(signal.SIGTERM)

    asyncio.run(main())

    assert called == ["own"]


def test_asking_by_hand_works_in_any_thread(recorder):
    ended = []

    def work():
        try:
            recorder.sleep(1000)
        except Interrupted as end:
            ended.append(end)

    worker = threading.Thread(target=work)
    worker.start()
    while not recorder._wakers:
        pass
    recorder.interrupt()
    worker.join()

    assert [(each.signal, each.checkpoint.status) for each in ended] == [(15, "interrupted")]


def test_a_block_in_another_thread_takes_no_handlers(recorder):
    before = handlers()
    seen = []

    def work():
        with recorder.interrupts():
            seen.extend(handlers())

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()

    assert seen == before


def test_whoever_asks_again_gets_the_same_checkpoint(recorder):
    recorder.interrupt()

    ends = []
    for check in (recorder.tick, recorder.beat, lambda: recorder.step(5), lambda: recorder.sleep(9)):
        with pytest.raises(Interrupted) as end:
            check()
        ends.append(end.value.checkpoint)

    assert {each.seq for each in ends} == {1}
    assert "saved as #1" in str(end.value)


def test_a_recorder_can_be_used_again_after_it_was_stopped(recorder):
    with pytest.raises(Interrupted), recorder.interrupts():  # noqa: PT012 - the block is what is tested
        recorder.interrupt()
        recorder.tick()

    with pytest.raises(Interrupted) as end, recorder.interrupts():  # noqa: PT012 - the block is what is tested
        assert recorder.step(5) is not None
        signal.raise_signal(signal.SIGTERM)
        recorder.tick()
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

    assert end.value.checkpoint.status == "interrupted"


def test_a_last_save_that_fails_at_the_deadline_ends_the_program_and_is_logged(caplog):
    backend = FaultyBackend(MemoryBackend(), [Fault("commit", nth=None, before=failing(disk_full()))])
    recorder = Recorder(holdfast.Store(backend).session("s")).connect("part", Part())

    with pytest.raises(Interrupted) as end, recorder.interrupts(0.05):  # noqa: PT012 - the block is what is tested
        signal.raise_signal(signal.SIGTERM)
        threading.Event().wait(60)

    assert isinstance(end.value.__cause__, BackendError)
    assert "could not be saved" in caplog.text


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


def test_a_cancelled_task_waits_for_a_slow_save_no_longer_than_the_deadline():
    gate, let_go = threading.Event(), []
    held = Fault("commit", nth=None, before=lambda: let_go.append(gate.wait(20)))
    backend = FaultyBackend(MemoryBackend(), [held])

    async def main():
        recorder = AsyncRecorder(AsyncStore(backend).session("s")).connect("part", Part())

        async def work():
            async with recorder.interrupts(0.05):
                await asyncio.sleep(1000)

        task = asyncio.create_task(work())
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        # Only now: it was not waited for.
        gate.set()
        return await recorder.save()

    assert asyncio.run(main()).seq == 2
    assert let_go == [True, True]


def test_several_tasks_of_one_recorder_end_with_one_checkpoint():
    async def main():
        async with holdfast.aopen("memory:") as store:
            recorder = AsyncRecorder(store.session("s")).connect("part", Part())

            async def work():
                try:
                    await recorder.sleep(1000)
                except Interrupted as end:
                    return end.checkpoint.seq

            tasks = [asyncio.create_task(work()) for _ in range(5)]
            await asyncio.sleep(0.01)
            recorder.interrupt()
            return await asyncio.gather(*tasks), len(await store.session("s").log())

    assert asyncio.run(main()) == ([1] * 5, 1)


@pytest.mark.parametrize("bad", [0, -1, "5", float("nan"), True])
def test_a_deadline_that_is_none_is_refused(recorder, bad):
    with pytest.raises(InvalidInputError):
        recorder.interrupts(bad)
