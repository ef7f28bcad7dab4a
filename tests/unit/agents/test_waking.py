"""Waking up from whatever is in the session, and what is refused before the first beat."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.unit.agents.beats import Counting, beat, lives
from tests.unit.store.damage import chunk_of, spoil

import holdfast
from holdfast.agents import Heartbeat, HeartbeatAgent


def test_without_the_runtime_in_the_state_the_record_has_the_beat():
    async def scenario(store):
        await beat(Counting(), store, 3)
        session = store.session("heartbeat")
        state = await session.load()
        del state["runtime"]
        await session.save(state, metadata={"beats": 3})
        return await beat(Counting(), store, 1)

    woken = lives(scenario)
    assert (woken.woke.beat, woken.woke.sources["runtime"], woken.beat) == (3, "missing", 4)


def test_what_has_none_of_the_parts_is_passed_over_and_the_line_of_the_agent_goes_on():
    async def scenario(store):
        await beat(Counting(), store, 3)
        session = store.session("heartbeat")
        await session.save({"x": 1}, "not an agent")
        await session.save([1, 2])
        woken = await beat(Counting(), store, 1)
        again = await beat(Counting(), store, 1)
        return woken, again, (await store.session("heartbeat", branch="main").checkpoint()).seq

    woken, again, head = lives(scenario)
    assert (woken.woke.reason, woken.woke.beat, woken.beat) == ("restored", 3, 4)
    assert woken.agent.seen == [1, 2, 3, 4]
    assert woken.woke.foreign == ("#3", "#2 ('not an agent')")
    assert "passed over, with none of its parts: #3, #2 ('not an agent')" in str(woken.woke)
    assert woken.woke.to_dict()["foreign"] == ["#3", "#2 ('not an agent')"]
    # On a branch of its own, and what was saved by others is where it was.
    assert (again.woke.beat, again.woke.foreign, head) == (4, (), 3)


@dataclass
class Ledger:
    entries: list[int] = field(default_factory=list)
    currency: str = "EUR"


@dataclass
class Smaller:
    entries: list[int] = field(default_factory=list)


class Trader(HeartbeatAgent):
    ledger: Any

    def __init__(self, ledger: Any) -> None:
        super().__init__("trader")
        self.ledger = ledger

    def parts(self) -> dict[str, Any]:
        return super().parts() | {"ledger": self.ledger}


def test_a_part_that_does_not_come_back_is_a_warning_and_never_nothing_lost(caplog):
    async def scenario(store):
        first = await beat(Trader(Ledger([7])), store, 1)
        with caplog.at_level(logging.WARNING, "holdfast.recorder"):
            second = await beat(Trader(Smaller()), store, 1)
        return first, second, await store.session("heartbeat").load()

    first, second, state = lives(scenario)
    assert not first.woke.failed
    assert list(second.woke.failed) == ["ledger"]
    assert "nothing lost" not in str(second.woke)
    assert "not restored: ledger, failed: " in str(second.woke)
    (warning,) = [each.getMessage() for each in caplog.records if each.name == "holdfast.recorder"]
    assert "source 'ledger' could not be restored" in warning
    assert "currency" in warning
    assert state["ledger"] == {"entries": [7], "currency": "EUR"}


def test_a_part_that_cannot_be_saved_is_refused_before_the_first_beat():
    class Locked:
        def snapshot(self):
            return {"inner": [threading.Lock()]}

        def restore(self, value):
            raise AssertionError(value)

    async def scenario(store):
        agent = Trader(Locked())
        heartbeat = Heartbeat(agent, store, interval=0)
        with pytest.raises(holdfast.InvalidInputError) as refused:
            await heartbeat.run(max_beats=1)
        return refused.value, heartbeat.beat, await store.sessions()

    refused, lived, sessions = lives(scenario)
    assert str(refused).startswith("part 'ledger' of the agent cannot be saved: ")
    assert "inner" in str(refused)
    assert (refused.code, lived, sessions) == ("value-unsupported", 0, [])
    # Where nothing is saved, nothing has to be savable.
    assert lives(lambda store: beat(Trader(Locked()), store, 1, enabled=False)).beat == 1


def test_a_part_that_cannot_be_captured_at_this_moment_stops_nobody(caplog):
    class Late:
        ready = False

        def snapshot(self):
            if not self.ready:
                raise ValueError("not yet")
            return 1

        def restore(self, value):
            raise AssertionError(value)

    class Waiting(Trader):
        def act(self, beat):
            self.ledger.ready = True

    async def scenario(store):
        await beat(Waiting(Late()), store, 1)
        return await store.session("heartbeat").load()

    assert lives(scenario)["ledger"] == 1


def test_after_a_damaged_checkpoint_it_is_saved_before_the_first_beat(tmp_path):
    path = tmp_path / "store.db"

    def life(agent, beats):
        async def run():
            async with holdfast.aopen(path, durability="process") as store:
                return await beat(agent, store, beats, trigger=holdfast.every(beats=2))

        return asyncio.run(run())

    life(Counting(), 3)
    with holdfast.open(path) as store:
        newest = store.session("heartbeat").checkpoint()
    spoil(path, "UPDATE chunks SET data = x'00' WHERE number = ?", chunk_of(path, newest.id))
    seen = []

    class Looking(Counting):
        def wake(self, report):
            with holdfast.open(path) as store:
                last = store.session("heartbeat").checkpoint()
                seen.append((last.trigger, last.step, report.beat))

    woken = life(Looking(), 1)
    assert seen == [("auto:wake", 2, 2)]
    assert "nothing lost" not in str(woken.woke)
    assert woken.life.checkpoints == 2


def test_a_store_in_which_nothing_could_be_saved_is_repaired_where_it_is(tmp_path):
    path = tmp_path / "store.db"

    def life(agent):
        async def run():
            async with holdfast.aopen(path, durability="process") as store:
                return await beat(agent, store, 3, trigger=holdfast.every(beats=2))

        return asyncio.run(run())

    life(Counting())
    with holdfast.open(path) as store:
        newest = store.session("heartbeat").checkpoint()
    flip_in_chunk(path, chunk_of(path, newest.id))
    woken = life(Counting())
    assert (woken.woke.reason, woken.woke.beat, woken.woke.at_most_lost) == ("restored", 2, None)
    assert all(Path(each).exists() for each in woken.woke.kept_aside)
    assert woken.woke.kept_aside
    assert life(Counting()).woke.complete


def flip_in_chunk(path, number):
    """Change one byte of a chunk in the file itself, so that its page is damaged and nothing is put onto it."""
    import apsw

    connection = apsw.Connection(str(path), vfs="cksmvfs")
    data = bytes(connection.execute("SELECT data FROM chunks WHERE number = ?", (number,)).get)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    raw = bytearray(path.read_bytes())
    assert raw.count(data) == 1
    raw[raw.index(data) + len(data) // 2] ^= 0xFF
    path.write_bytes(raw)


def test_what_may_have_been_lost_is_what_the_life_before_was_set_to():
    class Killed(BaseException):
        pass

    class Mortal(Counting):
        def act(self, beat):
            if beat.number == 15:
                raise Killed

    async def scenario(store):
        with pytest.raises(Killed):
            await beat(Mortal(), store, 100, trigger=holdfast.every(beats=10))
        return (await beat(Counting(), store, 1, trigger=holdfast.every(beats=3))).woke

    woke = lives(scenario)
    assert (woke.beat, woke.at_most_lost) == (10, 9)


def test_a_first_beat_that_is_cancelled_is_saved_as_beat_0():
    async def scenario(store):
        begun = asyncio.Event()

        class Stuck(Counting):
            async def act(self, beat):
                begun.set()
                await asyncio.sleep(3600)

        heartbeat = Heartbeat(Stuck(), store, interval=0)
        running = asyncio.create_task(heartbeat.run())
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        last = await store.session("heartbeat").checkpoint()
        return last, (await beat(Counting(), store, 1)).woke

    last, woke = lives(scenario)
    assert (last.metadata["beats"], last.step, woke.beat) == (0, 0, 0)


@pytest.mark.parametrize("name", ["wake", "act", "reevaluate"])
def test_a_hook_with_another_signature_is_refused_at_the_start(name):
    wrong = type("Wrong", (Counting,), {name: lambda self: None})
    with pytest.raises(holdfast.InvalidInputError, match=f"'{name}' of Wrong cannot be called") as refused:
        lives(lambda store: beat(wrong(), store, 1))
    assert f"write def {name}(self, " in refused.value.hint


@pytest.mark.parametrize("name", ["wake", "reevaluate"])
def test_a_hook_of_waking_up_that_fails_ends_it_and_the_next_life_has_it_again(name, caplog):
    class Busy(Counting):
        def act(self, beat):
            beat.runtime.channels = {"chat": 1}

    def fail(self, told):
        raise ValueError("not today")

    broken = type("Broken", (Counting,), {name: fail})

    async def scenario(store):
        await beat(Busy(), store, 1)
        before = await store.session("heartbeat").log()
        with pytest.raises(
            holdfast.StateError, match=f"{name}\\(\\) of Broken failed: ValueError: not today"
        ) as end:
            await beat(broken(), store, 1)
        assert before == await store.session("heartbeat").log()
        return end.value, await beat(Counting(), store, 1)

    with caplog.at_level(logging.CRITICAL):
        end, after = lives(scenario)
    assert end.code == "hook-failed"
    assert after.woke.handed_over.channels == {"chat": 1}
