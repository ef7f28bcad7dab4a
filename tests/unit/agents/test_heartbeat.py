"""Heartbeat: phases, failures, the order of things, and who owns the agent's life."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.unit.agents.beats import Counting, beat, lives, resting

import holdfast
from holdfast.agents import Heartbeat, HeartbeatAgent, Interval
from holdfast.agents.heartbeat.subsystems import ORDER
from holdfast.backends.memory import MemoryBackend
from holdfast.testing.faults import Fault, FaultyBackend, failing, io_failed

PHASES = ["sense", "appraise", "think", "act", "integrate"]


def test_hooks_may_be_coroutines_or_not_and_a_true_answer_means_work():
    class Half(HeartbeatAgent):
        async def sense(self, beat):
            return beat.number > 3

        def act(self, beat):
            if beat.number == 5:
                beat.work()

    seen = []

    class Watching(Interval):
        def after(self, *, worked):
            seen.append(worked)
            return super().after(worked=worked)

    lives(lambda store: Heartbeat(Half(), store, interval=Watching(0, 0)).run(max_beats=6))
    assert seen == [False, False, False, True, True]


def test_what_happens_is_told_on_the_bus():
    async def scenario(store):
        bus = holdfast.EventBus()
        seen: list[Any] = []
        bus.subscribe("*", seen.append)
        heartbeat = Heartbeat(Counting(), store, interval=0, trigger=holdfast.every(beats=2), events=bus)
        await heartbeat.run(max_beats=3)
        await bus.aflush()
        return seen

    seen = lives(scenario)
    assert [each.type for each in seen if each.type != "heartbeat.phase"] == [
        "heartbeat.woke",
        "heartbeat.beat",
        "checkpoint.created",
        "heartbeat.beat",
        "heartbeat.beat",
        "checkpoint.created",
        "heartbeat.slept",
    ]
    assert [each.data["phase"] for each in seen if each.type == "heartbeat.phase"] == PHASES * 3
    created = next(each for each in seen if each.type == "checkpoint.created")
    assert (created.beat_count, created.session, created.trigger) == (2, "heartbeat", "auto:beat")
    assert seen[-1].data["status"] == "paused"


def test_the_agent_can_ask_for_sleep_and_for_a_checkpoint():
    class Tired(Counting):
        def integrate(self, beat):
            if beat.number == 2:
                beat.save()
            if beat.number == 4:
                beat.sleep("enough for today")

    async def scenario(store):
        life = await Heartbeat(Tired(), store, interval=0).run()
        log = await store.session("heartbeat").log()
        return life, [(each.metadata["beats"], each.trigger, each.status) for each in log]

    life, log = lives(scenario)
    assert (life.status, life.reason, life.beat) == ("paused", "enough for today", 4)
    assert log == [(4, "auto:sleep", "paused"), (2, "auto:agent", "running")]


def test_an_error_in_a_hook_is_reported_and_the_agent_lives_on(caplog):
    class Clumsy(Counting):
        def act(self, beat):
            if beat.number in (2, 3, 5):
                raise ValueError(f"oops {beat.number}")

    async def scenario(store):
        heartbeat = Heartbeat(Clumsy(), store, interval=0, max_failures=3)
        failed: list[Any] = []
        heartbeat.events.subscribe("heartbeat.failed", failed.append)
        life = await heartbeat.run(max_beats=6)
        await heartbeat.events.aflush()
        return life, failed, heartbeat.agent.identity.total("total_heartbeats")

    with caplog.at_level(logging.ERROR, "holdfast.heartbeat"):
        life, failed, total = lives(scenario)
    assert (life.status, life.failures, life.beat, total) == ("paused", 3, 6, 6)
    assert [(each.data["beat"], each.data["phase"], each.data["message"]) for each in failed] == [
        (2, "act", "oops 2"),
        (3, "act", "oops 3"),
        (5, "act", "oops 5"),
    ]
    # One traceback for one line of code, and a line of its own for each time.
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ValueError]
    assert ["again: ValueError: oops" in record.getMessage() for record in caplog.records] == [
        False,
        True,
        True,
    ]


def test_too_many_failures_in_a_row_end_with_a_checkpoint(caplog):
    class Broken(Counting):
        def think(self, beat):
            if beat.number > 2:
                raise ValueError("no more")

    async def scenario(store):
        life = await Heartbeat(Broken(), store, interval=0, max_failures=4).run(max_beats=100)
        return life, await store.session("heartbeat").checkpoint()

    with caplog.at_level(logging.CRITICAL):
        life, last = lives(scenario)
    assert (life.status, life.beat, life.failures) == ("failed", 6, 4)
    assert isinstance(life.error, ValueError)
    assert life.reason == "4 beats in a row ended in an error, the last in ValueError: no more"
    assert (last.status, last.metadata["beats"], last.id) == ("failed", 6, life.last.id)


def test_a_failing_store_does_not_end_it_and_what_was_due_stays_due(caplog):
    faults = [Fault("commit", nth=n, before=failing(io_failed())) for n in (2, 3)]

    async def scenario(store):
        heartbeat = Heartbeat(Counting(), store, interval=0, trigger=holdfast.every(beats=2))
        life = await heartbeat.run(max_beats=8)
        return life, [each.metadata["beats"] for each in await store.session("heartbeat").log()]

    with caplog.at_level(logging.CRITICAL):
        life, saved = lives(scenario, FaultyBackend(MemoryBackend(), faults))
    # Beat 4 and 5 could not be saved, so 6 was; then two more pass.
    assert saved == [8, 8, 6, 2]
    assert (life.status, life.failures) == ("paused", 2)


def test_a_store_that_never_comes_back_ends_it_without_hiding_why(caplog):
    faults = [Fault("commit", nth=None, before=failing(io_failed()))]

    async def scenario(store):
        return await Heartbeat(Counting(), store, interval=0, trigger=holdfast.every(beats=1)).run(
            max_beats=50
        )

    with caplog.at_level(logging.CRITICAL):
        life = lives(scenario, FaultyBackend(MemoryBackend(), faults))
    assert (life.status, life.last, life.beat) == ("failed", None, 5)
    assert isinstance(life.error, holdfast.BackendError)


@dataclass
class Ledger:
    """A part of the application's own: a plain dataclass."""

    entries: list[int] = field(default_factory=list)


class Mood:
    """In the place of the affect."""

    def __init__(self):
        self.value = 0

    def snapshot(self):
        return self.value

    async def restore(self, value):
        await asyncio.sleep(0)
        self.value = value


class Own(HeartbeatAgent):
    def __init__(self):
        super().__init__()
        self.mood = Mood()
        self.ledger = Ledger()

    def parts(self):
        parts = super().parts() | {"affect": self.mood, "ledger": self.ledger}
        del parts["ethics"]
        return parts

    def act(self, beat):
        self.mood.value += 1
        self.ledger.entries.append(beat.number)


def test_an_application_replaces_adds_and_leaves_out_parts():
    async def scenario(store):
        await beat(Own(), store, 3)
        agent = Own()
        heartbeat = await beat(agent, store, 1)
        return agent, heartbeat.woke, await store.session("heartbeat").load()

    agent, woke, state = lives(scenario)
    assert (agent.mood.value, agent.ledger.entries) == (4, [1, 2, 3, 4])
    assert list(state) == [*[name for name in ORDER if name != "ethics"], "ledger", "runtime"]
    assert (state["affect"], woke.complete) == (4, True)


def test_a_part_that_is_new_or_does_not_fit_is_named_and_stops_nobody():
    class Older(Own):
        def parts(self):
            return {name: part for name, part in super().parts().items() if name != "goals"} | {
                "mood": self.mood
            }

    class Picky(Own):
        def __init__(self):
            super().__init__()
            self.picky = holdfast.functions(lambda: 0, self.refuse)

        def refuse(self, value):
            raise ValueError("not mine")

        def parts(self):
            return {**super().parts(), "affect": self.picky, "mood": self.mood}

    async def scenario(store):
        await beat(Older(), store, 2)
        picky = Picky()
        heartbeat = await beat(picky, store, 1)
        return picky, heartbeat.woke, await store.session("heartbeat").load()

    picky, woke, state = lives(scenario)
    assert woke.sources["affect"] == "failed: ValueError: not mine"
    assert woke.sources["goals"] == "missing"
    assert not woke.complete
    assert "not in the checkpoint: goals" in str(woke)
    assert "not restored: affect, failed: ValueError: not mine" in str(woke)
    assert picky.ledger.entries == [1, 2, 3]
    # What could not be restored is not overwritten: the stored value is carried forward.
    assert state["affect"] == 2


def test_an_agent_that_forgot_its_parts_or_takes_the_heartbeats_name_is_told():
    class Forgetful(HeartbeatAgent):
        def __init__(self):
            pass

    class Greedy(HeartbeatAgent):
        def parts(self):
            return {**super().parts(), "runtime": Mood()}

    with pytest.raises(holdfast.InvalidInputError, match="affect") as refused:
        lives(lambda store: beat(Forgetful(), store, 1))
    assert "super().__init__()" in refused.value.hint
    with pytest.raises(holdfast.InvalidInputError, match="runtime"):
        lives(lambda store: beat(Greedy(), store, 1))


def test_a_heartbeat_lives_once_and_saves_only_while_it_does():
    async def scenario(store):
        heartbeat = Heartbeat(Counting(), store, interval=0)
        with pytest.raises(holdfast.StateError, match="not awake"):
            await heartbeat.save()
        await heartbeat.run(max_beats=1)
        with pytest.raises(holdfast.StateError, match="has run"):
            await heartbeat.run(max_beats=1)

    lives(scenario)


def test_a_sleeping_heartbeat_can_be_nudged_saved_and_sent_to_sleep():
    async def scenario(store):
        heartbeat = Heartbeat(Counting(), store, interval=3600)
        running = asyncio.create_task(heartbeat.run())
        await resting(heartbeat, 1)
        saved = await heartbeat.save("by hand", tags=["mine"])
        heartbeat.nudge()
        await resting(heartbeat, 2)
        heartbeat.sleep("the day is over")
        return await running, saved

    life, saved = lives(scenario)
    assert (life.status, life.reason, life.beat, life.checkpoints) == ("paused", "the day is over", 3, 2)
    assert (saved.message, saved.tags, saved.metadata["beats"]) == ("by hand", ("mine",), 1)


def test_a_cancelled_task_saves_before_it_ends():
    async def scenario(store):
        heartbeat = Heartbeat(Counting(), store, interval=3600)
        running = asyncio.create_task(heartbeat.run())
        await resting(heartbeat, 1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return heartbeat.life, await store.session("heartbeat").checkpoint()

    life, last = lives(scenario)
    assert (life.status, life.reason) == ("interrupted", "the task was cancelled")
    assert (last.status, last.metadata["beats"], life.last.id) == ("interrupted", 1, last.id)


def test_a_heartbeat_that_lost_its_lease_ends_and_writes_nothing_more():
    async def scenario(store):
        heartbeat = Heartbeat(Counting(), store, session="a", interval=0, trigger=holdfast.every(beats=1))

        def steal(beat):
            if beat.number == 3:
                # What another machine does once the time is over: the claim is not the one that the holder knows.
                inner = store._store._backend
                inner.release(inner.lease("heartbeat:a"))
                taken.append(store._store.lease("heartbeat:a"))

        taken: list[Any] = []
        setattr(heartbeat.agent, "act", steal)  # noqa: B010 - a method
        with pytest.raises(holdfast.ConflictError) as lost:
            await heartbeat.run(max_beats=10)
        taken[0].release()
        log = await store.session("a").log()
        assert isinstance(heartbeat.agent, Counting)
        assert heartbeat.agent.seen == [1, 2, 3]
        return lost.value, heartbeat.life, [each.metadata["beats"] for each in log]

    lost, life, saved = lives(scenario)
    assert lost.code == "lease-lost"
    # At once: the beat did not fail, and nothing is tried again.
    assert (life.status, life.failures, saved) == ("failed", 0, [2, 1])


def test_somebody_elses_checkpoint_does_not_end_a_life_and_the_next_one_goes_on_where_it_was():
    async def scenario(store):
        class Watched(Counting):
            async def act(self, beat):
                if beat.number == 3:
                    await store.session("heartbeat").save({"a": "note"}, "by a person")

        trigger = holdfast.every(beats=2)
        first = Heartbeat(Watched(), store, interval=0, trigger=trigger)
        forked: list[Any] = []
        first.events.subscribe("recorder.forked", forked.append)
        await first.run(max_beats=6)
        await first.events.aflush()
        second = await beat(Counting(), store, 1)
        return forked, second, await store.current_branch("heartbeat")

    forked, second, branch = lives(scenario)
    assert len(forked) == 1
    assert branch == forked[0].branch != "main"
    assert (second.woke.beat, second.woke.complete, second.beat) == (6, True, 7)


def test_switched_off_it_neither_restores_nor_saves():
    async def scenario(store):
        await beat(Counting(), store, 2)
        before = await store.session("heartbeat").log()
        off = await beat(Counting(), store, 3, enabled=False, trigger=holdfast.every(beats=1))
        return off, before == await store.session("heartbeat").log()

    off, unchanged = lives(scenario)
    assert unchanged
    assert (off.woke.reason, off.life.last, off.beat) == ("disabled", None, 3)


def test_numbers_that_make_no_sense_are_refused():
    async def scenario(store):
        for given in ({"max_failures": 0}, {"interval": -1}, {"session": "x" * 5000}):
            with pytest.raises(holdfast.InvalidInputError):
                await beat(Counting(), store, 1, **given)
        with pytest.raises(holdfast.InvalidInputError):
            await Heartbeat(Counting(), store).run(max_beats=0)

    lives(scenario)
