"""diverge and resume: where two lines of work part, and how to go on from an earlier point."""

from __future__ import annotations

import pytest

import holdfast


def seq(checkpoint):
    return None if checkpoint is None else (checkpoint.session, checkpoint.seq)


def save_each(session, numbers):
    for n in numbers:
        session.save({"n": n})


def test_two_branches_differ_first_where_their_roots_do(session):
    save_each(session, [0, 1])
    aside = session.fork("@", "aside")
    save_each(session, [2, 3, 4])
    save_each(aside, [2, 3, 7, 8])

    found = session.diverge("main", "aside")

    assert (seq(found.last), seq(found.a), seq(found.b)) == (("s", 5), ("s", 6), ("s", 9))
    assert found.same == 2
    assert found.diverged
    assert [(each.path, each.old, each.new) for each in found.diff.changes] == [("n", 4, 7)]
    assert found.to_dict()["diff"]["changes"][0]["path"] == "n"


@pytest.mark.parametrize(
    ("ours", "theirs", "last", "a", "b"),
    [
        ([1, 2], [1, 2], 2, None, None),
        ([1, 2], [1, 2, 3], 2, None, 3),
        ([1, 2, 3], [1], 1, 2, None),
        ([1], [2], None, 1, 1),
        # A note saves the same state again, and is no step.
        ([1, 1, 2], [1, 2, 2, 4], 3, None, 4),
    ],
)
def test_two_sessions_are_compared_from_their_beginnings(store, ours, theirs, last, a, b):
    one, other = store.session("one"), store.session("other")
    save_each(one, ours)
    save_each(other, theirs)

    found = one.diverge("@", other.checkpoint())

    assert [each and each.seq for each in (found.last, found.a, found.b)] == [last, a, b]
    assert found.diverged == (a is not None or b is not None)


def test_a_fork_into_another_session_parts_where_it_was_made(store):
    one = store.session("one")
    save_each(one, [1, 2, 3])
    other = one.fork("#2", session="other")
    save_each(other, [5])

    found = one.diverge("@", other.checkpoint())

    assert (seq(found.last), seq(found.a), seq(found.b)) == (("one", 2), ("one", 3), ("other", 2))


def test_a_session_resumes_from_an_older_checkpoint_on_a_branch_of_its_own(session, store):
    save_each(session, [1, 2, 3])
    again = store.session("s")

    assert again.resume("#1") == {"n": 1}
    made = again.save({"n": 10})

    assert (made.branch, made.parent) == ("main-1", session.checkpoint("#1").id)
    assert session.load("main") == {"n": 3}
    assert again.save({"n": 11}).branch == "main-1"


def test_resuming_from_the_head_goes_on_there_and_nowhere_has_a_default(session, store):
    assert session.resume(default={"n": 0}) == {"n": 0}
    save_each(session, [1])

    assert session.resume() == {"n": 1}
    assert session.save({"n": 2}).branch == "main"
    with pytest.raises(holdfast.NotFoundError):
        session.resume("no-such-branch")
    late = store.session("s")
    late.resume()
    save_each(session, [3])
    with pytest.raises(holdfast.ConflictError):
        late.save({"n": 4})
