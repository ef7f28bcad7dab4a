"""Recorder: one moment per checkpoint, restored in order, with nothing lost where a source fails."""

from __future__ import annotations

from dataclasses import dataclass

import pydantic
import pytest

import holdfast
from holdfast import (
    BackendError,
    Event,
    InvalidInputError,
    NotFoundError,
    Recorder,
    functions,
)
from holdfast.testing.faults import Fault, FaultyBackend, disk_full, failing


class Part:
    """A source that keeps count of what is done with it."""

    log: list[str]

    def __init__(self, value=None, *, name="", log=None):
        self.value = value
        self.name = name
        self.log = [] if log is None else log
        self.broken = False

    def snapshot(self):
        if self.broken:
            raise OSError("the sensor is gone")
        return {"value": self.value}

    def restore(self, value):
        self.log.append(self.name)
        if self.broken:
            # What it was given is its own: it may well be half changed by now.
            value["value"] = "spoilt"
            raise OSError("the sensor is gone")
        self.value = value["value"]


@pytest.fixture
def place(tmp_path):
    return tmp_path / "s.db"


@pytest.fixture
def store(place):
    with holdfast.open(place, durability="process") as opened:
        yield opened


def recorder_of(store, *, session="s", **parts):
    made = Recorder(store.session(session))
    for name, part in parts.items():
        made.connect(name, part, optional=part is None)
    return made


def collected(recorder, pattern="*"):
    """Every event from now on; ask after a flush."""
    events: list[Event] = []
    recorder.events.subscribe(pattern, events.append)

    def so_far():
        assert recorder.events.flush(5)
        return events

    return so_far


def test_the_state_is_the_snapshots_by_name_in_the_order_of_connecting(store):
    recorder = recorder_of(store, b=Part(1), a=Part(2))

    saved = recorder.save("first", tags=["x"], metadata={"model": "m1"}, step=7, tokens=5)

    state = store.session("s").load()
    assert list(state.items()) == [("b", {"value": 1}), ("a", {"value": 2})]
    assert (saved.message, saved.tags, saved.metadata) == ("first", ("x",), {"model": "m1"})
    assert (saved.step, saved.tokens, saved.trigger, saved.status) == (7, 5, "manual", "running")


def test_without_a_checkpoint_there_is_nothing_to_resume(store):
    assert recorder_of(store, a=Part()).resume() is None


def test_a_ref_or_a_branch_that_is_not_there_is_an_error(store):
    recorder_of(store, a=Part(1)).save()

    with pytest.raises(NotFoundError):
        recorder_of(store, a=Part()).resume("#7")
    with pytest.raises(NotFoundError):
        Recorder(store.session("s", branch="typo")).connect("a", Part()).resume()


def test_everything_is_decoded_before_anything_is_applied(store, place):
    log = []

    class Mood:
        pass

    class Memory(pydantic.BaseModel):
        size: int = 0

        @pydantic.field_validator("size")
        @classmethod
        def look(cls, size):
            log.append("memory decoded")
            return size

    def decode(_data):
        log.append("mood decoded")
        return Mood()

    store.register(Mood, encode=lambda _: 1, decode=decode)
    recorder_of(
        store, first=Part(1), memory=functions(lambda: {"size": 3}, print), mood=functions(Mood, print)
    ).save()
    log.clear()

    memory = Memory.model_construct(size=0)
    report = recorder_of(
        store,
        first=Part(name="first applied", log=log),
        memory=memory,
        mood=functions(Mood, lambda _: log.append("mood applied")),
    ).resume()

    assert report.complete
    assert log[:3] == ["mood decoded", "memory decoded", "first applied"]
    assert log[-1] == "mood applied"
    assert memory.size == 3


def test_what_does_not_fit_an_adapter_changes_nothing_and_stops_no_other(store):
    @dataclass
    class Goals:
        open: int = 0

    recorder_of(store, goals=functions(lambda: {"gone": 1}, print), a=Part(1)).save()
    goals, part = Goals(), Part()
    recorder = recorder_of(store, goals=goals, a=part)
    told = collected(recorder, "source.*")

    report = recorder.resume()

    assert (goals, part.value) == (Goals(0), 1)
    assert "'gone'" in report.sources["goals"].message
    assert [(each.name, each.phase) for each in told()] == [("goals", "restore")]


def test_a_type_that_no_longer_fits_stops_no_other_source_and_is_kept(store, place):
    class Old:
        def __init__(self, n):
            self.n = n

    old = holdfast.open(place, durability="process")
    old.register(Old, name="Mood", encode=lambda mood: mood.n, decode=Old)
    recorder_of(old, mood=functions(lambda: Old(3), print), a=Part(1)).save()
    old.close()

    def refuse(_data):
        raise ValueError("no such mood")

    new = holdfast.open(place, durability="process")
    new.register(Old, name="Mood", encode=lambda mood: mood.n, decode=refuse)
    part = Part()
    recorder = recorder_of(new, mood=functions(lambda: "calm", print), a=part)
    report = recorder.resume()
    recorder.save()
    new.close()

    assert part.value == 1
    assert report.named("failed") == ("mood",)
    assert not report.complete
    with holdfast.open(place, durability="process") as again:
        again.register(Old, name="Mood", encode=lambda mood: mood.n, decode=Old)
        assert again.session("s").load()["mood"].n == 3


def test_what_nobody_asks_for_is_named_and_left_out_of_the_next_save(store):
    recorder_of(store, a=Part(1), b=Part(2)).save()

    recorder = recorder_of(store, a=Part())
    report = recorder.resume()
    recorder.save()

    assert report.unclaimed == ("b",)
    assert report.complete
    assert store.session("s").load() == {"a": {"value": 1}}


def test_a_source_that_cannot_take_its_state_is_carried_forward_until_it_is_back(store):
    recorder_of(store, a=Part(1), b=Part(2)).save()
    broken = Part("fresh")
    broken.broken = True
    recorder = recorder_of(store, a=broken, b=Part())
    told = collected(recorder, "source.failed")

    report = recorder.resume()
    broken.broken = False
    saved = [recorder.save() for _ in range(3)]

    assert report.sources["a"].outcome == "failed"
    assert "the sensor is gone" in report.sources["a"].message
    assert store.session("s").load() == {"a": {"value": 1}, "b": {"value": 2}}
    assert [each.metadata["failed_sources"] for each in saved] == [["a"]] * 3
    assert [(each.name, each.phase) for each in told()] == [("a", "restore")]

    third = Part()
    third.broken = True
    again = recorder_of(store, a=third, b=Part())
    again.resume()
    again.save()
    third.broken = False
    assert again.resume().complete
    third.value = 9
    assert "failed_sources" not in again.save().metadata
    assert store.session("s").load()["a"] == {"value": 9}


def test_a_snapshot_that_fails_is_replaced_by_what_was_stored_last(store):
    a, b = Part(1), Part(1)
    recorder = recorder_of(store, a=a, b=b)
    told = collected(recorder, "source.failed")
    recorder.save()
    a.value = b.value = 2
    recorder.save()

    a.value, b.value, a.broken = 3, 3, True
    failed = [recorder.save(), recorder.save()]
    assert store.session("s").load() == {"a": {"value": 2}, "b": {"value": 3}}
    assert list(store.session("s").load()) == ["a", "b"]
    assert [each.metadata for each in failed] == [{"failed_sources": ["a"]}] * 2
    assert [(each.name, each.phase) for each in told()] == [("a", "snapshot")] * 2

    a.broken, a.value = False, 4
    recorder.save()
    a.broken = True
    recorder.save()
    assert store.session("s").load()["a"] == {"value": 4}


def test_an_absent_source_is_carried_forward_and_gets_its_state_when_it_comes(store):
    recorder_of(store, affect=Part(1), b=Part(2)).save()

    recorder = recorder_of(store, affect=None, b=Part())
    report = recorder.resume()
    recorder.save()
    assert report.sources["affect"].outcome == "absent"
    assert report.complete
    assert store.session("s").load() == {"affect": {"value": 1}, "b": {"value": 2}}

    affect = Part()
    recorder.connect("affect", affect)
    # Not before it has its state: what it was made with would be saved over that.
    assert recorder.save().metadata["failed_sources"] == ["affect"]
    assert store.session("s").load()["affect"] == {"value": 1}
    recorder.resume()
    assert affect.value == 1
    affect.value = 5
    assert "failed_sources" not in recorder.save().metadata
    assert store.session("s").load()["affect"] == {"value": 5}


def test_a_conflict_forks_and_the_recorder_goes_on_there(store):
    part = Part(1)
    recorder = recorder_of(store, a=part)
    told = collected(recorder)
    first = recorder.save()
    person = store.session("s").save({"a": {"value": "by hand"}})

    part.value = 2
    forked = recorder.save()
    part.value = 3
    after = recorder.save()

    assert (first.branch, forked.branch, after.branch) == ("main", "main-1", "main-1")
    assert (forked.parent, after.parent) == (first.id, forked.id)
    assert store.session("s").load("main") == {"a": {"value": "by hand"}}
    forks = [each for each in told() if each.type == "recorder.forked"]
    assert [(each.branch, each.expected, each.found) for each in forks] == [("main-1", first.id, person.id)]
    assert [each.forked for each in told() if each.type == "checkpoint.created"] == [False, True, False]


def test_a_save_that_fails_is_told_and_reaches_the_caller():
    backend = FaultyBackend(
        holdfast.open("memory:")._backend, [Fault("commit", nth=1, before=failing(disk_full()))]
    )
    recorder = recorder_of(holdfast.Store(backend), a=Part(1))
    told = collected(recorder)

    with pytest.raises(BackendError):
        recorder.save()
    recorder.save()

    assert [(each.type, getattr(each, "code", None)) for each in told()] == [
        ("checkpoint.failed", "disk-full"),
        ("checkpoint.created", None),
    ]


def test_names_are_taken_once_and_sources_are_there(store):
    recorder = recorder_of(store, a=Part(1))

    with pytest.raises(InvalidInputError, match="already"):
        recorder.connect("a", Part(2))
    with pytest.raises(InvalidInputError, match="None"):
        recorder.connect("b", None)
    with pytest.raises(InvalidInputError, match="no source"):
        recorder.disconnect("c")
    with pytest.raises(InvalidInputError, match="no source is connected"):
        Recorder(store.session("t")).save()
    with pytest.raises(InvalidInputError):
        recorder.step("5")
