"""Changed words and lines: both texts can be had back from the marks, and marks never split a word."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.objects.diff.words import line_marks, word_marks

TEXTS = st.text("ab \n.é", max_size=60)


def sides(marks):
    return tuple("".join(mark.text for mark in marks if mark.sign in ("=", sign)) for sign in "-+")


@given(TEXTS, TEXTS)
def test_both_texts_are_in_the_marks(old, new):
    assert sides(word_marks(old, new)) == (old, new)


@given(TEXTS)
def test_a_text_has_no_marks_against_itself(text):
    assert all(mark.sign == "=" for mark in word_marks(text, text))


def test_words_are_marked_whole_and_neighbours_together():
    assert [tuple(mark) for mark in word_marks("the quick brown fox", "the slow red fox")] == [
        ("=", "the "),
        ("-", "quick brown"),
        ("+", "slow red"),
        ("=", " fox"),
    ]


@given(TEXTS, TEXTS)
def test_both_texts_are_in_the_lines(old, new):
    parts = line_marks(old, new)
    assert "\n".join(line for part in parts for line in part.old) == old
    assert "\n".join(line for part in parts for line in part.new) == new
    assert all(part.old == part.new for part in parts if part.same)
