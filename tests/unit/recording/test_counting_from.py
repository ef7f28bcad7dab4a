"""Recorder.count_from: going on from a number that no checkpoint of a recorder says."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Recorder, every
from holdfast.backends.memory import MemoryBackend
from holdfast.errors import ErrorCode, InvalidInputError


class Source:
    def snapshot(self):
        return {"n": 1}

    def restore(self, state):
        pass


@pytest.fixture
def recorder():
    with holdfast.Store(MemoryBackend()) as store:
        yield Recorder(store.session("s"), trigger=every(beats=5)).connect("part", Source())


def test_beats_and_steps_go_on_from_the_number_given(recorder):
    assert recorder.count_from(beats=40, step=7) is recorder
    assert recorder.beats == 40
    assert recorder.next_step == 8
    saved = recorder.save("by hand")
    assert saved.step == 7
    assert saved.metadata["beats"] == 40


def test_what_is_due_by_beats_counts_from_there(recorder):
    for _ in range(3):
        assert recorder.beat() is None
    recorder.count_from(beats=100)
    assert [recorder.beat() is not None for _ in range(5)] == [False] * 4 + [True]
    assert recorder.beats == 105


def test_a_step_alone_leaves_the_beats_as_they_are(recorder):
    for _ in range(3):
        recorder.beat()
    recorder.count_from(step=9)
    assert recorder.beats == 3
    assert [recorder.beat() is not None for _ in range(2)] == [False, True]


@pytest.mark.parametrize("name", ["beats", "step"])
@pytest.mark.parametrize("number", [-1, 1.5, True, "3"])
def test_what_is_no_count_is_refused_and_nothing_changes(recorder, name, number):
    recorder.count_from(beats=2, step=1)
    with pytest.raises(InvalidInputError) as refused:
        recorder.count_from(**{"beats": 5, "step": 6} | {name: number})
    assert refused.value.code is ErrorCode.BAD_ARGUMENT
    assert name in str(refused.value)
    assert (recorder.beats, recorder.next_step) == (2, 2)
