"""What a recorder says by itself, without anybody who subscribed: warnings, the report, and refusals with hints."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pydantic
import pytest

import holdfast
from holdfast import EventBus, InvalidInputError, Recorder, Store, every, on, when


class Part:
    def __init__(self, value: Any = None) -> None:
        self.value = value
        self.error: str | None = None

    def snapshot(self) -> Any:
        if self.error:
            raise OSError(self.error)
        return {"value": self.value}

    def restore(self, value: Any) -> None:
        if self.error:
            raise OSError(self.error)
        self.value = value["value"]


@pytest.fixture
def store() -> Iterator[Store]:
    with holdfast.open("memory:") as opened:
        yield opened


@pytest.fixture
def recorder(store: Store) -> Recorder:
    return Recorder(store.session("s"), trigger=every(steps=1)).connect("part", Part(1))


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [
        each.getMessage()
        for each in caplog.records
        if each.name == "holdfast.recorder" and each.levelno == logging.WARNING
    ]
    caplog.clear()
    return found


def test_a_failing_snapshot_is_logged_once_for_each_reason(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    bad = Part(1)
    recorder.connect("bad", bad)
    recorder.save()
    assert warned(caplog) == []
    bad.error = "no disk"
    recorder.save()
    recorder.save()
    (said,) = warned(caplog)
    assert "'bad'" in said
    assert "no disk" in said
    bad.error = "no network"
    recorder.save()
    assert ["no network" in each for each in warned(caplog)] == [True]


def test_a_source_that_is_not_restored_and_one_that_nobody_claims_are_logged(
    store: Store, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    recorder.connect("mood", Part("good")).save()
    stubborn = Part()
    stubborn.error = "not now"
    again = Recorder(store.session("s")).connect("part", stubborn)

    report = again.resume()

    failed, unclaimed = warned(caplog)
    assert "'part'" in failed
    assert "not now" in failed
    assert "'mood'" in unclaimed
    assert "failed: part (OSError: not now)" in str(report)
    assert not again.bring_back("part")
    assert len(warned(caplog)) == 1


def test_saving_over_the_past_of_another_recorder_is_logged_once(
    store: Store, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    recorder.step(0)
    recorder.step(1)
    assert warned(caplog) == []
    again = Recorder(store.session("s"), trigger=every(steps=1)).connect("part", Part(2))
    again.step(0)
    again.step(1)
    (said,) = warned(caplog)
    assert "without a resume()" in said
    resuming = Recorder(store.session("s"), trigger=every(steps=1)).connect("part", Part(2))
    resuming.resume()
    resuming.step()
    assert warned(caplog) == []


def test_checkpoints_of_people_are_no_past_of_a_recorder(
    store: Store, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    store.session("s").save({"by": "hand"})
    recorder.step(0)
    assert warned(caplog) == []


def test_a_block_in_another_thread_says_that_it_takes_no_signals(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> None:
        with recorder.interrupts():
            pass

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()

    assert ["main thread" in each for each in warned(caplog)] == [True]


async def _says_no(state: Any, last: Any) -> bool:
    return False


class _Asks:
    async def __call__(self, state: Any, last: Any) -> bool:
        return False


@pytest.mark.parametrize("predicate", [_says_no, functools.partial(_says_no), _Asks()])
def test_a_predicate_that_has_to_be_awaited_is_refused(predicate: Any) -> None:
    with pytest.raises(InvalidInputError, match="coroutine function"):
        when(predicate)


def test_a_predicate_that_returns_a_coroutine_is_refused_when_it_is_asked(store: Store) -> None:
    trigger = when(lambda state, last: _says_no(dict(state), last))
    recorder = Recorder(store.session("s"), trigger=trigger).connect("part", Part(1))
    with pytest.raises(InvalidInputError, match="awaited") as refused:
        recorder.step()
    assert refused.value.code == "predicate-failed"
    assert store.session("s").log() == []


@pytest.mark.parametrize(
    "call",
    [
        lambda recorder: recorder.resume(on_damage="x"),
        lambda recorder: recorder.release("zz"),
        lambda recorder: recorder.step(-1),
        lambda recorder: recorder.save(step=-1),
        lambda recorder: recorder.emit("a.b", session="x"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_hint(
    store: Store, recorder: Recorder, call: Callable[[Recorder], object]
) -> None:
    with pytest.raises(InvalidInputError) as refused:
        call(recorder)
    assert refused.value.hint
    assert recorder.steps is None
    assert store.session("s").log() == []


def test_on_damage_is_checked_on_a_loop_too() -> None:
    async def main() -> None:
        async with holdfast.aopen("memory:") as store:
            with pytest.raises(InvalidInputError, match="on_damage"):
                await holdfast.AsyncRecorder(store.session("s")).resume(on_damage="x")  # type: ignore[arg-type]

    asyncio.run(main())


def test_a_known_source_with_nothing_carried_can_be_released(recorder: Recorder) -> None:
    assert recorder.release("part") is recorder


def test_a_frozen_model_cannot_be_a_source(recorder: Recorder) -> None:
    class Frozen(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(frozen=True)
        n: int = 0

    with pytest.raises(InvalidInputError, match="frozen pydantic model"):
        recorder.connect("frozen", Frozen())


def test_times_may_be_timedeltas() -> None:
    assert every(seconds=timedelta(minutes=5)) == every(seconds=300)
    assert on("a.b").throttle(timedelta(minutes=5)) == on("a.b").throttle(300)
    with pytest.raises(InvalidInputError):
        every(seconds=timedelta(0))


def test_a_closed_bus_takes_new_subscribers() -> None:
    bus = EventBus()
    seen: list[Any] = []
    bus.close()
    bus.emit("a.b", at="noon")
    with bus.subscribe("*", seen.append):
        bus.emit("a.c", at="noon")
        assert bus.flush(60)
    assert [(each.type, dict(each.data)) for each in seen] == [("a.c", {"at": "noon"})]
