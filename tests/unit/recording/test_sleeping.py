"""The sleep of a recorder that is asked to stop in time, too early or too late: nobody waits for the next step."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from contextlib import contextmanager
from queue import Empty, SimpleQueue

import pytest

import holdfast
from holdfast import AsyncRecorder, Interrupted, Recorder
from holdfast.recording import recorder as sleeping

LONG = 1000.0
"""Seconds: more than any machine needs."""


class Part:
    def snapshot(self):
        return 1

    def restore(self, value):
        del value


@pytest.fixture
def recorder():
    with holdfast.open("memory:") as store:
        yield Recorder(store.session("s")).connect("part", Part())


class Untouched:
    """What a sleep must not come to wait for."""

    def put(self, item):
        del item

    def get(self, timeout):
        raise AssertionError(f"it sleeps for {timeout} s though it was asked to stop")


async def not_to_be_awaited(waiting, timeout):  # noqa: ASYNC109 - the same call as asyncio's
    waiting.close()
    raise AssertionError(f"it sleeps for {timeout} s though it was asked to stop")


def asked(monkeypatch, recorder, *, before):
    """Have somebody ask right before, or right after, the sleep has said that it wants to be woken."""
    waking = recorder._waking

    @contextmanager
    def between(wake):
        if before:
            recorder.interrupt()
        with waking(wake):
            if not before:
                recorder.interrupt()
            yield

    monkeypatch.setattr(recorder, "_waking", between)


def check_saved(end, recorder):
    assert end.value.checkpoint is not None
    assert end.value.checkpoint.status == "interrupted"
    assert recorder.last.seq == end.value.checkpoint.seq == 1


@pytest.mark.parametrize("before", [True, False])
def test_asked_before_it_begins_it_does_not_begin(recorder, monkeypatch, before):
    asked(monkeypatch, recorder, before=before)
    monkeypatch.setattr(sleeping, "SimpleQueue", Untouched)

    with pytest.raises(Interrupted) as end:
        recorder.sleep(LONG)

    check_saved(end, recorder)


@pytest.mark.parametrize("before", [True, False])
def test_on_a_loop_asked_before_it_begins_it_does_not_begin(monkeypatch, before):
    async def main():
        async with holdfast.aopen("memory:") as store:
            recorder = AsyncRecorder(store.session("s")).connect("part", Part())
            asked(monkeypatch, recorder, before=before)
            with monkeypatch.context() as patched, pytest.raises(Interrupted) as end:  # noqa: PT012 - as it is called
                patched.setattr(asyncio, "wait_for", not_to_be_awaited)
                await recorder.sleep(LONG)
            check_saved(end, recorder)

    asyncio.run(main())


def test_asked_when_time_is_up_it_stops(recorder, monkeypatch):
    class Late(SimpleQueue):
        def get(self, block=True, timeout=None):
            assert timeout is not None
            time.sleep(timeout)
            # The wait is over, and nobody looks whether it was woken.
            recorder.interrupt()
            raise Empty

    monkeypatch.setattr(sleeping, "SimpleQueue", Late)

    with pytest.raises(Interrupted) as end:
        recorder.sleep(0.001)

    check_saved(end, recorder)


def test_on_a_loop_asked_when_time_is_up_it_stops(monkeypatch):
    async def main():
        async with holdfast.aopen("memory:") as store:
            recorder = AsyncRecorder(store.session("s")).connect("part", Part())

            async def late(waiting, timeout):  # noqa: ASYNC109 - the same call as asyncio's
                del timeout
                waiting.close()
                recorder.interrupt()
                raise TimeoutError

            with monkeypatch.context() as patched, pytest.raises(Interrupted) as end:  # noqa: PT012 - as it is called
                patched.setattr(asyncio, "wait_for", late)
                await recorder.sleep(0.001)
            check_saved(end, recorder)

    asyncio.run(main())


def test_a_signal_that_does_not_end_its_wait_is_seen_all_the_same(recorder):
    gave_up = []

    def hit():
        # The block, and the sleep.
        while len(recorder._wakers) < 2:
            pass
        # The same as one to the main thread right before it begins to wait: the wait goes on.
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    def give_up():
        gave_up.append(True)
        recorder.interrupt()

    patience = threading.Timer(30, give_up)
    with pytest.raises(Interrupted) as end, recorder.interrupts(LONG):  # noqa: PT012 - the block is what is tested
        patience.start()
        threading.Thread(target=hit).start()
        recorder.sleep(LONG)
    patience.cancel()

    check_saved(end, recorder)
    assert gave_up == []


def test_a_sleep_that_nobody_ends_takes_its_time(recorder, monkeypatch):
    waited = []

    class Clock(SimpleQueue):
        def get(self, block=True, timeout=None):
            assert timeout is not None
            waited.append(timeout)
            raise Empty

    monkeypatch.setattr(sleeping, "SimpleQueue", Clock)
    monkeypatch.setattr(sleeping, "monotonic", lambda: sum(waited))

    recorder.sleep(100)

    assert sum(waited) == pytest.approx(100)
    assert recorder.last is None


def test_whoever_is_asked_before_the_block_has_its_deadline_too(recorder):
    recorder.interrupt()

    with pytest.raises(Interrupted) as end, recorder.interrupts(0.05):  # noqa: PT012 - the block is what is tested
        threading.Event().wait(30)
        pytest.fail("no deadline has passed")

    check_saved(end, recorder)


def test_on_a_loop_whoever_is_asked_before_the_block_has_its_deadline_too():
    async def main():
        async with holdfast.aopen("memory:") as store:
            recorder = AsyncRecorder(store.session("s")).connect("part", Part())
            recorder.interrupt()
            block = recorder.interrupts(LONG)
            with pytest.raises(Interrupted) as end:  # noqa: PT012 - the block is what is tested
                async with block:
                    await asyncio.sleep(0)
                    has_begun = block._timer is not None
                    block._pass_deadline()
                    await asyncio.sleep(LONG)
            check_saved(end, recorder)
            assert has_begun

    asyncio.run(main())
