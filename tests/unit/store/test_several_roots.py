"""A session with several lines: `expect=None` begins a branch without a parent beside those that there are."""

from __future__ import annotations

import pytest
from tests.unit.store.journal import check_links

import holdfast
from holdfast import ConflictError, ErrorCode, Keep, NotFoundError
from holdfast.testing.faults import Fault, FaultyBackend


def seqs(found):
    return [each.seq for each in found]


@pytest.fixture
def side(session, store):
    """Two checkpoints on main, two on a line of their own, one more on main."""
    session.save({"main": 1}, "one")
    session.save({"main": 2}, "two")
    side = store.session("s", branch="side")
    side.save({"side": 3}, "three", expect=None)
    side.save({"side": 4}, "four")
    session.save({"main": 5}, "five")
    return side


def test_expecting_nothing_makes_a_branch_with_a_line_of_its_own(session, store, side):
    assert (seqs(session.log()), seqs(side.log())) == ([5, 2, 1], [4, 3])
    third = side.checkpoint("#3")
    assert (third.branch, third.parents, third.prev, third.skipped) == ("side", (), None, 0)
    assert [each.name for each in session.branches()] == ["main", "side"]
    assert (session.branch, side.branch, store.current_branch("s")) == ("main", "side", "main")
    assert (session.load(), side.load()) == ({"main": 5}, {"side": 4})
    assert session.operations() == []
    check_links(store)


def test_a_session_that_has_merely_seen_nothing_makes_no_branch(session, store, side):
    fresh = store.session("s", branch="sied")
    assert fresh.load(default=None) is None
    for _ in range(2):
        with pytest.raises(NotFoundError) as caught:
            fresh.save({})
        assert caught.value.code is ErrorCode.BRANCH_MISSING
    assert fresh.save({}, expect=None).branch == "sied"


def test_expecting_nothing_of_a_branch_that_is_there_is_a_conflict(store, side):
    other = store.session("s", branch="side")
    with pytest.raises(ConflictError) as caught:
        other.save({}, expect=None)
    assert caught.value.code is ErrorCode.BRANCH_MOVED
    forked = other.save({}, expect=None, on_conflict="fork")
    assert (forked.branch, forked.parents) == ("side-1", ())


def test_of_two_that_begin_the_same_branch_one_is_first(backend, session, store, clock):
    session.save({})
    faulty = FaultyBackend(backend)
    late = holdfast.Store(faulty, clock=clock).session("s", branch="side")
    early = store.session("s", branch="side")
    faulty.plan(Fault("commit", before=lambda: early.save({"early": 1}, expect=None) and None))
    with pytest.raises(ConflictError) as caught:
        late.save({"late": 1}, expect=None)
    assert caught.value.code is ErrorCode.BRANCH_MOVED
    assert seqs(early.log()) == [2]


def test_with_a_parent_the_new_branch_begins_there(session, store, side):
    made = store.session("s", branch="idea").save({}, expect=None, parent="#2")
    assert (made.branch, made.parents) == ("idea", (session.checkpoint("#2").id,))
    check_links(store)


def test_a_branch_that_was_renamed_or_dropped_can_be_begun_anew(session, store, side):
    side.rename_branch("side", "old")
    again = store.session("s", branch="side").save({}, expect=None)
    assert (again.branch, again.parents) == ("side", ())
    session.delete_branch("side", force=True)
    assert store.session("s", branch="side").save({}, expect=None).parents == ()
    check_links(store)


def test_a_document_begins_a_branch_too(session, store):
    session.save({})
    document = store.session("s", branch="side").document(default={"n": 1})
    with pytest.raises(NotFoundError):
        document.save()
    assert document.save(expect=None).branch == "side"
    document["n"] = 2
    document.save()
    assert store.session("s", branch="side").load() == {"n": 2}


def test_deleting_all_of_a_line_removes_its_branch_and_undo_brings_it_back(session, store, side):
    side.delete("#4")
    side.delete("#3")
    assert [each.name for each in session.branches()] == ["main"]
    side.undo()
    assert seqs(side.log()) == [3]
    side.undo()
    assert seqs(side.log()) == [4, 3]
    side.delete("#3")
    assert (seqs(side.log()), side.checkpoint("#4").skipped) == ([4], 1)
    assert seqs(session.log()) == [5, 2, 1]
    check_links(store)


def test_clear_takes_every_line_and_undo_brings_all_back(session, store, side):
    assert session.clear() == 5
    session.undo()
    assert (seqs(session.log()), seqs(side.log())) == ([5, 2, 1], [4, 3])
    check_links(store)


def test_retention_keeps_the_tip_of_each_line(session, store, side):
    session.prune(Keep(last=1), only=True)
    assert (seqs(session.log()), seqs(side.log())) == ([5], [4])
    session.undo()
    session.prune(Keep(last=1, per="branch"), only=True)
    assert (seqs(session.log()), seqs(side.log())) == ([5], [4])
    check_links(store)
    assert store.verify().ok


def test_gc_keeps_the_states_of_every_line(session, store, side):
    session.delete("#1")
    side.delete("#3")
    assert store.gc(keep_days=0).checkpoints == 2
    assert [session.load("#2"), session.load(), side.load()] == [{"main": 2}, {"main": 5}, {"side": 4}]
    assert store.verify().ok
