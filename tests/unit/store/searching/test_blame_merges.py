"""blame where branches were merged: who set the value on its own line, and by which merge it came in."""

from __future__ import annotations

from tests.unit.store.searching.counting import counted_session


def seqs(checkpoints):
    return [each.seq for each in checkpoints]


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
    assert session.blame("x", exact=True).certain


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


def test_what_a_merged_line_removed_is_blamed_on_who_removed_it(session):
    session.save({"x": 1, "a": 1})
    aside = session.fork("@", "aside")
    remover = aside.save({"a": 1})
    session.save({"x": 1, "a": 2})
    merge = session.merge("aside").checkpoint

    found = session.blame("x")

    assert (found.checkpoint, found.op, found.old, found.merges) == (remover, "remove", 1, (merge,))


def test_what_was_merged_and_then_removed_is_named_as_far_as_it_is_known(session):
    session.save({"a": 1})
    aside = session.fork("@", "aside")
    early = aside.save({"a": 1, "x": 5, "y": 0})
    late = aside.save({"a": 1, "x": 5, "y": 7})
    aside.save({"a": 1, "x": 5, "y": 7, "z": 1})
    session.save({"a": 2})
    merge = session.merge(late).checkpoint
    session.delete(late)

    # The value was there before what was removed; this one was not.
    assert (session.blame("x").checkpoint, session.blame("x").merges) == (early, (merge,))
    found = session.blame("y")
    assert (found.checkpoint, found.merges) == (merge, ())
    assert len(found.notes) == 1
    assert "what was merged was removed" in found.notes[0]


def test_a_thousand_checkpoints_on_two_lines_take_few_looks():
    session, backend = counted_session()
    for n in range(400):
        session.save({"n": n, "x": 0})
    aside = session.fork("@", "aside")
    made = [
        aside.save({"n": 399, "x": sum(n >= at for at in (50, 60, 150, 222, 301)), "m": n})
        for n in range(400)
    ]
    for n in range(200):
        session.save({"n": 400 + n, "x": 0})
    merge = session.merge("aside").checkpoint
    for n in range(100):
        session.save({"n": 600 + n, "x": 5, "m": 399})
    backend.asked.clear()

    found = session.blame("x")

    assert (found.checkpoint, found.merges, found.value) == (made[301], (merge,), 5)
    assert found.loads <= 30
    assert len(backend.asked) <= 34
