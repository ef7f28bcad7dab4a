"""Calls that fail before, after or between: a lost reply is settled, a failure is told, other writers are noticed."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import BackendError, ConflictError, ErrorCode, IntegrityError
from holdfast.backends.memory import MemoryBackend
from holdfast.testing.faults import Fault, FaultyBackend, disk_full, failing, io_failed


@pytest.fixture
def backend():
    return FaultyBackend(MemoryBackend())


@pytest.fixture
def store(backend):
    return holdfast.Store(backend)


def test_a_commit_that_fails_writes_nothing_and_says_so(backend, store):
    session = store.session("work")
    first = session.save(1)
    backend.plan(Fault("commit", before=failing(disk_full())))

    with pytest.raises(BackendError) as caught:
        session.save(2)

    assert caught.value.code is ErrorCode.DISK_FULL
    assert store.find() == [first]
    assert session.save(2).parent == first.id


def test_a_lost_reply_is_settled_by_reading_back(backend, store):
    session = store.session("work")
    session.save(1)
    backend.plan(Fault("commit", after=failing(io_failed())))

    second = session.save(2)

    assert second.seq == 2
    assert session.load() == 2
    assert [each.seq for each in session.log()] == [2, 1]


def test_when_nothing_can_be_read_back_the_first_failure_is_told(backend, store):
    session = store.session("work")
    session.save(1)
    # A save that follows the writer's last one reads nothing before it writes; the reading would settle it.
    backend.plan(
        Fault("commit", after=failing(disk_full())), Fault("reader", nth=1, before=failing(io_failed()))
    )

    with pytest.raises(BackendError) as caught:
        session.save(2)

    assert caught.value.code is ErrorCode.DISK_FULL
    # It did take place. Saving again is safe: this Session looks for it first, and finds it.
    assert session.save(2).seq == 2
    assert [each.seq for each in session.log()] == [2, 1]


def test_a_save_that_appends_goes_on_when_another_writer_is_faster(backend, store):
    store.session("work").save("first")
    backend.plan(Fault("commit", before=lambda: store.session("work").save("in between")))

    third = store.session("work").save("third")

    assert [store.session("work").load(each) for each in store.session("work").log()] == [
        "third",
        "in between",
        "first",
    ]
    assert third.seq == 3


def test_a_save_that_expects_a_head_is_refused_when_another_writer_is_faster(backend, store):
    session = store.session("work")
    session.save("first")
    backend.plan(Fault("commit", before=lambda: store.session("work").save("in between")))

    with pytest.raises(ConflictError) as caught:
        session.save("second")

    assert caught.value.code is ErrorCode.BRANCH_MOVED
    assert store.session("work").load() == "in between"


def test_an_annotation_beside_another_one_keeps_both(backend, store):
    store.session("work").save("first")
    backend.plan(Fault("commit", before=lambda: store.session("work").annotate("@", metadata={"theirs": 1})))

    store.session("work").annotate("@", metadata={"mine": 2})

    assert store.session("work").checkpoint().metadata == {"theirs": 1, "mine": 2}


def test_a_deletion_beside_a_save_leads_the_new_child_past_it(backend, store):
    session = store.session("work")
    first, second = session.save(1), session.save(2)
    # The one who deletes has read the tip; before it commits, another writer builds on that tip.
    backend.plan(Fault("commit", before=lambda: store.session("work").save(3)))

    store.session("work").delete(second)

    log = store.session("work").log()
    assert [each.seq for each in log] == [3, 1]
    assert (log[0].prev, log[0].skipped) == (first.id, 1)


def test_a_fork_beside_a_deletion_leads_past_what_was_deleted(backend, store):
    writer, other = store.session("work"), store.session("work")
    first, second = writer.save(1), writer.save(2)
    other.save(3)
    # The writer has read that what it built on is there; before it commits, that is deleted.
    backend.plan(Fault("commit", before=lambda: other.delete(second)))

    fork = writer.save("fork", on_conflict="fork")

    assert (fork.branch, fork.parents) == ("main-1", (second.id,))
    log = store.session("work", branch="main-1").log()
    assert [each.seq for each in log] == [4, 1]
    assert (log[0].prev, log[0].skipped) == (first.id, 1)


def test_a_child_of_a_checkpoint_that_is_being_deleted_is_refused_as_if_it_came_later(backend, store):
    writer, other = store.session("work"), store.session("work")
    writer.save(1)
    second, third = writer.save(2), writer.save(3)
    backend.plan(Fault("commit", before=lambda: other.delete(second)))

    with pytest.raises(holdfast.NotFoundError):
        writer.save("child", parent=second)

    assert [each.seq for each in store.session("work").log()] == [3, 1]
    assert store.find()[0].id == third.id


def test_expecting_a_checkpoint_that_was_deleted_is_a_conflict(store):
    session = store.session("work")
    first, second = session.save(1), session.save(2)
    session.delete(second)

    with pytest.raises(ConflictError):
        store.session("work").save(3, expect=second)
    with pytest.raises(ConflictError):
        store.session("work").save(3, expect=second.id)
    assert store.session("work").save(3, expect=first.id).parent == first.id


def test_an_ambiguous_ref_is_an_error_whatever_the_default():
    store = holdfast.Store(MemoryBackend())
    session = store.session("work")
    # Among so many ids some share their first four digits.
    starts = [session.save(number).id[:4] for number in range(1500)]
    shared = next(each for each in starts if starts.count(each) > 1)

    with pytest.raises(holdfast.NotFoundError) as caught:
        session.load(shared, default=None)

    assert caught.value.code is ErrorCode.REF_AMBIGUOUS


def test_a_damaged_chunk_is_never_returned(backend, store):
    session = store.session("work")
    session.save({"step": 7})
    backend.plan(
        Fault(
            "chunks", nth=None, after=lambda found: {name: data[:-1] + b"?" for name, data in found.items()}
        )
    )

    with pytest.raises(IntegrityError) as caught:
        session.load()

    assert caught.value.code is ErrorCode.CHUNK_DAMAGED


def test_a_missing_chunk_is_said_to_be_missing(backend, store):
    session = store.session("work")
    session.save({"step": 7})
    backend.plan(Fault("chunks", nth=None, after=lambda found: {}))

    with pytest.raises(IntegrityError) as caught:
        session.load()

    assert caught.value.code is ErrorCode.CHUNK_MISSING


def test_a_head_without_its_checkpoint_is_damage_and_not_an_empty_session(backend, store):
    session = store.session("work")
    session.save(1)
    backend.plan(Fault("checkpoint", nth=None, after=lambda found: None))

    with pytest.raises(IntegrityError):
        session.load(default="nothing")


def test_a_walk_never_ends_early(backend, store):
    session = store.session("work")
    first = session.save(1)
    session.save(2)
    # The older row is gone from every answer.
    backend.plan(
        Fault("checkpoint", nth=None, after=lambda row: None if row and row.id.hex() == first.id else row),
        Fault("checkpoints", nth=None, after=lambda rows: [row for row in rows if row.id.hex() != first.id]),
    )

    with pytest.raises(IntegrityError):
        session.log()


def test_calls_are_counted_from_the_plan_on(backend, store):
    session = store.session("work")
    session.save(1)
    backend.plan()
    session.load()

    assert backend.calls["reader"] == 1
    assert backend.calls["commit"] == 0
