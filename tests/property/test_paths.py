"""Writing and reading a path are inverses of each other, whatever text a key is: what diff names can be loaded."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import holdfast
from holdfast.objects.codec.state_path import PathStep, parse_path, path_text
from holdfast.objects.merge.resolve import _pattern as parse

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=12)
AWKWARD = st.text("'\"][#.\\:*{}a0\n\r\u2028\ud800 ", max_size=12)
KEYS = ANY_TEXT | AWKWARD

ODD = [
    "",
    "a\nb",
    "a'].b\"].c",
    "'#]\"]']\"#]",
    "'",
    '"',
    "']",
    "'#",
    "#'",
    "\ud800",
    "0",
    "-1",
    "1:2",
    "*",
    "a\\",
    "[*]",
    "a.b",
    "{1}",
]


@given(st.lists(KEYS | st.integers(0, 99), min_size=1, max_size=5))
@example(ODD)
def test_a_path_leads_back_to_its_steps(keys):
    steps = [PathStep("index" if isinstance(key, int) else "key", key) for key in keys]

    assert parse_path(path_text(steps)) == keys


@given(st.lists(KEYS, min_size=1, max_size=5))
@example(ODD)
def test_a_path_is_a_pattern_for_itself_and_for_nothing_else(keys):
    steps = [PathStep("key", key) for key in keys]
    pattern = parse(path_text(steps))

    assert pattern.is_plain
    assert pattern.fits(steps)
    assert not pattern.fits([*steps[:-1], PathStep("key", keys[-1] + "x")])


@given(KEYS)
@example("a\nb")
@example("a'].b\"].c")
@example("\ud800")
@example("\ud800\n']\"]")
def test_every_question_takes_the_path_that_a_diff_gives(key):
    store = holdfast.open("memory:")
    session = store.session("s")
    session.save({"in": {key: "old text"}})
    session.save({"in": {key: "new text"}})

    (change,) = session.diff()

    assert session.load(path=change.path) == "new text"
    assert [each.path for each in session.diff(path=change.path)] == [change.path]
    assert session.blame(change.path).value == "new text"
    assert [each.value for each in session.history_of(change.path)] == ["new text", "old text"]
    assert [each.path for each in session.grep("new text", path=change.path)] == [change.path]


def test_a_key_with_half_a_surrogate_pair_is_found_in_a_large_dict():
    session = holdfast.open("memory:").session("s")
    many = {f"k{n}": "x" * 100 for n in range(2000)}
    session.save({"in": many | {"\ud800": 1}})
    session.save({"in": many | {"\ud800": 2}})

    (change,) = session.diff()

    assert session.load(path=change.path) == 2
    assert session.blame(change.path).old == 1


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("to do", "['to do']"),
        ("it's", "['it's']"),
        ("a']", '["a\']"]'),
        ("a']\"]", "[#'a']\"]'#]"),
        ("']\"]'#]", '[#"\']"]\'#]"#]'),
    ],
)
def test_a_key_is_in_quotes_that_do_not_end_before_it(key, text):
    assert path_text([PathStep("key", key)]) == text
    assert parse_path(text) == [key]
