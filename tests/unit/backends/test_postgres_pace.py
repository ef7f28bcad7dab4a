"""Whether trips to PostgreSQL take longer than they could: only then a save waits for others to go with."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

pytest.importorskip("psycopg")

from holdfast.backends.postgres import gathering
from holdfast.backends.postgres.gathering import Pace


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(gathering, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def noted(pace: Pace, seconds: float, count: int = 1, times: int = 40) -> bool:
    for _ in range(times):
        pace.note(seconds, count)
    return pace.is_slow


def test_trips_that_take_as_long_as_they_can_are_not_slow(clock: SimpleNamespace) -> None:
    pace = Pace()
    assert not pace.is_slow
    # Far away, and always the same: there is nothing to gain by waiting.
    assert not noted(pace, 0.2)
    assert not noted(pace, 0.9)
    assert noted(pace, 1.1)


def test_what_is_slow_stays_so_until_it_is_quick_again(clock: SimpleNamespace) -> None:
    pace = Pace()
    noted(pace, 0.001)
    assert not noted(pace, 0.003)
    assert noted(pace, 0.006)
    assert noted(pace, 0.0016)
    assert not noted(pace, 0.0014)
    assert not noted(pace, 0.003)


def test_times_that_differ_are_not_slow(clock: SimpleNamespace) -> None:
    source = random.Random(7)
    for least, more in ((0.001, 0.002), (0.005, 0.006)):
        pace = Pace()
        assert not any(noted(pace, least + source.expovariate(1 / more), times=1) for _ in range(3000))


def test_some_that_are_held_up_say_nothing(clock: SimpleNamespace) -> None:
    pace = Pace()
    noted(pace, 0.001)
    assert not noted(pace, 20.0, times=15)
    noted(pace, 0.001)
    for _ in range(300):
        assert not noted(pace, 0.05, times=1)
        assert not noted(pace, 0.001, times=3)


def test_a_group_may_take_longer_than_one_alone(clock: SimpleNamespace) -> None:
    pace = Pace()
    noted(pace, 0.001)
    assert not noted(pace, 0.012, count=4)
    assert noted(pace, 0.013, count=4)
    assert not noted(pace, 0.0037, count=4)
    # What a group takes for each is no measure of how quick a trip can be.
    assert not noted(pace, 0.0001, count=16)
    assert not noted(pace, 0.0049)


def test_what_was_quick_once_is_no_measure_for_ever(clock: SimpleNamespace) -> None:
    pace = Pace()
    noted(pace, 0.001)
    assert noted(pace, 0.01)
    clock.now += 31
    assert noted(pace, 0.01)
    clock.now += 31
    assert not noted(pace, 0.01)
    clock.now += 31
    # A time in which no trip was that of one alone says nothing of how quick one can be.
    assert not noted(pace, 0.01, count=2)
    clock.now += 31
    assert not noted(pace, 0.012)
