"""A recorder as the settings want it."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Keep, Recorder, Settings, every
from holdfast.recording.triggers import keep_from, trigger_from


class Part:
    def snapshot(self):
        return 1

    def restore(self, value):
        pass


def settings(tmp_path, **arguments):
    return Settings.load(store=tmp_path / "none.db", environ={}, **arguments)


def test_by_default_every_step_and_50_beats_and_at_most_10_for_30_days(tmp_path):
    found = settings(tmp_path)

    assert trigger_from(found) == every(steps=1, beats=50)
    assert keep_from(found) == Keep(at_most=10, max_age_days=30)


def test_whichever_interval_comes_first(tmp_path):
    found = settings(tmp_path, checkpoint_interval_steps=10, checkpoint_interval_seconds=300)

    assert trigger_from(found) == every(steps=10, seconds=300, beats=50)


def test_without_auto_there_is_no_trigger(tmp_path):
    assert trigger_from(settings(tmp_path, checkpoint_auto=False)) is None


def test_rules_to_keep_are_joined_with_the_caps(tmp_path):
    found = settings(tmp_path, keep_last=5, keep_at_most=7, checkpoint_max_count=3)

    assert keep_from(found) == Keep(last=5, at_most=7)


def test_a_cap_that_nobody_set_takes_nothing_that_a_rule_keeps(tmp_path):
    assert keep_from(settings(tmp_path, keep_last=100)) == Keep(last=100)
    assert keep_from(settings(tmp_path, keep_days=90, checkpoint_max_count=5)) == Keep(days=90, at_most=5)
    assert keep_from(settings(tmp_path, keep_per="branch")) == Keep(at_most=10, max_age_days=30, per="branch")


@pytest.mark.parametrize("enabled", [True, False])
def test_a_recorder_of_the_environment_saves_keeps_and_can_be_switched_off(tmp_path, enabled):
    environ = {
        "HOLDFAST_CHECKPOINT_ENABLED": str(enabled).lower(),
        "HOLDFAST_CHECKPOINT_INTERVAL_BEATS": "2",
        "HOLDFAST_CHECKPOINT_MAX_COUNT": "3",
    }
    found = Settings.load(store=tmp_path / "none.db", environ=environ)
    with holdfast.open("memory:") as store:
        recorder = Recorder.from_settings(store.session("s"), found).connect("part", Part())
        saves = sum(recorder.beat() is not None for _ in range(20))

        assert saves == (10 if enabled else 0)
        assert len(store.session("s").log()) == (3 if enabled else 0)
