"""Resuming where the store is damaged: an older checkpoint and a word about it, or a cold start with a report."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.store.damage import chunk_of, spoil

import holdfast
from holdfast import AsyncRecorder, IntegrityError, Recorder


@pytest.fixture(params=["sqlite", "postgres"])
def path(request, tmp_path):
    return request.getfixturevalue("postgres_place") if request.param == "postgres" else tmp_path / "s.db"


class Counter:
    def __init__(self, n=0):
        self.n = n

    def snapshot(self):
        return {"n": self.n, "own": f"only {self.n}" * 3}

    def restore(self, value):
        self.n = value["n"]


@pytest.fixture
def saved(path):
    counter = Counter()
    with holdfast.open(path, durability="process") as store:
        recorder = Recorder(store.session("s")).connect("counter", counter)
        made = []
        for counter.n in range(4):
            recorder.beat()
            made.append(recorder.save())
    return made


def damage_state(path, checkpoint):
    spoil(path, "UPDATE chunks SET data = x'00' WHERE number = ?", chunk_of(path, checkpoint.id))


def resume(path, **options):
    counter = Counter("as it was")
    with holdfast.open(path, durability="process", damaged=True) as store:
        recorder = Recorder(store.session("s")).connect("counter", counter)
        report = recorder.resume(**options)
        saved = recorder.save()
    return counter, report, saved


def test_a_damaged_newest_is_passed_over_and_named(path, saved):
    damage_state(path, saved[3])
    damage_state(path, saved[2])

    counter, report, next_one = resume(path)

    assert counter.n == 1
    assert (report.checkpoint.id, report.beats_recovered) == (saved[1].id, 2)
    assert [each.id for each in report.passed_over] == [saved[3].id, saved[2].id]
    assert "passed over, because damaged: #4, #3" in str(report)
    assert next_one.parent == saved[3].id
    assert next_one.branch == "main"


def test_where_all_are_damaged_it_is_a_cold_start_with_a_report(path, saved):
    for each in saved:
        damage_state(path, each)

    counter, report, next_one = resume(path)

    assert counter.n == "as it was"
    assert report.checkpoint is None
    assert not report.complete
    assert [each.id for each in report.passed_over] == [each.id for each in reversed(saved)]
    assert "can be read" in report.reason
    assert str(report).startswith("cold start")
    assert report.to_dict()["checkpoint"] is None
    assert next_one.seq == 5


def test_whoever_wants_to_be_stopped_is_told_with_an_error(path, saved):
    for each in saved:
        damage_state(path, each)

    with pytest.raises(IntegrityError):
        resume(path, on_damage="raise")


def test_an_async_recorder_does_the_same(path, saved):
    damage_state(path, saved[3])

    async def main():
        counter = Counter()
        async with holdfast.aopen(path, durability="process", damaged=True) as store:
            recorder = AsyncRecorder(store.session("s")).connect("counter", counter)
            return counter.n, await recorder.resume(), counter.n

    before, report, after = asyncio.run(main())

    assert (before, after) == (0, 2)
    assert [each.seq for each in report.passed_over] == [4]
