"""Sources that cannot be saved, and what a recorder says about them: carried, counted, told, brought back."""

from __future__ import annotations

import pytest
from tests.unit.recording.parts import Part

import holdfast
from holdfast import Event, InvalidInputError, Recorder, SourceFailed


class Unsayable(Part):
    """A source that gives something that cannot be saved."""

    def snapshot(self):
        return {"lock": object()} if self.value == "bad" else super().snapshot()


def test_a_source_that_cannot_be_encoded_is_carried_and_does_not_stop_the_others(caplog):
    with holdfast.open("memory:") as store:
        good, bad = Part(1), Unsayable(1)
        recorder = Recorder(store.session("s")).connect("good", good).connect("bad", bad)
        told: list[Event] = []
        recorder.events.subscribe("source.failed", told.append)
        recorder.save()
        good.value, bad.value = 2, "bad"

        saved = [recorder.save(), recorder.save()]
        assert recorder.events.flush(5)

        assert [each.metadata for each in saved] == [{"failed_sources": ["bad"]}] * 2
        assert [each["value"] for each in store.session("s").load().values()] == [2, 1]
        failures = [each for each in told if isinstance(each, SourceFailed)]
        assert failures == told
        assert [(each.name, each.phase) for each in failures] == [("bad", "snapshot")] * 2
        assert "object" in failures[0].message
        assert caplog.text.count("'bad' could not be captured") == 1
        bad.value = 3
        assert recorder.save().metadata == {}
        assert store.session("s").load()["bad"] == {"value": 3}


def test_where_nothing_can_be_encoded_the_error_has_the_path():
    with holdfast.open("memory:") as store:
        recorder = Recorder(store.session("s")).connect("bad", Unsayable("bad"))
        with pytest.raises(InvalidInputError, match=r"\['bad'\]\['lock'\]"):
            recorder.save()


@pytest.mark.parametrize("name", ["beats", "failed_sources"])
def test_the_recorders_own_metadata_cannot_be_given(name):
    with holdfast.open("memory:") as store:
        recorder = Recorder(store.session("s")).connect("part", Part(1))
        with pytest.raises(InvalidInputError, match=name):
            recorder.save(metadata={name: 7})
