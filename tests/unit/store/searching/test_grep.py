"""grep: texts in states, each chunk searched once, newest first; patterns that cannot hang it."""

from __future__ import annotations

import sys
from itertools import islice

import pytest
from tests.unit.store.searching.counting import counted_session

import holdfast
from holdfast import ErrorCode
from holdfast.store.searching import patterns, texts


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


def test_newest_first_and_once_in_each_state_that_has_it(session):
    for text in ("a needle", "a needle, a needle", "none", "needle"):
        session.save({"t": text})

    assert found(session.grep("needle")) == [(4, "t"), (2, "t"), (1, "t")]
    assert found(session.grep("needle", limit=2)) == [(4, "t"), (2, "t")]
    assert found(session.grep("needle", "#2")) == [(2, "t"), (1, "t")]
    assert found(session.grep("needle", "#1..#2")) == [(2, "t")]
    assert found(session.grep("needle", "@~1..@")) == [(4, "t")]
    assert found(session.grep("nowhere")) == []


def test_new_shows_where_a_text_came_in_wherever_it_moves(session):
    session.save({"m": ["old needle"]})
    session.save({"m": ["first", "old needle"]})
    session.save({"m": ["first", "old needle", "new needle"]})
    session.save({"m": ["new needle"]})
    session.save({"m": ["new needle", "new needle"]})

    assert found(session.grep("needle", new=True)) == [(5, "m[1]"), (3, "m[2]"), (1, "m[0]")]


def test_new_shows_a_text_that_grows_where_a_match_came_in(session):
    text = ""
    for step, more in enumerate(["begin. ", "go on. ", "see the wiki. ", "read. ", "the end. ", "bye. "], 1):
        text += more
        session.save({"notes": text, "step": step})

    (match,) = session.grep("the wiki", new=True)

    assert (match.checkpoint.seq, match.path, match.offset) == (3, "notes", text.index("the wiki"))


@pytest.mark.parametrize("size", [0, 40_000], ids=["short", "long"])
def test_new_in_an_edited_text_is_what_it_has_more_often(session, size):
    words = " ".join(f"w{n}" for n in range(size // 5))
    for text in (
        "a needle",
        "a needle, b",
        "0: a needle, b",
        "0: a needle, b, needle",
        "0: needle, a needle, b, needle",
        "a needle",
        "needle x",
    ):
        session.save({"m": [{"id": 1, "t": words + text}]})

    matches = list(session.grep("needle", new=True))

    assert [(each.checkpoint.seq, each.offset - len(words)) for each in matches] == [(5, 3), (4, 16), (1, 2)]
    assert matches[1].text[matches[1].start :] == "needle"


def test_an_edited_text_is_known_by_its_id_where_it_moved(session):
    session.save({"m": [{"id": 1, "t": "a needle"}]})
    session.save({"m": [{"id": 0, "t": "none"}, {"id": 1, "t": "a needle, and more"}]})
    session.save({"m": [{"id": 2, "t": "a needle, or two"}]})

    assert found(session.grep("needle", new=True)) == [(3, "m[0].t"), (1, "m[0].t")]
    assert found(session.grep("needle", path="m", new=True)) == [(3, "m[0].t"), (1, "m[0].t")]
    assert found(session.grep("needle", path="m[-1:]", new=True)) == [(3, "m[-1:][0].t"), (1, "m[-1:][0].t")]


def test_a_text_that_took_the_place_of_quite_another_is_new(session):
    session.save({"last_error": "timeout while calling search"})
    session.save({"last_error": "disk full; later a timeout of the planner, step 9"})
    session.save({"last_error": "timeout: payment API did not answer"})

    matches = list(session.grep("timeout", new=True))

    assert [(each.checkpoint.seq, each.offset) for each in matches] == [(3, 0), (2, 19), (1, 0)]


@pytest.mark.parametrize(
    ("edited", "is_told"),
    [
        ("two. the {}needle. four. five. six.", False),  # cut at the beginning, grown at the end
        ("one. two. THE {}needle. four.", False),  # changed in the middle
        ("zero. one. two. the {}needle. four. five.", False),  # grown at both ends
        ("the {}needle.", False),  # nothing but a part of it
        ("two. the {}needle. 4. A needle.", True),  # more than before
        ("a needle in other words, of which there are many", True),
        ("one. a needle", True),  # too little of it
    ],
)
@pytest.mark.parametrize("words", [0, 5000], ids=["short", "long"])
def test_what_is_left_of_a_text_says_whether_it_was_edited(session, edited, is_told, words):
    long = "".join(f"w{n} " for n in range(words))
    session.save({"notes": f"one. two. the {long}needle. four."})
    session.save({"notes": edited.format(long)})

    assert found(session.grep("needle", new=True)) == [(2, "notes")] * is_told + [(1, "notes")]


def test_a_text_is_edited_where_its_two_ends_together_are_half_of_it(session):
    session.save({"notes": "a needle, then 100 more, the end"})
    session.save({"notes": "a needle, much later, the end"})

    assert found(session.grep("needle", new=True)) == [(1, "notes")]


def test_a_log_that_keeps_its_last_lines_tells_each_match_once(session):
    lines = [f"{n}: {'needle' if n % 5 == 0 else 'nothing'} here" for n in range(20)]
    for n in range(20):
        session.save({"log": "\n".join(lines[max(0, n - 5) : n + 1])})

    assert [each.checkpoint.seq for each in session.grep("needle", new=True)] == [16, 11, 6, 1]


def test_new_knows_one_match_of_an_expression_from_another(session):
    pytest.importorskip("regex")
    for text in ("error 1", "error 1, go on", "error 1, go on, error 2", "error 2", "Error 2"):
        session.save({"log": text})

    seen = [(each.checkpoint.seq, each.offset) for each in session.grep(r"error \d", regex=True, new=True)]
    assert seen == [(3, 16), (1, 0)]
    seen = session.grep(r"error \d", regex=True, ignore_case=True, new=True)
    assert [each.checkpoint.seq for each in seen] == [3, 1]


def test_each_chunk_is_read_and_searched_once():
    session, backend = counted_session()
    messages = [{"role": "user", "content": f"{n} " + "word " * 60} for n in range(2000)]
    for n in range(60):
        messages.append({"role": "tool", "content": f"needle {n}"})
        session.save({"messages": list(messages), "n": n})
    backend.asked.clear()

    matches = list(session.grep("needle"))

    assert len(matches) == sum(range(1, 61))
    assert matches[0].path == "messages[2000].content"
    assert len(backend.asked) == len(set(backend.asked))
    roots = 60
    assert len(set(backend.asked)) < roots + 3 * len(_chunks(session, backend))


def _chunks(session, backend):
    backend.asked.clear()
    session.load()
    return set(backend.asked)


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


def test_objects_sets_and_other_mappings_are_searched(session):
    session.save({"s": {"needle"}, "f": frozenset(["x needle"]), "d": {1: "needle", 2: "no"}})

    assert [match.path for match in session.grep("needle")] == ["s{'needle'}", "f{'x needle'}", "d{1}"]


def test_a_state_as_deep_as_can_be_is_searched(session):
    deep = "needle"
    for _ in range(3000):
        deep = [deep]  # type: ignore[assignment]
    session.save({"deep": deep})

    (match,) = session.grep("needle")

    assert match.path == "deep" + "[0]" * 3000


def test_regular_expressions_find_with_and_without_case(session):
    for text in ("ok", "Error 500", "error 404"):
        session.save({"t": text})

    assert found(session.grep(r"error \d+", regex=True)) == [(3, "t")]
    assert found(session.grep(r"^error \d+$", regex=True, ignore_case=True)) == [(3, "t"), (2, "t")]


def test_a_pattern_that_takes_for_ever_is_given_up(session, monkeypatch):
    monkeypatch.setattr(patterns, "_SECONDS", 0.05)
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


def test_matches_come_as_they_are_found():
    session, backend = counted_session()
    for n in range(300):
        session.save({"t": f"needle {n}"})
    backend.asked.clear()

    assert found(islice(session.grep("needle"), 2)) == [(300, "t"), (299, "t")]
    assert len(backend.asked) == 2


def test_what_is_erased_while_somebody_looks_is_said_to_be(store):
    session = store.session("s")
    for n in range(4):
        session.save({"t": f"needle {n}"})
    matches, changes = session.grep("needle"), session.history_of("t")
    next(matches)
    next(changes)
    store.forget("s", "#1")

    for rest in (matches, changes):
        with pytest.raises(holdfast.NotFoundError, match="removed while history was searched"):
            list(rest)


def test_the_store_can_be_written_between_two_matches(session):
    for n in range(4):
        session.save({"t": f"needle {n}"})
    seen = []
    for match in session.grep("needle"):
        seen.append(match.checkpoint.seq)
        session.save({"t": "other"})

    assert seen == [4, 3, 2, 1]


def test_what_two_states_share_is_not_put_together_to_find_what_is_new(session, monkeypatch):
    notes = [f"needle {number} {'x' * 200}" for number in range(2000)]
    session.save({"step": 0, "deep": {"notes": notes}})
    for step in (1, 2, 3):
        session.save({"step": step, "deep": {"notes": [*notes, "needle " * step]}})
    placed = texts.Group.placed
    counts = []

    def counting(group):
        counts.append(len(group.finds))
        return placed(group)

    monkeypatch.setattr(texts.Group, "placed", counting)
    matches = session.grep("needle", new=True)
    assert found(islice(matches, 3)) == [(step, "deep.notes[2000]") for step in (4, 3, 2)]
    assert sum(counts) < 600
    assert len(list(matches)) == 2000


def test_a_text_that_stands_elsewhere_too_is_new_where_it_came(session):
    notes = [f"note {number} {'x' * 200}" for number in range(2000)]
    notes[1500] = "the needle"
    session.save({"notes": notes})
    session.save({"notes": ["the needle", *notes]})
    assert len(list(session.grep("needle", new=True, limit=1))) == 1
    assert found(session.grep("needle", new=True))[1:] == [(1, "notes[1500]")]
    assert len(found(session.grep("needle"))) == 3


def test_paths_lead_through_large_lists_in_large_lists(session):
    rows = [[f"{row} {number} {'x' * 300}" for number in range(150)] for row in range(80)]
    for row in (0, 37, 79):
        rows[row][140] = f"needle {row}"
    session.save({"rows": rows})
    session.save({"rows": [["new"], *rows]})
    assert found(session.grep("needle", "#1")) == [(1, f"rows[{row}][140]") for row in (0, 37, 79)]
    for match in session.grep("needle"):
        assert session.load(match.checkpoint, path=match.path) == match.text
    assert found(session.grep("needle", path="rows[38]", limit=1)) == [(2, "rows[38][140]")]
