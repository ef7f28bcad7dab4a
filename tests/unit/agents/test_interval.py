"""The pause between two beats, and what the heartbeat itself remembers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.agents.heartbeat.interval import Interval
from holdfast.agents.heartbeat.runtime import FORMAT_VERSION, Phase, Runtime

SECONDS = st.floats(0, 1000)


@given(SECONDS, SECONDS, st.lists(st.booleans(), max_size=60))
def test_the_pause_stays_within_its_bounds_whatever_happens(one, other, beats):
    low, high = sorted((one, other))
    interval = Interval(low, high)
    for worked in beats:
        before = interval.seconds
        after = interval.after(worked=worked)
        assert low <= after <= high
        assert after <= before if worked else after >= before


@given(st.floats(0, 10), st.floats(11, 1000))
def test_idle_beats_lead_to_the_longest_pause_and_work_to_the_shortest(low, high):
    interval = Interval(low, high)
    for _ in range(200):
        interval.after(worked=False)
    assert interval.seconds == high
    for _ in range(600):
        interval.after(worked=True)
    assert interval.seconds == pytest.approx(low)


def test_a_restored_pause_is_brought_into_the_bounds_of_today():
    interval = Interval(1, 10)
    interval.seconds = 100
    assert interval.seconds == 10
    interval.seconds = 0
    assert interval.seconds == 1
    assert Interval.fixed(3).after(worked=False) == 3


@pytest.mark.parametrize("bounds", [(2, 1), (-1, 1), (0, float("nan")), (True, 1), (0, 1e9), ("1", 2)])
def test_bounds_that_make_no_sense_are_refused(bounds):
    with pytest.raises(holdfast.InvalidInputError):
        Interval(*bounds)


def runtime() -> Runtime:
    return Runtime(Interval(1, 100), app_version="2.1")


def test_beat_and_interval_come_back_the_phase_is_information_and_the_rest_is_handed_over_once():
    old, new = runtime(), runtime()
    old.lived, old.interval.seconds, old.phase = 73, 12.5, Phase.INTEGRATE
    old.swarms, old.subagents = [{"id": "s1"}], [{"id": "a1", "progress": 0.4}]
    old.channels = {"chat": {"user": "ann"}}
    new.restore(old.snapshot())

    assert (new.beat, new.interval.seconds) == (73, 12.5)
    assert (new.phase, new.last_life) == (Phase.ASLEEP, "integrate")
    assert (new.swarms, new.subagents, new.channels) == ([], [], {})
    left = new.hand_over()
    assert left is not None
    assert (left.swarms, left.subagents, left.channels) == (old.swarms, old.subagents, old.channels)
    assert new.hand_over() is None


def test_a_snapshot_says_which_application_and_which_format_it_is_of():
    made = runtime().snapshot()
    assert (made["app_version"], made["format_version"]) == ("2.1", FORMAT_VERSION)


@pytest.mark.parametrize(
    "change",
    [{"format_version": FORMAT_VERSION + 1}, {"beat": -1}, {"beat": "3"}, {"interval": -2.0}, {"x": 1}],
)
def test_a_runtime_that_does_not_fit_is_refused_and_changes_nothing(change):
    new = runtime()
    before = new.snapshot()
    with pytest.raises(holdfast.StateError):
        new.restore({**before, "beat": 9, **change})
    assert new.snapshot() == before
