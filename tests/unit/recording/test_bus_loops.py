"""The bus and event loops: coroutine functions as subscribers, and streams."""

from __future__ import annotations

import asyncio
import threading

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


def test_a_reader_that_is_cancelled_loses_no_event(bus):
    async def main():
        stream = bus.stream()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(stream), 0.01)
        numbers(bus, 2)
        return ns([await anext(stream), await anext(stream)])

    assert asyncio.run(main()) == [0, 1]
