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
    called: list[str] = []

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

    (end,) = ended
    assert end.checkpoint is not None
    assert (end.signal, end.checkpoint.status) == (15, "interrupted")


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
        assert end.value.checkpoint is not None
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


def test_a_last_save_that_fails_at_the_deadline_ends_the_program_and_is_logged(caplog):
    backend = FaultyBackend(MemoryBackend(), [Fault("commit", nth=None, before=failing(disk_full()))])
    recorder = Recorder(holdfast.Store(backend).session("s")).connect("part", Part())

    with pytest.raises(Interrupted) as end, recorder.interrupts(0.05):  # noqa: PT012 - the block is what is tested
        signal.raise_signal(signal.SIGTERM)
        threading.Event().wait(60)

    assert isinstance(end.value.__cause__, BackendError)
    assert "could not be saved" in caplog.text


def test_a_signal_while_handlers_are_given_back_is_not_swallowed(recorder, monkeypatch):
    ask = signal.getsignal

    def signalled(number):
        monkeypatch.setattr(signal, "getsignal", ask)
        signal.raise_signal(signal.SIGTERM)
        return ask(number)

    before = handlers()
    with pytest.raises(Interrupted) as end, recorder.interrupts():
        monkeypatch.setattr(signal, "getsignal", signalled)

    assert end.value.checkpoint is not None
    assert (end.value.signal, end.value.checkpoint.status) == (15, "interrupted")
    assert handlers() == before


def test_signals_while_handlers_are_given_back_reach_the_applications_own(recorder, monkeypatch):
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    ask = signal.getsignal

    def signalled(number):
        if number == signal.SIGTERM:
            monkeypatch.setattr(signal, "getsignal", ask)
            signal.raise_signal(signal.SIGTERM)
            # With the handler given back in between, this is nobody's recursion.
            signal.raise_signal(signal.SIGTERM)
        return ask(number)

    try:
        with pytest.raises(Interrupted), recorder.interrupts():  # noqa: PT012 - the block is what is tested
            signal.raise_signal(signal.SIGTERM)
            monkeypatch.setattr(signal, "getsignal", signalled)
            recorder.tick()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [15, 15]


def test_all_handlers_are_given_back_where_a_warning_is_an_error(recorder):
    before = handlers()
    own = lambda *_: None  # noqa: E731
    try:
        # Warnings are errors in all tests.
        with pytest.raises(HoldfastWarning, match="SIGINT"), recorder.interrupts():
            signal.signal(signal.SIGINT, own)
        assert handlers() == [own, before[1]]
    finally:
        signal.signal(signal.SIGINT, before[0])


@pytest.mark.parametrize("seconds", [0, -0.1])
def test_sleeping_for_no_time_is_no_error(recorder, seconds):
    async def twin():
        async with holdfast.aopen("memory:") as store:
            await AsyncRecorder(store.session("s")).sleep(seconds)

    recorder.sleep(seconds)
    asyncio.run(twin())


def test_an_error_after_the_signal_ends_in_a_checkpoint_too(recorder, caplog):
    with pytest.raises(Interrupted) as end, recorder.interrupts():  # noqa: PT012 - the block is what is tested
        signal.raise_signal(signal.SIGTERM)
        raise OSError("a child died of the same signal")

    assert end.value.checkpoint is not None
    assert end.value.checkpoint.status == "interrupted"
    assert isinstance(end.value.__cause__, OSError)
    assert "a child died" in caplog.text


def test_on_a_loop_that_waits_a_signal_is_seen_whichever_thread_is_given_it():
    late: list[bool] = []

    def hit():
        # The same as one to the main thread right before it begins to wait: the wait goes on.
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    async def main():
        loop = asyncio.get_running_loop()
        async with holdfast.aopen("memory:") as store:
            recorder = AsyncRecorder(store.session("s")).connect("part", Part())
            # Whatever happens on the loop has it look for signals as well.
            ends = loop.call_later(30, late.append, True)
            with pytest.raises(Interrupted):  # noqa: PT012 - the block is what is tested
                async with recorder.interrupts(1000):
                    threading.Timer(0.1, hit).start()
                    await recorder.sleep(1000)
            ends.cancel()
            assert recorder.last is not None
            assert recorder.last.status == "interrupted"

    asyncio.run(main())
    assert late == []


@pytest.mark.parametrize("is_there", [False, True])
def test_on_a_loop_what_signals_wake_is_left_as_it_was(is_there):
    async def main():
        loop = asyncio.get_running_loop()
        if is_there:
            loop.add_signal_handler(signal.SIGUSR1, int)
        before = woken()
        assert (before != -1) == is_there
        async with holdfast.aopen("memory:") as store:
            one, two = (AsyncRecorder(store.session(name)) for name in "ab")
            async with one.interrupts():
                outer = woken()
                assert outer != -1
                async with two.interrupts():
                    assert woken() == outer
                assert woken() == outer
                # Of the application, which needs its own from here on.
                loop.add_signal_handler(signal.SIGUSR2, int)
                own = woken()
            assert woken() == own
        loop.remove_signal_handler(signal.SIGUSR1)
        loop.remove_signal_handler(signal.SIGUSR2)

    def woken():
        there = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(there)
        return there

    asyncio.run(main())
    assert woken() == -1


def test_on_a_loop_an_error_after_the_signal_ends_in_a_checkpoint_too(caplog):
    async def main():
        async with holdfast.aopen("memory:") as store:
            recorder = AsyncRecorder(store.session("s")).connect("part", Part())
            with pytest.raises(Interrupted) as end:  # noqa: PT012 - the block is what is tested
                async with recorder.interrupts():
                    signal.raise_signal(signal.SIGTERM)
                    raise OSError("a child died of the same signal")
            return end.value

    end = asyncio.run(main())
    assert end.checkpoint.status == "interrupted"
    assert isinstance(end.__cause__, OSError)
    assert "a child died" in caplog.text


def test_asking_by_hand_begins_the_deadline(recorder):
    with pytest.raises(Interrupted) as end, recorder.interrupts(0.05):  # noqa: PT012 - the block is what is tested
        threading.Thread(target=recorder.interrupt).start()
        threading.Event().wait(60)

    assert end.value.checkpoint is not None
    assert end.value.checkpoint.status == "interrupted"


def test_a_signal_after_asking_by_hand_is_the_first(recorder):
    with pytest.raises(Interrupted) as end, recorder.interrupts():  # noqa: PT012 - the block is what is tested
        recorder.interrupt()
        signal.raise_signal(signal.SIGTERM)
        recorder.tick()

    assert end.value.checkpoint is not None
    assert end.value.checkpoint.seq == 1


def test_the_deadline_ends_whoever_holds_the_store_before_it_saves():
    backend = FaultyBackend(MemoryBackend())
    store = holdfast.Store(backend)
    recorder = Recorder(store.session("s")).connect("part", Part())
    turn = threading.Lock()

    def commit():
        # As a backend has it: one commit after the other, whoever comes.
        assert turn.acquire(timeout=5), "the last save waits for what its own thread holds"
        try:
            if recorder._stop is None:
                signal.raise_signal(signal.SIGTERM)
                threading.Event().wait(60)
        finally:
            turn.release()

    backend.plan(Fault("commit", nth=None, before=commit))

    with pytest.raises(Interrupted) as end, recorder.interrupts(0.05):
        store.session("other").save(1)

    assert end.value.checkpoint is not None
    assert end.value.checkpoint.status == "interrupted"
    assert end.value.__cause__ is None


def test_two_deadlines_that_pass_at_once_are_two_checkpoints():
    with holdfast.open("memory:") as store:
        one, two = (Recorder(store.session(name)).connect("part", Part()) for name in "ab")
        with pytest.raises(Interrupted), one.interrupts(0.05), two.interrupts(0.05):  # noqa: PT012 - as above
            signal.raise_signal(signal.SIGTERM)
            threading.Event().wait(60)
        for each in (one, two):
            assert each.last is not None
            assert each.last.status == "interrupted"


def test_the_deadline_of_an_outer_block_does_not_break_the_last_save_of_an_inner_one():
    def commit():
        # The inner one saves for longer than the outer one would wait.
        threading.Event().wait(0.6)

    slow = Fault("commit", nth=1, before=commit)
    store = holdfast.Store(FaultyBackend(MemoryBackend(), [slow]))
    one, two = (Recorder(store.session(name)).connect("part", Part()) for name in "ab")

    with pytest.raises(Interrupted), one.interrupts(0.4), two.interrupts(0.05):  # noqa: PT012 - as above
        signal.raise_signal(signal.SIGTERM)
        threading.Event().wait(60)

    for each in (one, two):
        assert each.last is not None
        assert each.last.status == "interrupted"


def test_on_a_loop_the_deadline_is_for_the_step_and_the_save_together(monkeypatch):
    gate = threading.Event()
    waited = []

    def commit():
        gate.wait(20)

    held = Fault("commit", nth=None, before=commit)

    async def main():
        store = AsyncStore(FaultyBackend(MemoryBackend(), [held]))
        recorder = AsyncRecorder(store.session("s")).connect("part", Part())
        wait = asyncio.wait

        async def noted(tasks, **limit):
            waited.append(limit["timeout"])
            return await wait(tasks, **limit)

        monkeypatch.setattr(asyncio, "wait", noted)
        try:
            with pytest.raises(Interrupted, match="longer than the deadline"):  # noqa: PT012 - as above
                async with recorder.interrupts(0.2):
                    signal.raise_signal(signal.SIGTERM)
                    await asyncio.sleep(1000)
        finally:
            monkeypatch.setattr(asyncio, "wait", wait)
            gate.set()

    asyncio.run(main())
    # A quarter of it is left, or less.
    assert len(waited) == 1
    assert waited[0] <= 0.06


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
