"""The bus and event loops: coroutine functions as subscribers, and streams."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest

from holdfast import InvalidInputError
from holdfast.recording.bus import EventBus

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


def test_a_coroutine_function_needs_a_running_loop(bus):
    async def take(event): ...

    with pytest.raises(InvalidInputError, match="event loop"):
        bus.subscribe("*", take)


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
        assert (subscription.delivered, subscription.pending) == (400, 0)
        # Once all is done, the next one is heard as the first was.
        numbers(bus, 1, start=400)
        assert await bus.aflush(LONG)

    asyncio.run(main())
    assert seen == [(n, threading.get_ident()) for n in range(401)]
    assert most == 1


def test_an_event_in_the_moment_in_which_the_queue_was_found_empty_starts_no_second_consumer(
    bus, monkeypatch
):
    seen, at_once, most = [], 0, 0

    async def main():
        async def take(event):
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0)
            seen.append(event)
            at_once -= 1

        subscription = bus.subscribe("*", take)
        look = subscription._next
        emptied: list[bool] = []

        def look_and_emit():
            event = look()
            if event is None and not emptied:
                emptied.append(True)
                numbers(bus, 1, start=1)
                asyncio.get_running_loop().call_soon(numbers, bus, 3, 2)
            return event

        monkeypatch.setattr(subscription, "_next", look_and_emit)
        numbers(bus, 1)
        while len(seen) < 5:
            assert await bus.aflush(LONG)
            await asyncio.sleep(0)

    asyncio.run(main())
    assert ns(seen) == [0, 1, 2, 3, 4]
    assert most == 1


def test_an_object_with_an_async_call_is_a_coroutine_function_too(bus):
    class Taker:
        def __init__(self) -> None:
            self.seen = 0

        async def __call__(self, event):
            self.seen += 1

    async def main():
        taker = Taker()
        bus.subscribe("*", taker)
        numbers(bus, 3)
        assert await bus.aflush(LONG)
        return taker.seen

    assert asyncio.run(main()) == 3


def test_a_failing_coroutine_does_not_end_the_subscription(bus, caplog):
    async def main():
        cancelled = asyncio.get_running_loop().create_future()
        cancelled.cancel()

        async def take(event):
            if event.data["n"] == 1:
                await cancelled
            raise ValueError("no")

        subscription = bus.subscribe("*", take)
        numbers(bus, 4)
        assert await bus.aflush(LONG)
        assert (subscription.failed, subscription.delivered) == (4, 4)

    asyncio.run(main())
    assert sorted(
        each.exc_info[0].__name__ for each in caplog.records if each.exc_info and each.exc_info[0]
    ) == [
        "CancelledError",
        "ValueError",
    ]


def test_a_loop_in_another_thread_gets_its_events_there(bus):
    seen, ready, stop = [], threading.Event(), None

    async def main():
        nonlocal stop
        stop = asyncio.Event()
        loops.append(asyncio.get_running_loop())

        async def take(event):
            seen.append((event.data["n"], threading.current_thread()))

        bus.subscribe("*", take)
        ready.set()
        await stop.wait()

    loops: list[asyncio.AbstractEventLoop] = []
    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert ready.wait(LONG)
    numbers(bus, 50)
    assert bus.flush(LONG)
    assert seen == [(n, thread) for n in range(50)]
    assert stop is not None
    loops[0].call_soon_threadsafe(stop.set)
    thread.join(LONG)


def test_a_closed_loop_ends_the_subscription_and_harms_nobody(bus, caplog):
    async def main():
        async def take(event): ...

        return bus.subscribe("n.*", take)

    subscription = asyncio.run(main())
    seen: list[Any] = []
    bus.subscribe("n.*", seen.append)
    numbers(bus, 3)
    assert bus.flush(LONG)
    assert ns(seen) == [0, 1, 2]
    assert (subscription.dropped, subscription.delivered) == (1, 0)
    assert caplog.text.count("is closed") == 1


def test_a_loop_that_is_shut_down_in_the_middle_of_a_handler_leaves_nothing_behind(bus):
    entered = []

    async def main():
        began = asyncio.Event()

        async def take(event):
            entered.append(event)
            began.set()
            await asyncio.sleep(LONG)

        bus.subscribe("*", take)
        numbers(bus, 3)
        await began.wait()

    # Warnings are errors here: a task that is destroyed while it is pending would be one.
    asyncio.run(main())
    numbers(bus, 1)
    gc.collect()
    assert len(entered) == 1
    assert bus.flush(LONG)


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
        return ns([event async for event in stream]), stream.dropped

    assert asyncio.run(main()) == ([3, 4], 3)


def test_closing_the_bus_from_another_thread_ends_a_stream_that_waits(bus):
    async def main():
        stream = bus.stream()
        threading.Timer(0.01, bus.close).start()
        return [event async for event in stream]

    assert asyncio.run(main()) == []


def test_a_reader_that_is_cancelled_loses_no_event(bus):
    async def main():
        stream = bus.stream()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(stream), 0.01)
        numbers(bus, 2)
        return ns([await anext(stream), await anext(stream)])

    assert asyncio.run(main()) == [0, 1]


def test_flush_does_not_wait_for_a_stream(bus):
    bus.stream()
    numbers(bus, 3)
    assert bus.flush(LONG)
