"""A heartbeat over a long time: a clock that jumps, and thousands of beats that leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import threading
import tracemalloc
from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.agents.beats import Counting, beat, lives

import holdfast
from holdfast.agents import Heartbeat
from holdfast.backends.memory import MemoryBackend
from holdfast.backends.sqlite import SqliteBackend
from holdfast.testing.faults import Fault, FaultyBackend

HOUR = 3_600_000_000
NOON = 1_800_000_000_000_000


class Clock:
    """Microseconds that a test sets; they never stand still."""

    def __init__(self):
        self.now = NOON

    def __call__(self):
        self.now += 1
        return self.now


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    """A store whose clock the test sets."""
    backend = (
        MemoryBackend()
        if request.param == "memory"
        else SqliteBackend.open(tmp_path / "store.db", durability="process", create=True, timeout=10.0)
    )
    clock = Clock()
    opened = holdfast.Store(backend, clock=clock)
    yield opened, clock
    opened.close()


class Jumping(Counting):
    """The clock goes back an hour in beat 5."""

    def __init__(self, clock, jump):
        super().__init__()
        self._clock = clock
        self._jump = jump

    def act(self, beat):
        if beat.number == 5:
            self._clock.now += self._jump


@pytest.mark.parametrize("jump", [-HOUR, HOUR], ids=["back", "forward"])
def test_a_clock_that_jumps_by_an_hour_changes_nothing_about_what_is_saved_and_restored(store, jump):
    opened, clock = store
    trigger = holdfast.every(beats=2)
    asyncio.run(beat(Jumping(clock, jump), opened, 9, trigger=trigger))
    log = opened.session("heartbeat").log()

    assert [each.metadata["beats"] for each in log] == [9, 8, 6, 4, 2]
    assert all(older.created_at < newer.created_at for newer, older in itertools.pairwise(log))
    restored: list[object] = []

    async def again():
        heartbeat = Heartbeat(Counting(), opened, interval=0, trigger=trigger)
        heartbeat.events.subscribe("checkpoint.restored", restored.append)
        await heartbeat.run(max_beats=3)
        await heartbeat.events.aflush()
        return heartbeat

    second = asyncio.run(again())
    assert (second.woke.beat, second.woke.complete) == (9, True)
    assert second.woke.age_seconds >= 0
    assert restored[0].age_seconds >= 0  # type: ignore[attr-defined]
    assert [each.metadata["beats"] for each in opened.session("heartbeat").log()][:2] == [12, 11]


def test_a_clock_that_was_set_back_between_two_lives_does_not_hide_the_newest_checkpoint(store):
    opened, clock = store
    asyncio.run(beat(Counting(), opened, 3))
    clock.now -= HOUR
    second = asyncio.run(beat(Counting(), opened, 3))
    clock.now -= HOUR
    third = asyncio.run(beat(Counting(), opened, 1))

    assert (second.beat, third.beat) == (6, 7)
    assert isinstance(third.agent, Counting)
    assert third.agent.seen == list(range(1, 8))


def test_the_agents_database_is_compared_with_the_checkpoint_and_not_with_the_clock(store):
    opened, clock = store
    written = datetime.fromtimestamp(NOON / 1e6, UTC) + timedelta(minutes=30)

    class WithDatabase(Counting):
        def database_time(self):
            return written

    clock.now += HOUR
    asyncio.run(beat(Counting(), opened, 3))
    # Long before the database was written, says the clock; but the checkpoint is newer.
    clock.now -= 2 * HOUR
    woke = asyncio.run(beat(WithDatabase(), opened, 1)).woke
    assert woke is not None
    assert woke.reason == "restored"


def test_a_heartbeat_whose_lease_cannot_be_renewed_ends_though_the_renewal_hangs():
    faulty, goes_on = FaultyBackend(MemoryBackend()), threading.Event()

    def hang() -> None:
        goes_on.wait()

    faulty.plan(Fault("renew", nth=None, before=hang))

    async def run():
        async with holdfast.AsyncStore(faulty) as opened:
            heartbeat = Heartbeat(
                Counting(), opened, interval=3600, trigger=holdfast.every(beats=100), lease_seconds=1.0
            )
            # It rests for an hour: only the loss of the lease wakes it.
            with pytest.raises(holdfast.ConflictError) as lost:
                await heartbeat.run()
            return lost.value, heartbeat.life, await opened.session("heartbeat").log()

    try:
        lost, life, saved = asyncio.run(run())
    finally:
        goes_on.set()
    assert lost.code == "lease-lost"
    assert (life.status, saved) == ("failed", [])


class Heavy(Counting):
    """A megabyte of state, of which each beat changes a little here and there.

    So much changes between two checkpoints that what the store keeps at hand of the last ones is at its limit soon.
    """

    def __init__(self):
        super().__init__()
        self.pages = [f"{n:010}" * 100 for n in range(1000)]
        self.marks = []

    def parts(self):
        parts = super().parts() | {"pages": holdfast.attributes(self, "pages")}
        del parts["seen"]
        return parts

    def sense(self, beat):
        for place in range(beat.number % 50, 1000, 50):
            self.pages[place] = f"{beat.number:06}{place:04}" * 100
        if beat.number % 400 == 0:
            gc.collect()
            files = len(os.listdir("/proc/self/fd"))
            self.marks.append((tracemalloc.get_traced_memory()[0], files, len(asyncio.all_tasks())))


def test_two_thousand_beats_with_a_megabyte_of_state_leave_no_memory_and_no_file_open(tmp_path):
    backend = SqliteBackend.open(tmp_path / "store.db", durability="process", create=True, timeout=10.0)
    tracemalloc.start()
    try:
        agent = Heavy()
        # The lease is not renewed meanwhile: where that met a save, it would take a connection of its own, which stays.
        ended = lives(lambda store: beat(agent, store, 2000, lease_seconds=3600), backend)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert ended.life.checkpoints == 41
    held, files, tasks = zip(*agent.marks, strict=True)
    assert len(held) == 5
    assert len(set(files)) == len(set(tasks)) == 1
    # Pages that change have the same size: 400 beats more hold nothing more. Once they may (tests/memory.py says what
    # does not belong to them); what a beat leaves behind is there each time.
    growths = sorted(later - earlier for earlier, later in itertools.pairwise(held))
    assert growths[-2] < 30_000
    # While a save is under way there are the state, its bytes, and what is on its way into the store.
    assert peak < max(held) * 2
