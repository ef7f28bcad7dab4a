"""The way back through what is left of a session."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.history.remains import NO_NUMBER, Remains
from holdfast.storage.inspection import LostRow
from holdfast.testing.rows import checkpoint_id, row


def made(label, seq, prev=None, **fields):
    return row(label, seq=seq, prev=None if prev is None else checkpoint_id(prev), **fields)


def lost(label, seq=None, *followed):
    return LostRow(checkpoint_id(label), "work", seq, "gone", tuple(map(checkpoint_id, followed)))


def remains(rows, *unreadable, without=()):
    return Remains(rows, {each.id: each for each in unreadable}, without=set(map(checkpoint_id, without)))


def way(found):
    return (found.to.seq if found.to else None, found.skipped, [each.seq for each in found.unreadable])


def test_what_is_there_is_where_the_way_leads():
    left = remains([made("a", 1), made("b", 2, "a")])
    assert way(left.beyond(checkpoint_id("b"), "main")) == (2, 0, [])
    assert way(left.beyond(checkpoint_id("b"), "main", 2)) == (1, 1, [])


def test_what_is_removed_or_left_out_is_passed_over_with_all_that_it_skips():
    rows = [made("a", 1), made("b", 4, "a", skipped=2), made("c", 5, "b", hidden=1), made("d", 6, "c")]
    left = remains(rows, without=["b"])
    assert way(left.beyond(checkpoint_id("c"), "main", 6)) == (1, 4, [])
    assert [each.seq for each in left.there] == [1, 6]


def test_an_unreadable_row_leads_to_what_it_followed():
    left = remains(
        [made("a", 1), made("x", 2), made("d", 5)], lost("b", 3, "nowhere", "a"), lost("c", 4, "b")
    )
    assert way(left.beyond(checkpoint_id("c"), "main", 5)) == (1, 2, [4, 3])
    assert way(left.beyond_lost(lost("c", 4, "b"), "main")) == (1, 2, [4, 3])


def test_without_a_word_of_what_it_followed_the_newest_before_takes_its_place():
    rows = [made("a", 1), made("b", 2, branch="side"), made("c", 6)]
    left = remains(rows, lost("d", 4))
    assert way(left.beyond(checkpoint_id("d"), "main")) == (1, 1, [4])
    assert way(left.beyond(checkpoint_id("d"), "side")) == (2, 1, [4])
    assert way(left.beyond(checkpoint_id("d"), "other")) == (2, 1, [4])
    assert way(left.beyond(checkpoint_id("never heard of"), "main", 6)) == (1, 1, [])
    assert way(left.beyond_lost(LostRow(None, "work", 4, "gone"), "main")) == (1, 1, [4])
    assert left.newest_before(1, "main") is None
    assert left.newest_before(NO_NUMBER, "main").seq == 6


def test_the_beginning_of_history_is_the_end_of_the_way():
    left = remains([made("a", 1), made("b", 2), made("c", 3, "b")], without=["b"])
    assert way(left.beyond(checkpoint_id("b"), "main", 3)) == (None, 1, [])


LABELS = st.sampled_from("abcdef")


@given(
    rows=st.dictionaries(LABELS, st.tuples(st.integers(1, 6), st.none() | LABELS, st.booleans())),
    gone=st.dictionaries(
        LABELS, st.tuples(st.none() | st.integers(1, 6), st.lists(LABELS, max_size=3)), max_size=4
    ),
    start=LABELS,
    before=st.integers(1, 7) | st.just(NO_NUMBER),
)
def test_a_way_ends_whatever_the_rows_say(rows, gone, start, before):
    """In circles, forwards and to nothing: with a row that is there and comes before, or with none."""
    left = remains(
        [made(label, seq, prev, hidden=int(hidden)) for label, (seq, prev, hidden) in rows.items()],
        *(lost(label, seq, *followed) for label, (seq, followed) in gone.items()),
    )
    found = left.beyond(checkpoint_id(start), "main", before).to
    assert found is None or (found.seq < before and not found.hidden)


@pytest.mark.parametrize("number", [None, 3])
def test_a_circle_of_unreadable_rows_ends(number):
    left = remains([made("a", 1)], lost("b", number, "c"), lost("c", number, "b"))
    assert left.beyond(checkpoint_id("b"), "main").to.seq == 1
