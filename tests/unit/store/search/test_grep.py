"""grep: texts in states, each chunk searched once, newest first; patterns that cannot hang it."""

from __future__ import annotations

import sys

import pytest

import holdfast
from holdfast import ErrorCode
from holdfast.store.search import grep


def found(matches):
    return [(match.checkpoint.seq, match.path) for match in matches]


def test_texts_are_found_wherever_they_are_and_the_paths_load_them(session):
    state = {
        "notes": ["nothing", "the needle here"],
        "deep": {"a": {"b": ("x", ["needle"])}},
        "odd key": "needle",
        "needle": "only the key",
        "raw": b"needle",
        "n": 7,
    }
    session.save(state)

    matches = list(session.grep("needle"))

    assert found(matches) == [(1, "notes[1]"), (1, "deep.a.b[1][0]"), (1, "['odd key']")]
    for match in matches:
        whole = session.load(match.checkpoint, path=match.path)
        assert whole[match.offset :].startswith("needle")
        assert match.text[match.start : match.stop] == "needle"


def test_what_came_in_is_told_newest_first_and_what_stays_is_not(session):
    for text in ("a needle", "a needle, a needle", "none", "needle", "needle"):
        session.save({"t": text, "n": text})

    assert found(session.grep("needle", path="t")) == [(4, "t"), (2, "t"), (1, "t")]
    assert found(session.grep("needle", limit=2)) == [(4, "t"), (4, "n")]
    assert found(session.grep("needle", "#2", path="n")) == [(2, "n"), (1, "n")]
    assert found(session.grep("needle", "#1..#2", path="n")) == [(2, "n")]
    assert found(session.grep("needle", "@~1..@")) == []
    assert found(session.grep("nowhere")) == []


def test_a_text_that_grows_is_told_where_a_match_touches_what_was_added(session):
    text = ""
    for step, more in enumerate(["begin. ", "go on. ", "see the w", "iki. ", "read. ", "ask the wiki. "], 1):
        text += more
        session.save({"notes": text, "step": step})

    matches = list(session.grep("the wiki"))

    assert [(each.checkpoint.seq, each.offset) for each in matches] == [
        (6, text.rindex("the wiki")),
        (4, text.index("the wiki")),
    ]


def test_a_whole_value_that_took_the_place_of_another_tells_new_texts_only(session):
    session.save({"a": ["needle one", "needle two"]})
    session.save({"a": {"x": "needle two", "y": "needle three"}})

    assert found(session.grep("needle", "@~1..@")) == [(2, "a.y")]


def test_large_lists_dicts_and_texts_are_searched_with_right_places(session):
    big = {
        "list": [f"item {n} " + "x" * 100 for n in range(3000)],
        "dict": {f"k{n}": {"t": f"value {n} " + "y" * 100} for n in range(2000)},
        "text": "z" * 300_000 + " needle " + "z" * 300_000,
        "nested": [[f"cell {n} " + "w" * 200 for n in range(200)] for _ in range(3)],
    }
    session.save(big)

    assert found(session.grep("item 2345 ")) == [(1, "list[2345]")]
    assert found(session.grep("value 1777 ")) == [(1, "dict.k1777.t")]
    assert found(session.grep("cell 150 ")) == [(1, f"nested[{n}][150]") for n in range(3)]
    (match,) = session.grep(" needle ")
    assert (match.path, match.offset, match.text[match.start : match.stop]) == ("text", 300_000, " needle ")
    assert len(match.text) < 200
    assert found(session.grep("value 1777 ", path="dict.k1777")) == [(1, "dict.k1777.t")]
    assert found(session.grep("item", path="dict")) == []
    assert found(session.grep("item 2999", path="list[-1]")) == [(1, "list[2999]")]


def test_letters_as_they_are_and_letters_in_any_case(session):
    session.save({"a": "Größe (1+1)?", "b": "GRÖSSE", "c": "größe", "d": "half \ud800 pair"})

    assert found(session.grep("Größe (1+1)?")) == [(1, "a")]
    assert found(session.grep("größe", ignore_case=True)) == [(1, "a"), (1, "c")]
    assert found(session.grep("pair")) == [(1, "d")]
    assert found(session.grep("\ud800")) == [(1, "d")]


def test_regular_expressions_find_with_and_without_case(session):
    for text in ("ok", "Error 500", "error 404"):
        session.save({"t": text})

    assert found(session.grep(r"error \d+", regex=True)) == [(3, "t")]
    assert found(session.grep(r"^error \d+$", regex=True, ignore_case=True)) == [(3, "t"), (2, "t")]


def test_a_pattern_that_takes_for_ever_is_given_up(session, monkeypatch):
    monkeypatch.setattr(grep, "_SECONDS", 0.05)
    session.save({"t": "a" * 40 + "b"})

    with pytest.raises(holdfast.InvalidInputError, match=r"takes more than .* in checkpoint #1") as caught:
        list(session.grep(r"(?:a|aa)+$", regex=True))
    assert caught.value.code is ErrorCode.BAD_PATTERN


@pytest.mark.parametrize(
    ("pattern", "regex"), [("", False), ("(a", True), ("x" * 1001, False), (b"x", False), ("a{2,1}", True)]
)
def test_what_is_no_pattern_is_refused_at_once(session, pattern, regex):
    session.save({"t": "x"})

    with pytest.raises(holdfast.InvalidInputError) as caught:
        session.grep(pattern, regex=regex)
    assert caught.value.code is ErrorCode.BAD_PATTERN


def test_without_the_library_words_are_found_and_expressions_are_not_supported(session, monkeypatch):
    monkeypatch.setitem(sys.modules, "regex", None)
    session.save({"t": "x"})

    assert found(session.grep("x")) == [(1, "t")]
    with pytest.raises(holdfast.UnsupportedError) as caught:
        session.grep("x", regex=True)
    assert "holdfast[query]" in caught.value.hint
