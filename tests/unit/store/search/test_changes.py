"""blame and history_of: who changed a value, how few states that takes, and what is certain about it."""

from __future__ import annotations

import pytest
from tests.unit.store.search.counting import counted_session

import holdfast
from holdfast import ErrorCode


def seqs(changes):
    return [change.checkpoint.seq for change in changes]


def test_a_large_state_is_read_in_part_only():
    session, backend = counted_session()
    messages = [{"role": "user", "content": f"{n} " + "word " * 80} for n in range(3000)]
    for n in range(40):
        messages.append({"role": "user", "content": str(n)})
        session.save({"messages": messages, "score": n // 10})
    whole = len(set(_chunks_of_the_newest(session, backend)))
    backend.asked.clear()

    found = session.blame("score")

    assert found.checkpoint.seq == 31
    assert whole > 50
    assert len(backend.asked) <= found.loads * 3


def _chunks_of_the_newest(session, backend):
    backend.asked.clear()
    session.load()
    return list(backend.asked)


def test_the_value_of_the_first_checkpoint_was_added_by_it(session):
    session.save({"a": 1})
    session.save({"a": 1, "b": 2})

    found = session.blame("a")

    assert (found.checkpoint.seq, found.op, found.value, found.old, found.before) == (1, "add", 1, None, None)
    assert session.blame("b").op == "add"
    assert session.blame("b").before.seq == 1


def test_what_was_removed_is_blamed_on_who_removed_it(session):
    for state in ({"a": None}, {"a": 1}, {}, {"b": 1}):
        session.save(state)

    found = session.blame("a")

    assert (found.checkpoint.seq, found.op, found.value, found.old) == (3, "remove", None, 1)
    assert [(each.op, each.value) for each in session.history_of("a")] == [
        ("remove", None),
        ("replace", 1),
        ("add", None),
    ]


def test_a_value_that_went_away_and_came_back_is_seen(session):
    for n in range(64):
        session.save({"n": n, "mode": "b" if n == 40 else "a"})

    assert session.blame("mode").checkpoint.seq == 42
    assert seqs(session.history_of("mode")) == [42, 41, 1]


def test_history_has_every_change_both_ways_round(session):
    values = [1, 1, 2, 2, 2, 1, 3, 3]
    for n, value in enumerate(values):
        session.save({"n": n, "v": value})

    newest = list(session.history_of("v"))

    assert [(c.checkpoint.seq, c.value, c.old) for c in newest] == [
        (7, 3, 1),
        (6, 1, 2),
        (3, 2, 1),
        (1, 1, None),
    ]
    assert list(session.history_of("v", oldest_first=True)) == newest[::-1]
    assert list(session.history_of("v", limit=2)) == newest[:2]
    assert seqs(session.history_of("v", "#5")) == [3, 1]
    assert seqs(session.history_of("v", "#3..#7")) == [7, 6]
    assert seqs(session.history_of("v", "#2..#5")) == [3]
    assert seqs(session.history_of("v", "#3..#5")) == []


def test_types_and_order_count_as_changes(session):
    for value in (1, 1.0, True, {"a": 1, "b": 2}, {"b": 2, "a": 1}, float("nan"), float("nan")):
        session.save({"v": value})

    assert seqs(session.history_of("v", oldest_first=True)) == [1, 2, 3, 4, 5, 6]


def test_a_path_that_leads_nowhere_says_what_there_is(session):
    for n in range(5):
        session.save({"score": n})

    for look in (
        lambda: session.blame("scoer"),
        lambda: list(session.history_of("scoer")),
    ):
        with pytest.raises(holdfast.NotFoundError, match=r"there is no state\['scoer'\]") as caught:
            look()
        assert caught.value.code is ErrorCode.PATH_MISSING


@pytest.mark.parametrize("path", ["", "][", None, "a..b"])
def test_what_is_no_path_is_refused_at_once(session, path):
    session.save({"a": 1})

    for look in (session.blame, session.history_of):
        with pytest.raises(holdfast.InvalidInputError) as caught:
            look(path)
        assert caught.value.code is ErrorCode.BAD_PATH


def test_a_range_with_nothing_in_it_has_no_history(session):
    for n in range(3):
        session.save({"a": n})

    for asked, note in (
        ("@..@", "nothing is in @..@"),
        ("#3..#1", "nothing is in #3..#1; did you mean #1..#3?"),
        ("#3..@-", "nothing is in #3..@-; did you mean @-..#3?"),
    ):
        for found in (session.history_of("a", asked), session.grep("x", asked)):
            assert list(found) == []
            assert found.notes == (note,)
        assert session.log(asked) == []


def test_refs_that_name_nothing_are_refused_at_once(session):
    with pytest.raises(holdfast.NotFoundError):
        session.blame("a")
    session.save({"a": 1})
    with pytest.raises(holdfast.NotFoundError):
        session.history_of("a", "no-such-branch")
    with pytest.raises(holdfast.InvalidInputError, match="limit"):
        session.history_of("a", limit=0)


def test_what_was_pruned_in_between_is_passed_over(session):
    for n in range(10):
        session.save({"v": n // 4})
    session.delete("#5")

    found = session.blame("v", "#8")

    assert (found.checkpoint.seq, found.checkpoint.skipped) == (6, 1)
    assert found.before.seq == 4


def test_branches_are_walked_as_log_does(session):
    for n in range(4):
        session.save({"v": n})
    aside = session.fork("#2", "aside")
    aside.save({"v": 7})

    assert seqs(aside.history_of("v")) == [6, 2, 1]
    assert seqs(session.history_of("v")) == [4, 3, 2, 1]
    assert next(session.history_of("v", "aside")).value == 7
