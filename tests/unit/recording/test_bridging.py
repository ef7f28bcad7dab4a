"""The bridge: what others put into a store, as events, each once."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
import time

import pytest

import holdfast
from holdfast import BackendError, EventBus, Keep, bridge
from holdfast.errors import ErrorCode
from holdfast.recording.events import CheckpointCreated

LONG = 30.0


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    return tmp_path if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def store(place):
    with holdfast.open(place, durability="process") as opened:
        yield opened


@pytest.fixture
def memory():
    with holdfast.open("memory:") as opened:
        yield opened


@pytest.fixture
def bus():
    with EventBus() as made:
        yield made


@pytest.fixture
def seen(bus):
    found: list[CheckpointCreated] = []
    bus.subscribe("checkpoint.*", found.append)
    return found


def wait_for(seen, count):
    until = time.monotonic() + LONG
    while len(seen) < count and time.monotonic() < until:
        time.sleep(0.005)
    return seen


def test_a_save_of_another_process_is_an_event_of_this_one(store, place, bus, seen):
    program = (
        "import sys, holdfast\n"
        "with holdfast.open(sys.argv[1]) as store:\n"
        "    s = store.session('other')\n"
        "    for n in range(3): s.save({'n': n}, step=n, trigger='auto:step', metadata={'beats': n})\n"
    )
    with bridge(store, bus):
        subprocess.run([sys.executable, "-c", program, str(place)], check=True)
        wait_for(seen, 3)
    saved = store.session("other").log()[::-1]
    assert [each.checkpoint_id for each in seen] == [each.id for each in saved]
    assert [(e.type, e.session, e.origin, e.step, e.beat_count, e.trigger) for e in seen] == [
        ("checkpoint.created", "other", "watch", n, n, "auto:step") for n in range(3)
    ]


def test_what_was_saved_before_the_end_of_the_block_is_emitted(memory, bus, seen):
    memory.session("before").save({})
    with bridge(memory, bus):
        for n in range(300):
            memory.session("s").save({"n": n})
    memory.session("s").save({"after": 1})
    assert bus.flush(LONG)
    assert [each.seq for each in seen] == list(range(1, 301))


def test_one_session_alone(memory, bus, seen):
    with bridge(memory, bus, session="a"):
        memory.session("a").save({})
        memory.session("b").save({})
        memory.session("b").delete("@")
    assert bus.flush(LONG)
    assert [(each.type, each.session) for each in seen] == [("checkpoint.created", "a")]


def test_what_a_recorder_announces_itself_comes_once_and_from_it(memory, bus, seen):
    """However the two race: a recorder emits after its save, and the bridge may see the checkpoint before that."""
    session = memory.session("s")
    with bridge(memory, bus):
        for n in range(30):
            with bus.announcing("s"):
                saved = session.save({"n": n})
                if n % 3 == 0:
                    # Long enough for the bridge to see it first.
                    time.sleep(0.02)
                bus.emit(CheckpointCreated.of(saved, beat_count=n))
            memory.session("other").save({"n": n})
    assert bus.flush(LONG)
    ours = [each for each in seen if each.session == "s"]
    assert [(each.seq, each.origin, each.beat_count) for each in ours] == [
        (n + 1, "recorder", n) for n in range(30)
    ]
    assert [each.origin for each in seen if each.session == "other"] == ["watch"] * 30


def test_a_recorder_that_is_always_saving_does_not_hold_up_others(memory, bus, seen):
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            # One begins before the other ends: there is always one under way.
            with bus.announcing("s"):
                time.sleep(0.002)

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for each in threads:
        each.start()
    try:
        with bridge(memory, bus):
            for n in range(5):
                memory.session("s").save({"n": n})
    finally:
        stop.set()
        for each in threads:
            each.join()
    assert bus.flush(LONG)
    assert len(seen) == 5


def test_removals_through_this_store_are_events(memory, bus, seen):
    session = memory.session("s")
    saved = [session.save({"n": n}) for n in range(6)]
    with bridge(memory, bus):
        session.delete(saved[0])
        session.prune(Keep(last=3), dry_run=True)
        session.prune(Keep(last=3))
        last = memory.session("s", keep=Keep(last=2)).save({"n": 6})
        memory.forget("s", saved[5], clean=False)
        memory.forget("s", dry_run=True)
        session.clear()
        session.clear()
    assert bus.flush(LONG)
    told = [(each.reason, each.count, each.ids) for each in seen if each.type == "checkpoint.pruned"]
    assert told == [
        ("delete", 1, (saved[0].id,)),
        ("prune", 2, (saved[2].id, saved[1].id)),
        ("retention", 2, (saved[4].id, saved[3].id)),
        # What is forgotten is not named any more.
        ("forget", 1, ()),
        ("clear", 1, (last.id,)),
    ]
    session.save({})
    session.delete("@")
    assert bus.flush(LONG)
    assert len([each for each in seen if each.type == "checkpoint.pruned"]) == 5


def test_an_async_store_can_be_bridged_too(bus, seen):
    async def main():
        async with holdfast.aopen("memory:") as store:
            with bridge(store, bus):
                await store.session("s").save({"a": 1})

    asyncio.run(main())
    assert bus.flush(LONG)
    assert [each.session for each in seen] == ["s"]


def test_a_store_that_is_closed_ends_it_quietly(bus, caplog):
    store = holdfast.open("memory:")
    made = bridge(store, bus)
    store.close()
    made._thread.join(LONG)
    assert not made._thread.is_alive()
    assert made.error is not None
    assert made.error.code == "store-closed"
    assert caplog.text == ""
    made.close()
    made.close()


def test_a_store_that_cannot_be_asked_is_asked_again_and_nothing_is_lost(
    memory, bus, seen, monkeypatch, caplog
):
    monkeypatch.setattr("holdfast.recording.bridging._AGAIN_AFTER", 0.01)
    gone, asked = threading.Event(), []
    ask = memory._backend.wait_for_checkpoint

    def wait_for_checkpoint(after, timeout):
        if gone.is_set():
            asked.append(after)
            raise BackendError("the server is gone", code=ErrorCode.SERVER_GONE, hint="wait")
        return ask(after, timeout)

    monkeypatch.setattr(memory._backend, "wait_for_checkpoint", wait_for_checkpoint)
    with caplog.at_level(logging.WARNING, "holdfast.events"), bridge(memory, bus) as made:
        gone.set()
        memory.session().save({})
        wait_for(asked, 5)
        assert len(asked) >= 5
        gone.clear()
        wait_for(seen, 1)
    assert [each.seq for each in seen] == [1]
    assert made.error is None
    assert caplog.text.count("goes on trying") == 1
