"""A session with several lines: `expect=None` begins a branch without a parent beside those that there are."""

from __future__ import annotations

import pytest
from tests.unit.store.journal import check_links

from holdfast import ConflictError, ErrorCode, Keep, NotFoundError


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


def test_retention_keeps_the_tip_of_each_line(session, store, side):
    session.prune(Keep(last=1), only=True)
    assert (seqs(session.log()), seqs(side.log())) == ([5], [4])
    session.undo()
    session.prune(Keep(last=1, per="branch"), only=True)
    assert (seqs(session.log()), seqs(side.log())) == ([5], [4])
    check_links(store)
    assert store.verify().ok
