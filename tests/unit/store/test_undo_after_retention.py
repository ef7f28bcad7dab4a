"""An undo after retention took a neighbour for good: what comes back is on its branch again, or it is refused."""

from __future__ import annotations

import pytest
from tests.unit.store.journal import check_links

from holdfast import ErrorCode, Keep, NotFoundError

GOLDEN = Keep(last=1, tags=["golden"])


def saved(session, *steps, golden=()):
    """Save these, each with its number as its step; some with a label that retention keeps."""
    for step in steps:
        session.save({"n": step}, step=step, tags=["golden"] if step in golden else [])


def walked(session):
    """What the branch leads through, newest first, and how many are skipped before each."""
    return [(each.step, each.skipped) for each in session.log()]


def retire(store, step, branch="main"):
    """Let retention take what has no label, and is not the newest."""
    store.session("s", branch=branch, keep=GOLDEN).save({"n": step}, step=step)


def test_what_comes_back_is_followed_by_what_followed_those_that_are_gone(store, session):
    saved(session, 1, 2, 3, 4, 5, golden=(1, 3, 5))
    session.delete("#3")
    retire(store, 6)
    without = [(6, 0), (5, 3), (1, 0)]
    assert walked(session) == without

    session.undo()
    assert walked(session) == [(6, 0), (5, 1), (3, 1), (1, 0)]
    assert session.load("#3") == {"n": 3}
    check_links(store)
    session.redo()
    assert walked(session) == without
    session.undo()
    assert walked(session) == [(6, 0), (5, 1), (3, 1), (1, 0)]
    check_links(store)
    assert store.verify().ok


def test_the_first_of_all_comes_back_to_the_beginning(store, session):
    saved(session, 1, 2, 3, golden=(1, 3))
    session.delete("#1")
    retire(store, 4)
    assert walked(session) == [(4, 0), (3, 2)]
    session.undo()
    assert walked(session) == [(4, 0), (3, 1), (1, 0)]
    check_links(store)


@pytest.mark.parametrize("order", [("#2", "#3"), ("#3", "#2")])
def test_two_that_were_deleted_come_back_one_after_the_other(store, session, order):
    saved(session, 1, 2, 3, 4, 5, golden=(1, 2, 3, 5))
    for each in order:
        session.delete(each)
    retire(store, 6)
    assert walked(session) == [(6, 0), (5, 3), (1, 0)]
    session.undo()
    back = int(order[1][1])
    assert walked(session) == [(6, 0), (5, 4 - back), (back, back - 2), (1, 0)]
    session.undo()
    assert walked(session) == [(6, 0), (5, 1), (3, 0), (2, 0), (1, 0)]
    check_links(store)


def test_what_was_pruned_comes_back_between_those_that_are_left(store, session):
    for step in (1, 2, 3, 4, 5):
        labels = {"golden"} if step in (1, 3, 5) else set()
        session.save({"n": step}, step=step, tags=labels | ({"wanted"} if step != 3 else set()))
    session.prune(Keep(tags=["wanted"]))
    retire(store, 6)
    assert walked(session) == [(6, 0), (5, 3), (1, 0)]
    assert session.undo().kind == "prune"
    assert walked(session) == [(6, 0), (5, 1), (3, 1), (1, 0)]
    check_links(store)


def lines(session):
    """The steps that a branch leads through, newest first; where it was forked is a checkpoint too, and left out."""
    return [each.step for each in session.log() if each.trigger != "fork"]


def numbered(store, step):
    """How a checkpoint is called whose step is known."""
    (found,) = [each for each in store.find(session="s", step=step) if each.trigger != "fork"]
    return f"#{found.seq}"


def test_a_line_of_its_own_branch_is_followed_beside_others(store, session):
    saved(session, 1, golden=(1,))
    side = session.fork(name="side")
    saved(session, 2, golden=(2,))
    saved(side, 10, golden=(10,))
    saved(session, 3, 4, golden=(4,))
    session.delete(numbered(store, 2))
    retire(store, 5)
    assert lines(session) == [5, 4, 1]
    session.undo()
    assert lines(session) == [5, 4, 2, 1]
    assert lines(side) == [10, 1]
    check_links(store)


def test_where_it_is_not_known_what_came_after_the_undo_is_refused(store, session):
    saved(session, 1, golden=(1,))
    side = session.fork(name="side")
    saved(side, 2, golden=(2,))
    deleted = numbered(store, 2)
    saved(session, 3)
    saved(side, 3)
    other = side.fork(name="other")
    session.delete_branch("side", force=True)
    saved(other, 4, golden=(4,))
    after = numbered(store, 4)
    other.delete(deleted)
    saved(session, 5)
    retire(store, 6)
    assert lines(other) == [4, 1]
    with pytest.raises(NotFoundError) as caught:
        other.undo()
    assert caught.value.code is ErrorCode.UNDO_GONE
    assert f"whether {after} came after it" in str(caught.value)
    assert lines(other) == [4, 1]
    check_links(store)


def test_what_nothing_is_left_of_after_it_comes_back_by_its_number(store, session):
    saved(session, 1, golden=(1,))
    side = session.fork(name="side")
    saved(side, 2, 3, golden=(2,))
    number = numbered(store, 2)
    session.delete_branch("side", force=True)
    session.delete(number)
    saved(session, 4, golden=(4,))
    retire(store, 5)
    session.undo()
    assert session.load(number) == {"n": 2}
    assert lines(session) == [5, 4, 1]
    check_links(store)
