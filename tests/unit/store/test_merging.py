"""Merging branches: where they meet, what is written, and what is not."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from tests.unit.store.journal import check_links, kinds_of

import holdfast
from holdfast import BackendError, ConflictError, ErrorCode, Keep, NotFoundError
from holdfast.storage.leases import Holder
from holdfast.testing.faults import Fault, FaultyBackend, failing, io_failed

BIG = ["what nobody changes"]


@pytest.fixture
def faulty(backend):
    return FaultyBackend(backend)


@pytest.fixture
def store(faulty, clock):
    return holdfast.Store(faulty, clock=clock, app_version="7")


@pytest.fixture
def risky(session):
    """A branch beside main, which went on: both changed something."""
    session.save({"a": 1, "b": 1, "log": ["x"], "big": BIG}, "first", step=3, tokens=5)
    beside = session.fork(name="risky")
    beside.save({"a": 1, "b": 2, "log": ["x", "t"], "big": BIG}, "theirs")
    session.save({"a": 2, "b": 1, "log": ["x", "o"], "big": BIG}, "ours", step=4, tokens=9, status="paused")
    return beside


def test_a_merge_is_one_checkpoint_with_two_parents_and_the_changes_of_both(session, store, risky):
    report = session.merge("risky")
    made = report.checkpoint
    assert session.load() == {"a": 2, "b": 2, "log": ["x", "o", "t"], "big": BIG}
    assert made is not None
    assert (made.parents, made.prev) == ((report.ours.id, report.theirs.id), report.ours.id)
    assert (report.base.seq, report.ours.seq, report.theirs.seq, made.seq) == (1, 4, 3, 5)
    assert (made.trigger, made.message, made.app_version) == ("merge", "merge of branch 'risky' at #3", "7")
    assert (made.branch, made.step, made.tokens, made.status) == ("main", 4, 9, "paused")
    assert made.metadata == {"merge_base": report.base.id, "merged_from": report.theirs.id}
    assert (report.conflicts, report.resolved) == ((), ())
    assert not report.up_to_date
    assert not report.fast_forward
    assert report.changes is not None
    assert report.changes.summary() == "+1 log, b 1 to 2"
    assert made.created_at > max(report.ours.created_at, report.theirs.created_at)
    assert kinds_of(store) == ["fork", "merge"]
    check_links(store)
    # The same state is the same root, however it came about.
    assert session.save(session.load()).root == made.root
    assert risky.load() == {"a": 1, "b": 2, "log": ["x", "t"], "big": BIG}


def test_a_merge_is_younger_than_both_of_its_parents(session, risky):
    theirs = risky.save({"a": 1, "b": 3}, created_at=datetime(2099, 1, 1, tzinfo=UTC))
    made = session.merge("risky", resolve="ours").checkpoint
    assert made.created_at > theirs.created_at


def test_undo_takes_a_merge_back_and_redo_brings_it_again(session, store, risky):
    head = session.checkpoint()
    made = session.merge("risky").checkpoint
    assert session.operations()[0].summary == "merge #3 on branch 'main' as #5"
    assert session.undo().head.id == head.id
    assert session.load()["a"] == 2
    assert session.load()["b"] == 1
    assert session.redo().head.id == made.id
    assert session.load()["b"] == 2
    check_links(store)
    session.undo()
    # A merge that was taken back never was.
    again = session.merge("risky")
    assert (again.base.seq, again.up_to_date) == (1, False)


def test_what_was_merged_is_not_merged_again(session, risky):
    session.merge("risky")
    report = session.merge("risky")
    assert report.up_to_date
    assert report.checkpoint is None
    assert report.base.id == report.theirs.id
    assert len(session.log()) == 3
    # An ancestor, and the head itself, are in it too.
    assert session.merge("#1").up_to_date
    assert session.merge("@").up_to_date


def test_the_next_merge_begins_where_the_last_one_ended(session, risky):
    session.merge("risky")
    risky.save({"a": 1, "b": 3, "log": ["x", "t", "t2"], "big": BIG})
    report = session.merge("risky")
    # Without the second parent, b and the log would be changed on both sides.
    assert (report.base.seq, report.conflicts) == (3, ())
    assert session.load() == {"a": 2, "b": 3, "log": ["x", "o", "t", "t2"], "big": BIG}


def test_a_branch_that_did_not_go_on_takes_their_state(session, store):
    session.save({"a": 1, "big": list(range(7_000))})
    risky = session.fork(name="risky")
    theirs = risky.save({"a": 2, "big": list(range(7_000))})
    chunks = store.stats().chunks
    report = session.merge("risky")
    made = report.checkpoint
    assert made is not None
    assert report.fast_forward
    assert (made.root, made.size_bytes, made.stored_bytes) == (theirs.root, theirs.size_bytes, 0)
    assert len(made.parents) == 2
    assert store.stats().chunks == chunks
    assert session.load()["a"] == 2
    # And the other way round it is a fast forward once more, because the merge came after.
    assert risky.merge("main").fast_forward


def test_a_conflict_that_nobody_decides_on_leaves_everything_as_it_was(session, store, risky):
    risky.save({"a": 3, "b": 2, "log": ["x", "t"], "big": BIG})
    before = store.stats()
    report = session.merge("risky")
    (conflict,) = report.conflicts
    assert (conflict.path, conflict.kind) == ("a", "edit/edit")
    assert (conflict.base, conflict.ours, conflict.theirs) == (1, 2, 3)
    assert (report.checkpoint, report.changes) == (None, None)
    assert store.stats() == before
    assert kinds_of(store) == ["fork"]
    assert session.merge("risky", resolve={"b": "ours"}).conflicts


def test_a_dry_run_tells_the_same_and_writes_nothing(session, store, risky):
    before = store.stats()
    dry = session.merge("risky", dry_run=True)
    assert (dry.checkpoint, dry.dry_run, dry.changes.summary()) == (None, True, "+1 log, b 1 to 2")
    assert store.stats() == before
    assert kinds_of(store) == ["fork"]
    wet = session.merge("risky")
    assert dry.changes.json_patch() == wet.changes.json_patch()


def test_a_merge_with_an_expectation_is_refused_when_another_writer_is_faster(session, store, faulty, risky):
    faulty.plan(Fault("commit", before=lambda: store.session("s").save({"n": 1})))
    with pytest.raises(ConflictError) as caught:
        session.merge("risky")
    assert caught.value.code is ErrorCode.BRANCH_MOVED
    assert store.session("s").load() == {"n": 1}


def test_a_lost_reply_is_settled_by_looking_into_the_log(session, store, faulty, risky):
    faulty.plan(Fault("commit", after=failing(io_failed())))
    made = session.merge("risky").checkpoint
    assert made.seq == 5
    assert kinds_of(store) == ["fork", "merge"]
    check_links(store)


def test_a_failed_commit_is_told_and_changes_nothing(session, store, faulty, risky):
    faulty.plan(Fault("commit", before=failing(io_failed())))
    with pytest.raises(BackendError):
        session.merge("risky")
    assert kinds_of(store) == ["fork"]
    assert session.load()["b"] == 1


def test_a_lease_that_was_lost_keeps_the_merge_from_being_written(backend, risky):
    # Leases go by the clock of the machine.
    store = holdfast.Store(backend)
    with store.lease("work:s") as lease:
        held = store.session("s", lease=lease)
        backend.release(backend.lease("work:s"))
        backend.claim(
            "work:s",
            Holder("stranger", "far-away/boot/1.1", 12345, "1"),
            600.0,
            at=time.time_ns() // 1000,
            ticks=0,
        )
        with pytest.raises(ConflictError) as caught:
            held.merge("risky")
    assert caught.value.code is ErrorCode.LEASE_LOST
    assert kinds_of(store) == ["fork"]


def test_lines_that_never_were_one_cannot_be_merged(session, store):
    session.save({"a": 1})
    stranger = store.session("other").save({"a": 2})
    with pytest.raises(NotFoundError) as caught:
        session.merge(stranger)
    assert caught.value.code is ErrorCode.NO_COMMON_ANCESTOR
    assert "session 'other'" in str(caught.value)


def test_a_fork_in_another_session_can_be_merged_back(session, store):
    session.save({"a": 1, "b": 1})
    elsewhere = session.fork(session="experiment")
    elsewhere.save({"a": 1, "b": 2})
    session.save({"a": 2, "b": 1})
    report = session.merge(elsewhere.checkpoint())
    assert report.checkpoint is not None
    assert report.checkpoint.message == "merge of #2 of session 'experiment'"
    assert session.load() == {"a": 2, "b": 2}
    assert session.merge(elsewhere.checkpoint()).up_to_date
    assert session.operations()[0].summary == "merge #2 of session 'experiment' on branch 'main' as #3"
    # And back: what was merged here is an ancestor there too.
    back = elsewhere.merge(session.checkpoint())
    assert back.fast_forward
    assert elsewhere.load() == {"a": 2, "b": 2}


@pytest.fixture
def crosswise(session):
    """Two branches that were merged into each other at once: each has seen what the other changed."""
    session.save({"x": 1, "y": 0, "z": 0})
    beside = session.fork(name="beside")
    mine, other = session.save({"x": 2, "y": 0, "z": 0}), beside.save({"x": 1, "y": 9, "z": 0})
    session.merge(beside.checkpoint())
    beside.merge(session.checkpoint(mine.id))
    assert session.load() == beside.load() == {"x": 2, "y": 9, "z": 0}
    return beside, {mine.id, other.id}


def test_branches_that_were_merged_crosswise_met_in_two_places(session, crosswise):
    _, met = crosswise
    report = session.merge("beside")
    assert {each.id for each in report.bases} == met
    assert report.base.id == report.bases[0].id == report.checkpoint.metadata["merge_base"]
    assert report.bases[0].created_at > report.bases[1].created_at
    assert (report.base_exact, report.conflicts) == (True, ())
    assert session.load() == {"x": 2, "y": 9, "z": 0}
    assert session.merge("beside").up_to_date


@pytest.mark.parametrize("back", [{"x": 1}, {"y": 0}])
def test_what_one_side_took_back_after_a_crosswise_merge_is_asked_about(session, crosswise, back):
    (key,) = back
    session.save({**session.load(), **back})
    report = session.merge("beside")
    (conflict,) = report.conflicts
    assert (conflict.path, conflict.ours) == (key, back[key])
    assert conflict.theirs == {"x": 2, "y": 9}[key]
    assert report.checkpoint is None
    assert session.merge("beside", resolve="ours").checkpoint is not None
    assert session.load() == {"x": 2, "y": 9, "z": 0} | back


def taken_back(session):
    """One side took back what it had merged, and then goes on."""
    session.save({"x": 1, "y": 0})
    beside = session.fork(name="beside")
    met = beside.save({"x": 2, "y": 0})
    made = session.merge("beside").checkpoint
    beside.save({"x": 2, "y": 5})
    session.save({"x": 1, "y": 0}, "x taken back")
    session.save({"x": 1, "y": 0, "n": 1})
    return beside, met, made


def test_retention_leaves_where_branches_meet(session, store):
    _, met, made = taken_back(session)
    planned = session.prune(Keep(last=1, per="branch"), dry_run=True, only=True)
    reasons = {each.checkpoint.id: each.reasons for each in planned.decisions if each.kept}
    assert reasons[met.id] == ("branches meet here",)
    assert reasons[made.id] == ("branches meet here",)
    session.prune(Keep(last=1, per="branch"), only=True)
    store.gc(keep_days=0)
    report = session.merge("beside")
    assert (report.base.id, report.base_exact) == (met.id, True)
    assert session.load() == {"x": 1, "y": 5, "n": 1}


def deleted(session, store, met, made):
    session.delete(met, force=True)
    store.gc(keep_days=0)


def deleted_merge(session, store, met, made):
    session.delete(made, force=True)
    store.gc(keep_days=0)


def forgotten(session, store, met, made):
    store.forget("s", met, clean=False)


def forgotten_merge(session, store, met, made):
    store.forget("s", made, clean=False)


@pytest.mark.parametrize("lose", [deleted, deleted_merge, forgotten, forgotten_merge])
@pytest.mark.parametrize("then_prune", [False, True])
def test_where_the_last_meeting_is_gone_for_good_all_that_differs_is_asked_about(
    session, store, lose, then_prune
):
    beside, met, made = taken_back(session)
    lose(session, store, met, made)
    if then_prune:
        session.prune(Keep(last=1, per="branch"), only=True)
        store.gc(keep_days=0)
    report = session.merge("beside")
    assert not report.base_exact
    assert (report.base.seq, report.checkpoint) == (1, None)
    assert {each.path for each in report.conflicts} == {"x", "y", "n"}
    (y,) = (each for each in report.conflicts if each.path == "y")
    assert (y.base, y.ours, y.theirs, y.kind) == (0, 0, 5, "edit/edit")
    assert report.to_dict()["base_exact"] is False
    made = session.merge("beside", resolve={"y": "theirs", "": "ours"}).checkpoint
    assert session.load() == {"x": 1, "y": 5, "n": 1}
    # From here on they know where they met.
    beside.save({"x": 2, "y": 6})
    again = session.merge("beside")
    assert (again.base_exact, again.conflicts) == (True, ())


def test_where_they_parted_may_have_been_removed(session, store):
    for n in (1, 2):
        session.save({"n": n, "a": 1, "b": 1})
    beside = session.fork(name="beside")
    beside.save({"n": 2, "a": 1, "b": 2})
    session.save({"n": 2, "a": 2, "b": 1})
    session.delete("#2", force=True)
    # It has the state that both began with, as long as its row is there.
    assert session.merge("beside", dry_run=True).base.seq == 2
    session.delete("#1", force=True)
    report = session.merge("beside", dry_run=True)
    assert (report.base.seq, report.conflicts) == (2, ())
    store.gc(keep_days=0)
    with pytest.raises(NotFoundError):
        session.merge("beside")


def test_nothing_to_merge_into_and_nothing_to_merge(session, store):
    with pytest.raises(NotFoundError) as caught:
        session.merge("risky")
    assert caught.value.code is ErrorCode.SESSION_MISSING
    session.save(1)
    with pytest.raises(NotFoundError):
        session.merge("risky")
