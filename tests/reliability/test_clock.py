"""A clock that jumps: order is by seq, a child is never older than its parent, and nothing else minds."""

from __future__ import annotations

import itertools
from contextlib import closing
from datetime import timedelta

import pytest

import holdfast
from holdfast.backends.memory import MemoryBackend
from holdfast.backends.sqlite import SqliteBackend

HOUR = 3_600_000_000
NOON = 1_800_000_000_000_000


class Clock:
    """Microseconds that a test sets."""

    def __init__(self):
        self.now = NOON

    def __call__(self):
        return self.now


@pytest.fixture(params=["memory", "sqlite"])
def backend(request, tmp_path):
    with closing(make_backend(request.param, tmp_path / "store.db")) as backend:
        yield backend


def make_backend(kind, path):
    if kind == "memory":
        return MemoryBackend()
    return SqliteBackend.open(path, durability="process", create=True, timeout=10.0)


def test_a_clock_that_goes_back_does_not_turn_history_round(backend):
    clock = Clock()
    store = holdfast.Store(backend, clock=clock)
    session = store.session("work")
    # Back an hour, forward ten years, back again, and standing still.
    for jump in (0, -HOUR, 87_600 * HOUR, -87_600 * HOUR, 0, 0, -1, 1):
        clock.now += jump
        session.save({"at": clock.now})

    log = session.log()

    assert [each.seq for each in log] == list(range(8, 0, -1))
    assert store.find() == log
    assert all(older.created_at < newer.created_at for newer, older in itertools.pairwise(log))
    assert session.load("@") == {"at": clock.now}
    assert session.load("#1") == {"at": NOON}


def test_the_time_is_raised_by_no_more_than_it_must_be(backend):
    clock = Clock()
    session = holdfast.Store(backend, clock=clock).session("work")
    first = session.save(1)
    clock.now -= HOUR
    second = session.save(2)
    clock.now += 2 * HOUR
    third = session.save(3)

    assert second.created_at - first.created_at == timedelta(microseconds=1)
    assert third.created_at - first.created_at == timedelta(hours=1)
    # The store's own clock is written down as it was.
    assert second.stored_at - first.stored_at == timedelta(hours=-1)


def test_time_is_monotonic_along_parents_and_not_across_branches(backend):
    clock = Clock()
    store = holdfast.Store(backend, clock=clock)
    session = store.session("work")
    root = session.save("root")
    clock.now += HOUR
    session.save("later on main")
    clock.now -= HOUR // 2
    fork = store.session("work").save("earlier on a fork", parent=root)

    assert fork.branch == "main-1"
    assert fork.created_at - root.created_at == timedelta(minutes=30)
    assert [each.seq for each in store.find()] == [3, 2, 1]


def test_a_time_filter_follows_the_time_of_the_record(backend):
    clock = Clock()
    store = holdfast.Store(backend, clock=clock)
    session = store.session("work")
    first = session.save(1)
    clock.now -= HOUR
    second = session.save(2)

    assert store.find(since=first.created_at) == [second, first]
    assert store.find(until=first.created_at) == [first]


def test_annotations_and_deletions_work_while_the_clock_is_behind(backend):
    clock = Clock()
    session = holdfast.Store(backend, clock=clock).session("work")
    for number in range(3):
        session.save(number)
    clock.now -= HOUR
    session.annotate("@", message="said better")
    session.tag("@~1", "golden")
    session.delete("@~2")

    assert [each.message for each in session.log()] == ["said better", ""]
    with backend.reader() as reader:
        assert [entry.number for entry in reader.operations("work")] == [1, 2, 3]
