"""Triggers: when a recorder saves by itself, and the reason that it puts onto the checkpoint."""

from __future__ import annotations

import math

import pytest
from tests.unit.recording.parts import Part

import holdfast
from holdfast import InvalidInputError, Recorder, every, on, when
from holdfast.errors import BackendError
from holdfast.storage.ports import Backend
from holdfast.testing.faults import Fault, FaultyBackend, disk_full, failing

HOUR, DAY = 3600.0, 86400.0


class Clock:
    """A clock to set."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def recorder(store, clock):
    def make(trigger, **more):
        made = Recorder(store.session("s"), trigger=trigger, clock=clock, **more)
        return made.connect("box", Part(0))

    return make


def saved_steps(recorder, steps):
    return [step for step in steps if recorder.step(step) is not None]


def test_after_a_resume_the_restored_step_has_been_checked(recorder, store):
    first = recorder(every(steps=5))
    saved_steps(first, range(11))

    second = recorder(every(steps=5))
    second.resume()

    assert second.next_step == 11
    assert saved_steps(second, [10, 11, 12, 15]) == [15]


def test_beats_go_on_after_a_resume(recorder):
    first = recorder(every(beats=50))
    for _ in range(73):
        first.beat()

    second = recorder(every(beats=50))
    assert second.resume().beats_recovered == 50
    due = [second.beats for _ in range(60) if second.beat() is not None]

    assert due == [100]


def test_a_clock_that_goes_back_an_hour_makes_no_silence(recorder, clock):
    recorder = recorder(every(seconds=300))
    clock.now += 200
    recorder.tick()

    clock.now -= HOUR
    assert recorder.tick() is None
    clock.now += 99
    assert recorder.tick() is None
    clock.now += 1
    assert recorder.tick() is not None


def test_a_clock_that_goes_a_day_ahead_makes_one_save_and_no_storm(recorder, clock):
    recorder = recorder(every(seconds=300))

    clock.now += DAY
    saves = [recorder.tick() for _ in range(10)]
    assert [each is not None for each in saves] == [True] + [False] * 9
    clock.now -= DAY
    assert recorder.tick() is None
    clock.now += 300
    assert recorder.tick() is not None


@pytest.mark.parametrize(
    ("pattern", "due"),
    [("tool.completed", ["tool.completed"]), ("tool.*", ["tool.completed", "tool.call.failed"]), ("*", None)],
)
def test_events_that_fit_the_pattern_save(recorder, pattern, due):
    names = ["tool.completed", "tool.call.failed", "thought.created", "tools.completed"]
    recorder = recorder(on(pattern))

    saved = [name for name in names if recorder.emit(name) is not None]

    assert saved == (names if due is None else due)
    assert recorder.last.trigger == f"auto:{saved[-1]}"


def test_a_predicate_sees_the_state_and_the_last_checkpoint(recorder):
    seen = []

    def is_large(state, last):
        seen.append((dict(state), last))
        return state["box"]["value"] > 3

    box = Part(0)
    made = recorder(when(is_large))
    made.disconnect("box").connect("box", box)

    assert made.step(1) is None
    box.value = 5
    saved = made.tick()
    made.tick()

    assert saved.trigger == "auto:condition"
    assert seen[0] == ({"box": {"value": 0}}, None)
    assert seen[2][1] == saved


def test_only_what_a_predicate_looks_at_is_captured(recorder):
    captured = []

    class Watched(Part):
        def snapshot(self):
            captured.append("watched")
            return super().snapshot()

    made = recorder(when(lambda state, last: state["box"]["value"] > 3 and "watched" in state))
    made.connect("watched", Watched())

    assert made.tick() is None
    assert captured == []


def test_a_throttle_holds_back_and_does_not_lose(recorder, clock):
    recorder = recorder(on("code.modified").throttle(300))

    assert recorder.emit("code.modified") is not None
    clock.now += 100
    assert recorder.emit("code.modified") is None
    clock.now += 199
    assert recorder.tick() is None
    clock.now += 1
    assert recorder.tick().trigger == "auto:code.modified"
    clock.now += 1000
    assert recorder.tick() is None


def test_a_recorder_that_is_not_enabled_saves_by_hand_only(recorder):
    recorder = recorder(every(steps=1) | on("*") | every(beats=1), enabled=False)

    assert recorder.step(0) is recorder.beat() is recorder.emit("a.b") is recorder.tick() is None
    assert recorder.save("by hand").step == 0
    recorder.enabled = True
    assert recorder.step(1) is not None


def test_what_could_not_be_saved_stays_due(clock):
    backend: Backend = FaultyBackend(
        holdfast.open("memory:")._backend, [Fault("commit", nth=1, before=failing(disk_full()))]
    )
    recorder = Recorder(
        holdfast.Store(backend).session("s"),
        trigger=every(steps=10) | on("a.b") & every(beats=2) | every(seconds=50),
        clock=clock,
    ).connect("box", Part(0))
    recorder.emit("a.b")

    with pytest.raises(BackendError):
        recorder.step(10)

    saved = recorder.step(11)
    assert saved is not None
    assert (saved.trigger, saved.step) == ("auto:step", 11)
    assert recorder.step(12) is None
    assert recorder.beat() is recorder.beat() is None


def test_a_save_by_hand_that_fails_loses_nothing_that_was_held_back(clock):
    backend = FaultyBackend(holdfast.open("memory:")._backend)
    recorder = Recorder(
        holdfast.Store(backend).session("s"), trigger=on("a.b").throttle(60), clock=clock
    ).connect("box", Part(0))
    recorder.emit("a.b")
    recorder.emit("a.b")
    backend.plan(Fault("commit", nth=1, before=failing(disk_full())))

    with pytest.raises(BackendError):
        recorder.save()

    clock.now += 60
    assert recorder.tick() is not None


@pytest.mark.parametrize("bad", [0, -1, True, 1.5, "5", math.nan])
@pytest.mark.parametrize("name", ["steps", "beats"])
def test_a_count_that_is_none_is_refused(name, bad):
    with pytest.raises(InvalidInputError) as refused:
        every(**{name: bad})
    assert refused.value.hint


@pytest.mark.parametrize("bad", [0, -1, True, math.nan, math.inf, "5"])
def test_seconds_that_are_none_are_refused(bad):
    for make in (lambda: every(seconds=bad), lambda: on("a.b").throttle(bad)):
        with pytest.raises(InvalidInputError):
            make()


def test_what_says_nothing_about_when_is_refused():
    with pytest.raises(InvalidInputError, match="how often"):
        every()
    with pytest.raises(InvalidInputError):
        on("Not A Pattern")


@pytest.mark.parametrize("bad", ["true", 5])
def test_what_is_no_trigger_is_refused(store, bad):
    with pytest.raises(InvalidInputError):
        when(bad)
    with pytest.raises(InvalidInputError):
        Recorder(store.session("s"), trigger=bad)
    with pytest.raises(TypeError):
        every(steps=5) | bad
