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
