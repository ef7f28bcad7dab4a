"""An undo after retention took a neighbour for good: where nobody knows what followed, it is refused."""

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


def test_where_what_followed_is_gone_the_undo_is_refused(store, session):
    saved(session, 1, 2, 3, 4, 5, golden=(1, 3, 5))
    session.delete("#3")
    retire(store, 6)
    without = [(6, 0), (5, 3), (1, 0)]
    assert walked(session) == without

    with pytest.raises(NotFoundError) as caught:
        session.undo()
    assert caught.value.code is ErrorCode.UNDO_GONE
    assert walked(session) == without
    check_links(store)
    assert store.verify().ok


def lines(session):
    """The steps that a branch leads through, newest first; where it was forked is a checkpoint too, and left out."""
    return [each.step for each in session.log() if each.trigger != "fork"]


def numbered(store, step):
    """How a checkpoint is called whose step is known."""
    (found,) = [each for each in store.find(session="s", step=step) if each.trigger != "fork"]
    return f"#{found.seq}"


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
    other.delete(deleted)
    saved(session, 5)
    retire(store, 6)
    assert lines(other) == [4, 1]
    with pytest.raises(NotFoundError) as caught:
        other.undo()
    assert caught.value.code is ErrorCode.UNDO_GONE
    assert lines(other) == [4, 1]
    check_links(store)
