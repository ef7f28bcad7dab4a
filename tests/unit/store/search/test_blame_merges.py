"""blame where branches were merged: who set the value on its own line, and by which merge it came in."""

from __future__ import annotations


def test_a_value_that_came_in_by_a_merge_is_blamed_on_who_set_it(session):
    session.save({"a": 1, "x": 0})
    aside = session.fork("@", "aside")
    aside.save({"a": 1, "x": 0, "n": 1})
    setter = aside.save({"a": 1, "x": 5, "n": 1})
    aside.save({"a": 1, "x": 5, "n": 2})
    session.save({"a": 2, "x": 0})
    merge = session.merge("aside").checkpoint

    found = session.blame("x")

    assert found.checkpoint == setter
    assert (found.value, found.old, found.op) == (5, 0, "replace")
    assert found.before.seq == setter.seq - 1
    assert found.merges == (merge,)
    assert found.notes == ()
    # What the merge did not bring is blamed as ever, and later checkpoints change nothing about it.
    assert session.blame("a").merges == ()
    session.save({"a": 3, "x": 5, "n": 2})
    assert (session.blame("x").checkpoint, session.blame("x").merges) == (setter, (merge,))


def test_merges_in_merges_are_followed_to_the_end(session):
    session.save({"a": 1})
    one = session.fork("@", "one")
    two = one.fork("@", "two")
    setter = two.save({"a": 1, "t": "new"})
    one.save({"a": 1, "o": 1})
    inner = one.merge("two").checkpoint
    session.save({"a": 2})
    outer = session.merge("one").checkpoint

    found = session.blame("t")

    assert (found.checkpoint, found.op, found.merges) == (setter, "add", (outer, inner))


def test_a_merge_that_made_the_value_itself_is_to_blame(session):
    session.save({"x": 1, "gone": 1})
    aside = session.fork("@", "aside")
    aside.save({"x": 2, "gone": 1})
    session.save({"x": 3, "gone": 1})
    merge = session.merge("aside", resolve=lambda conflict: 23).checkpoint

    found = session.blame("x")

    assert (found.checkpoint, found.value, found.old, found.merges) == (merge, 23, 3, ())
