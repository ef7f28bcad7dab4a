"""The bus: in order, one at a time, and nobody waits for a subscriber."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import pytest

import holdfast
from holdfast import InvalidInputError
from holdfast.recording.bus import EventBus
from holdfast.recording.events import CheckpointCreated

LONG = 30.0
"""Seconds: more than any machine needs, so that a test that waits in vain ends."""


@pytest.fixture
def bus():
    made = EventBus()
    yield made
    made.close(0)


def numbers(bus, count, start=0):
    for n in range(start, start + count):
        bus.emit("n.came", n=n)


def ns(events):
    return [each.data["n"] for each in events]


def test_events_come_in_order_on_a_thread_of_the_subscribers_own(bus):
    seen, threads = [], set()

    def take(event):
        seen.append(event)
        threads.add(threading.current_thread())

    subscription = bus.subscribe("n.*", take)
    numbers(bus, 500)
    assert bus.flush(LONG)
    assert ns(seen) == list(range(500))
    assert len(threads) == 1
    assert threads.pop().daemon
    assert subscription.pending == 0


def test_a_stuck_subscriber_delays_neither_the_emitter_nor_a_save_nor_others(bus, tmp_path):
    seen: list[Any] = []
    entered, release = threading.Event(), threading.Event()

    def take(_):
        entered.set()
        release.wait(LONG)

    stuck = bus.subscribe("*", take, limit=10)
    bus.subscribe("*", seen.append)
    with holdfast.open(tmp_path) as store:
        session = store.session()
        for n in range(20):
            bus.emit(CheckpointCreated.of(session.save({"n": n})))
            # It has the first one in hand before so many wait that the oldest of them are dropped.
            assert entered.wait(LONG)
        assert len(session.log()) == 20
    # All of this came back while the first event is still being handled.
    assert not release.is_set()
    assert not bus.flush(0.01)
    while len(seen) < 20:
        time.sleep(0.001)
    assert stuck.pending == 11
    release.set()
    assert bus.flush(LONG)


def test_the_oldest_are_dropped_when_too_many_wait(bus):
    entered, release, seen = threading.Event(), threading.Event(), []

    def take(event):
        entered.set()
        release.wait(LONG)
        seen.append(event)

    subscription = bus.subscribe("*", take, limit=3)
    numbers(bus, 1)
    assert entered.wait(LONG)
    numbers(bus, 10, start=1)
    assert subscription.pending == 4
    release.set()
    assert bus.flush(LONG)
    assert ns(seen) == [0, 8, 9, 10]


def test_a_failing_subscriber_is_logged_once_for_each_kind(bus, caplog):
    seen: list[Any] = []

    def take(event):
        seen.append(event)
        raise (ValueError, KeyError, SystemExit)[event.data["n"] % 3]("no")

    with caplog.at_level(logging.ERROR, "holdfast.events"):
        bus.subscribe("n.*", take)
        numbers(bus, 9)
        assert bus.flush(LONG)
    assert ns(seen) == list(range(9))
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [
        ValueError,
        KeyError,
        SystemExit,
    ]
    assert "n.*" in caplog.text


def test_eight_threads_emit_and_each_keeps_its_order(bus):
    seen: list[tuple[int, int]] = []
    bus.subscribe("*", lambda event: seen.append((event.data["by"], event.data["n"])), limit=8 * 300)

    def emit(by):
        for n in range(300):
            bus.emit("n.came", by=by, n=n)

    threads = [threading.Thread(target=emit, args=(by,)) for by in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert bus.flush(LONG)
    assert sorted(seen) == [(by, n) for by in range(8) for n in range(300)]
    for by in range(8):
        assert [n for each, n in seen if each == by] == list(range(300))


def test_cancelling_inside_of_a_handler_ends_with_that_event(bus):
    seen, ready = [], threading.Event()

    def take(event):
        ready.wait(LONG)
        seen.append(event)
        subscription.cancel()

    subscription = bus.subscribe("*", take)
    numbers(bus, 5)
    ready.set()
    assert bus.flush(LONG)
    numbers(bus, 5)
    assert bus.flush(LONG)
    assert ns(seen) == [0]
    assert not bus.wants("n.came")
    subscription.cancel()


def test_flush_inside_of_a_handler_does_not_wait_for_itself(bus):
    answers = []
    bus.subscribe("*", lambda _: answers.append(bus.flush(LONG)))
    began = time.monotonic()
    numbers(bus, 1)
    assert bus.flush(LONG)
    assert answers == [False]
    assert time.monotonic() - began < LONG


def test_close_delivers_and_then_ends_all_subscriptions(bus):
    seen: list[Any] = []
    bus.subscribe("*", seen.append)
    numbers(bus, 100)
    assert bus.close(LONG)
    assert len(seen) == 100
    numbers(bus, 1)
    assert not bus.wants("n.came")
    assert len(seen) == 100
    assert bus.close()


@pytest.mark.parametrize(
    ("pattern", "handler", "limit"),
    [("a*", print, 1), ("*", None, 1), ("*", print, 0), ("*", print, True), ("*", print, 1.5)],
)
def test_what_cannot_be_subscribed_is_refused(bus, pattern, handler, limit):
    with pytest.raises(InvalidInputError) as refused:
        bus.subscribe(pattern, handler, limit=limit)
    assert refused.value.hint


def test_the_end_of_the_program_delivers_what_is_pending():
    program = """
    import time
    import holdfast.recording.bus
    from holdfast.recording.bus import EventBus

    # How long it waits at most is not what is shown here.
    holdfast.recording.bus._AT_EXIT_SECONDS = 60

    def take(event):
        time.sleep(0.002)
        print(event.data["n"], flush=True)

    bus = EventBus()
    bus.subscribe("*", take)
    for n in range(20):
        bus.emit("n.came", n=n)
    """
    assert run(program).split() == [str(n) for n in range(20)]


def test_a_stuck_subscriber_does_not_keep_the_program_from_ending():
    program = """
    import threading
    from holdfast.recording.bus import EventBus

    bus = EventBus()
    bus.subscribe("*", lambda event: threading.Event().wait())
    bus.emit("n.came", n=1)
    print("over")
    """
    assert run(program) == "over\n"


def run(program):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_coroutine_function_runs_on_its_loop_one_at_a_time_in_order(bus):
    seen, at_once, most = [], 0, 0

    async def main():
        async def take(event):
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0)
            seen.append((event.data["n"], threading.get_ident()))
            at_once -= 1

        subscription = bus.subscribe("*", take)
        # From another thread, as a worker that saves would.
        await asyncio.to_thread(numbers, bus, 200)
        numbers(bus, 200, start=200)
        assert not bus.flush(LONG), "it cannot wait for the loop that it holds up"
        assert await bus.aflush(LONG)
        assert subscription.pending == 0
        # Once all is done, the next one is heard as the first was.
        numbers(bus, 1, start=400)
        assert await bus.aflush(LONG)

    asyncio.run(main())
    assert seen == [(n, threading.get_ident()) for n in range(401)]
    assert most == 1


def test_a_failing_coroutine_does_not_end_the_subscription(bus, caplog):
    async def main():
        cancelled = asyncio.get_running_loop().create_future()
        cancelled.cancel()

        async def take(event):
            if event.data["n"] == 1:
                await cancelled
            raise ValueError("no")

        bus.subscribe("*", take)
        numbers(bus, 4)
        assert await bus.aflush(LONG)

    asyncio.run(main())
    assert sorted(
        each.exc_info[0].__name__ for each in caplog.records if each.exc_info and each.exc_info[0]
    ) == [
        "CancelledError",
        "ValueError",
    ]


def test_a_stream_gives_events_from_the_moment_it_was_made_on(bus):
    async def main():
        numbers(bus, 1)
        stream = bus.stream("n.*")
        numbers(bus, 3, start=1)
        threading.Timer(0.01, numbers, (bus, 2, 4)).start()
        seen = []
        async with stream:
            async for event in stream:
                seen.append(event)
                if len(seen) == 5:
                    break
        assert not bus.wants("n.came")
        return ns(seen)

    assert asyncio.run(main()) == [1, 2, 3, 4, 5]


def test_a_stream_drops_the_oldest_that_nobody_read(bus):
    async def main():
        stream = bus.stream(limit=2)
        numbers(bus, 5)
        bus.close()
        return ns([event async for event in stream])

    assert asyncio.run(main()) == [3, 4]


def test_a_reader_that_is_cancelled_loses_no_event(bus):
    async def main():
        stream = bus.stream()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(stream), 0.01)
        numbers(bus, 2)
        return ns([await anext(stream), await anext(stream)])

    assert asyncio.run(main()) == [0, 1]
