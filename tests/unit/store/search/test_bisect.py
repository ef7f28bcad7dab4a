"""bisect: the first checkpoint where something holds, with few loads, and honest about what it did not look at."""

from __future__ import annotations

from functools import partial

import pytest

import holdfast
from holdfast import ErrorCode


def save_each(session, states):
    return [session.save(state) for state in states]


def first_at(session, count, first, **options):
    save_each(session, ({"n": n} for n in range(count)))
    return session.bisect(lambda state: state["n"] >= first, **options)


@pytest.mark.parametrize("first", [0, 1, 2, 6, 9])
def test_the_first_checkpoint_where_it_holds_is_found(session, first):
    report = first_at(session, 10, first)

    assert report.found.seq == first + 1
    assert (None if report.before is None else report.before.seq) == (first or None)
    assert (report.oldest.seq, report.newest.seq, report.total) == (1, 10, 10)
    assert report.monotonic == "assumed"


@pytest.mark.parametrize(
    ("predicate", "check", "words"),
    [
        (lambda state: False, "ends", "nor at the oldest"),
        (lambda state: False, "all", "at none of 10"),
        (lambda state: state["n"] < 5, "ends", "no longer at #10"),
        ("n == 5", "ends", "nor at the oldest"),
    ],
)
def test_what_does_not_hold_at_the_newest_is_an_error_of_its_own(session, predicate, check, words):
    save_each(session, ({"n": n} for n in range(10)))

    with pytest.raises(holdfast.NotFoundError, match=words) as caught:
        session.bisect(predicate, check=check)
    assert caught.value.code is ErrorCode.NEVER_HOLDS
    assert caught.value.exit_code == 1


def test_good_where_it_holds_already_or_that_is_no_ancestor_is_refused(session):
    save_each(session, ({"n": n} for n in range(10)))
    aside = session.fork("#3", "aside").save({"n": 99})

    with pytest.raises(holdfast.InvalidInputError, match="holds at good already"):
        session.bisect(lambda state: True, good="#4")
    for good, bad in [("@", "#4"), (aside, "@")]:
        with pytest.raises(holdfast.InvalidInputError, match="is not in the history of bad"):
            session.bisect("n > 2", good=good, bad=bad)
    with pytest.raises(holdfast.NotFoundError):
        session.bisect("n > 2", good="no-such-branch")


def test_a_predicate_that_raises_is_an_error_with_the_checkpoint_and_the_cause(session):
    made = save_each(session, ({"n": n} for n in range(10)))

    def holds(state):
        return state["n"] >= 9 or state["missing"]

    with pytest.raises(holdfast.InvalidInputError, match=r"at checkpoint #1 .*KeyError: 'missing'") as caught:
        session.bisect(holds)
    assert caught.value.code is ErrorCode.PREDICATE_FAILED
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.details["checkpoint"] == made[0].id


def test_what_cannot_be_judged_is_skipped(session):
    save_each(session, ({"n": n} for n in range(20)))

    def holds(state, skipped):
        return holdfast.Skip if state["n"] in skipped else state["n"] >= 12

    one = session.bisect(partial(holds, skipped=(9, 0, 19)))
    assert (one.found.seq, one.before and one.before.seq, one.skipped) == (13, 12, ())
    around = session.bisect(partial(holds, skipped=range(10, 14)))
    assert (around.found.seq, around.before and around.before.seq) == (15, 10)
    assert [each.seq for each in around.skipped] == [11, 12, 13, 14]
    with pytest.raises(holdfast.NotFoundError, match="every one of 20 checkpoints was skipped"):
        session.bisect(partial(holds, skipped=range(20)))


def test_only_a_part_is_loaded_where_a_path_is_given(session):
    big = [{"text": "x" * 200, "n": n} for n in range(2000)]
    save_each(session, ({"messages": big, "score": n / 20} for n in range(20)))

    report = session.bisect(lambda score: score >= 0.5, path="score")

    assert report.found.seq == 11
    with pytest.raises(holdfast.NotFoundError, match="does not hold"):
        session.bisect(lambda part: True, path="messages[9999]")
    with pytest.raises(holdfast.InvalidInputError):
        session.bisect(lambda part: True, path="][")


def test_an_empty_session_and_odd_arguments_are_refused(session):
    with pytest.raises(holdfast.NotFoundError):
        session.bisect("n > 1")
    session.save({"n": 1})
    with pytest.raises(holdfast.InvalidInputError, match="check cannot be"):
        session.bisect("n > 1", check="some")
    with pytest.raises(holdfast.InvalidInputError, match="not a int"):
        session.bisect(5)


def test_searching_does_not_change_what_the_next_save_expects(store):
    writer, other = store.session("t"), store.session("t")
    writer.save({"n": 1})
    other.load()
    other.save({"n": 2})

    assert writer.bisect("n == 2").found.seq == 2
    writer.blame("n")
    list(writer.history_of("n"))
    list(writer.grep("x"))
    with pytest.raises(holdfast.ConflictError):
        writer.save({"n": 3})
