"""The bus: in order, one at a time, and nobody waits for a subscriber."""

from __future__ import annotations

import gc
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from datetime import UTC, datetime
from typing import Any

import pytest

import holdfast
from holdfast import InvalidInputError
from holdfast.recording import delivering
from holdfast.recording.bus import EventBus
from holdfast.recording.events import CheckpointCreated, occurred

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
    assert (subscription.delivered, subscription.dropped, subscription.failed, subscription.pending) == (
        500,
        0,
        0,
        0,
    )


def test_a_pattern_chooses_what_is_delivered(bus):
    seen: dict[str, list[str]] = {pattern: [] for pattern in ("a.b", "a.*", "*", "c.*")}
    for pattern, types in seen.items():
        bus.subscribe(pattern, lambda event, types=types: types.append(event.type))
    for name in ("a.b", "a.b.c", "a", "d"):
        bus.emit(occurred(name))
    assert bus.flush(LONG)
    assert seen == {"a.b": ["a.b"], "a.*": ["a.b", "a.b.c"], "*": ["a.b", "a.b.c", "a", "d"], "c.*": []}


def test_an_event_that_is_emitted_by_its_type_has_the_time_of_the_clock():
    seen: list[Any] = []
    when = datetime(2026, 11, 16, tzinfo=UTC)
    with EventBus(clock=lambda: when) as bus:
        bus.subscribe("*", seen.append)
        bus.emit("tool.completed", session="s", hits=3)
    assert [(each.at, each.session, each.data) for each in seen] == [(when, "s", {"hits": 3})]


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
    assert (stuck.delivered, stuck.pending, stuck.dropped) == (1, 11, 9)
    release.set()
    assert bus.flush(LONG)


def test_the_oldest_are_dropped_and_counted_when_too_many_wait(bus):
    entered, release, seen = threading.Event(), threading.Event(), []

    def take(event):
        entered.set()
        release.wait(LONG)
        seen.append(event)

    subscription = bus.subscribe("*", take, limit=3)
    numbers(bus, 1)
    assert entered.wait(LONG)
    numbers(bus, 10, start=1)
    assert (subscription.dropped, subscription.pending) == (7, 4)
    release.set()
    assert bus.flush(LONG)
    assert ns(seen) == [0, 8, 9, 10]
    assert (subscription.delivered, subscription.dropped) == (4, 7)


def test_a_failing_subscriber_is_logged_once_for_each_kind_and_counted(bus, caplog):
    seen: list[Any] = []

    def take(event):
        seen.append(event)
        raise (ValueError, KeyError, SystemExit)[event.data["n"] % 3]("no")

    with caplog.at_level(logging.ERROR, "holdfast.events"):
        subscription = bus.subscribe("n.*", take)
        numbers(bus, 9)
        assert bus.flush(LONG)
    assert ns(seen) == list(range(9))
    assert (subscription.failed, subscription.delivered) == (9, 9)
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [
        ValueError,
        KeyError,
        SystemExit,
    ]
    assert "n.*" in caplog.text


def test_a_function_that_hands_out_a_coroutine_is_told_so(bus, caplog):
    async def later(event): ...

    def take(event):
        return later(event)

    subscription = bus.subscribe("*", take)
    numbers(bus, 2)
    assert bus.flush(LONG)
    assert subscription.failed == 2
    assert "async def" in caplog.text


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


def test_a_subscription_ends_with_its_block(bus):
    seen: list[Any] = []
    with bus.subscribe("*", seen.append):
        numbers(bus, 1)
        assert bus.flush(LONG)
    numbers(bus, 1)
    assert bus.flush(LONG)
    assert len(seen) == 1


def test_emitting_and_subscribing_inside_of_a_handler(bus):
    seen: list[Any] = []

    def take(event):
        seen.append(event.type)
        if event.type == "first.one":
            bus.subscribe("third.*", lambda event: seen.append(event.type))
            bus.emit("second.one")
        elif event.type == "second.one":
            bus.emit("third.one")

    bus.subscribe("first.*", take)
    bus.subscribe("second.*", take)
    bus.emit("first.one")
    for _ in range(3):
        assert bus.flush(LONG)
    assert seen == ["first.one", "second.one", "third.one"]


def test_flush_inside_of_a_handler_does_not_wait_for_itself(bus):
    answers = []
    bus.subscribe("*", lambda _: answers.append(bus.flush(LONG)))
    began = time.monotonic()
    numbers(bus, 1)
    assert bus.flush(LONG)
    assert answers == [False]
    assert time.monotonic() - began < LONG


def test_flush_waits_for_what_came_before_and_not_for_what_comes_after(bus, monkeypatch):
    gates = [threading.Event() for _ in range(2)]
    entered = [threading.Event() for _ in range(2)]

    def take(event):
        entered[event.data["n"]].set()
        gates[event.data["n"]].wait(LONG)

    subscription = bus.subscribe("*", take)
    numbers(bus, 1)
    assert entered[0].wait(LONG)
    assert not bus.flush(0)
    has_begun = threading.Event()
    mark = subscription.mark

    def marked():
        found = mark()
        has_begun.set()
        return found

    monkeypatch.setattr(subscription, "mark", marked)
    answers = []
    flushing = threading.Thread(target=lambda: answers.append(bus.flush(LONG)))
    flushing.start()
    # From here on, what comes is after.
    assert has_begun.wait(LONG)
    numbers(bus, 1, start=1)
    gates[0].set()
    assert entered[1].wait(LONG)
    flushing.join(LONG)
    assert answers == [True]
    gates[1].set()


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


def test_close_gives_up_on_a_stuck_subscriber(bus):
    release = threading.Event()
    bus.subscribe("*", lambda _: release.wait(LONG))
    numbers(bus, 2)
    assert not bus.close(0.01)
    assert not bus.wants("n.came")
    release.set()


def test_whether_anybody_wants_a_type_follows_the_subscriptions(bus):
    assert not bus.wants("a.b")
    first = bus.subscribe("a.*", print)
    assert bus.wants("a.b")
    assert not bus.wants("a")
    first.cancel()
    assert not bus.wants("a.b")


def test_an_event_that_nobody_wants_is_not_even_made(bus):
    bus.emit("nobody.cares", what=object())
    bus.subscribe("nobody.*", print)
    with pytest.raises(InvalidInputError):
        bus.emit("nobody.cares", what=object())


def test_what_is_no_type_and_no_event_is_refused(bus):
    for wrong in ("Not A Type", 3, None):
        with pytest.raises(InvalidInputError):
            bus.emit(wrong)


def test_any_number_of_types_takes_a_bounded_memory(bus):
    for n in range(10_000):
        bus.emit(f"n{n}.came")
    assert len(bus._routes) <= 4096


@pytest.mark.parametrize(
    ("pattern", "handler", "limit"),
    [("a*", print, 1), ("*", None, 1), ("*", print, 0), ("*", print, True), ("*", print, 1.5)],
)
def test_what_cannot_be_subscribed_is_refused(bus, pattern, handler, limit):
    with pytest.raises(InvalidInputError) as refused:
        bus.subscribe(pattern, handler, limit=limit)
    assert refused.value.hint


def test_the_first_to_announce_a_checkpoint_is_heard_and_nobody_after(bus):
    seen: list[Any] = []
    bus.subscribe("checkpoint.*", seen.append)
    for origin in ("watch", "recorder"):
        bus.emit(CheckpointCreated(checkpoint_id="ab", branch="main", seq=1, origin=origin))
    bus.emit(CheckpointCreated(checkpoint_id="cd", branch="main", seq=2))
    assert bus.flush(LONG)
    assert [(each.checkpoint_id, each.origin) for each in seen] == [("ab", "watch"), ("cd", "recorder")]


def test_announcing_lasts_as_long_as_its_block(bus):
    with bus.announcing("s"), bus.announcing("s"), bus.announcing("t"):
        assert len(bus.announcements("s")) == 2
        assert len(bus.announcements("t")) == 1
    assert not bus.announcements("s")


def test_a_worker_without_work_ends_and_the_next_event_starts_another(bus, monkeypatch):
    monkeypatch.setattr(delivering, "_IDLE_SECONDS", 0.01)
    workers = []
    subscription = bus.subscribe("*", lambda _: workers.append(threading.current_thread()))
    for n in range(3):
        numbers(bus, 1, start=n)
        assert bus.flush(LONG)
        workers[-1].join(LONG)
        assert not workers[-1].is_alive()
    assert len(workers) == 3
    assert subscription.delivered == 3


def test_a_bus_that_is_let_go_is_gone_and_so_is_its_worker(monkeypatch):
    monkeypatch.setattr(delivering, "_IDLE_SECONDS", 0.01)
    bus, workers = EventBus(), []
    bus.subscribe("*", lambda _: workers.append(threading.current_thread()))
    numbers(bus, 1)
    assert bus.flush(LONG)
    held = weakref.ref(bus)
    del bus
    gc.collect()
    assert held() is None
    workers[0].join(LONG)
    assert not workers[0].is_alive()


def test_a_signal_handler_may_emit_at_any_point(bus):
    seen: list[int] = []
    bus.subscribe("*", lambda event: seen.append(event.data["n"]), limit=1_000_000)
    # Made before: most of the time is then spent where a signal would hurt.
    ready = [occurred("n.came", n=n) for n in range(-1, 100)]
    signals = 0

    def interrupted(number, frame):
        nonlocal signals
        signals += 1
        bus.emit(ready[0])

    before = signal.signal(signal.SIGALRM, interrupted)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        emitted = 0
        while signals < 200:
            for event in ready[1:]:
                bus.emit(event)
            emitted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert bus.flush(LONG)
    assert seen.count(-1) == signals
    assert [n for n in seen if n >= 0] == list(range(100)) * emitted


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_both_sides_of_a_fork_go_on_and_what_was_pending_is_the_parents(tmp_path):
    program = """
    import os, sys, threading
    from holdfast.recording.bus import EventBus

    bus, seen = EventBus(), []
    entered, release = threading.Event(), threading.Event()

    def take(event):
        if event.data["n"] == 0:
            entered.set()
            release.wait(30)
        seen.append(event.data["n"])

    subscription = bus.subscribe("*", take)
    for n in range(3):
        bus.emit("n.came", n=n)
    assert entered.wait(30)
    # Held by a thread that the child will not have.
    holding, free = threading.Event(), threading.Event()
    def hold():
        with bus._lock, subscription._lock:
            holding.set()
            free.wait(30)
    holder = threading.Thread(target=hold)
    holder.start()
    assert holding.wait(30)
    child = os.fork()
    if child == 0:
        bus.emit("n.came", n=7)
        assert bus.flush(30)
        assert seen == [7], seen
        os._exit(0)
    free.set()
    holder.join()
    assert os.waitpid(child, 0)[1] == 0
    release.set()
    assert bus.flush(30)
    assert seen == [0, 1, 2], seen
    print("both")
    """
    assert run(program) == "both\n"


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
