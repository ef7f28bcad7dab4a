"""What is shown on a terminal: escapes, widths, ages."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.terminal import (
    escape_controls,
    escape_field,
    escape_json,
    pad,
    shorten,
    text_width,
)

HOSTILE = st.text(
    st.characters() | st.sampled_from("\x00\x07\x1b\x9b\u202e\u2066\u2028\ud800\U000e0041\\\t\n\r")
)


def harmless(text: str) -> bool:
    return not any(
        ord(char) < 32
        or 0x7F <= ord(char) <= 0x9F
        or 0x202A <= ord(char) <= 0x202E
        or 0x2066 <= ord(char) <= 0x2069
        or 0xD800 <= ord(char) <= 0xDFFF
        for char in text
    )


@given(HOSTILE)
def test_no_character_that_a_terminal_acts_on_gets_through(text):
    for escape in (escape_controls, escape_field, escape_json):
        shown = escape(text.replace("\n", "") if escape is escape_json else text)
        assert harmless(shown)
        assert len(shown.splitlines()) <= 1


@given(HOSTILE)
def test_a_tsv_field_can_be_turned_back(text):
    field = escape_field(text)
    back = field.encode("latin-1", "backslashreplace").decode("unicode_escape")

    assert back == text


@given(st.recursive(HOSTILE, lambda inner: st.lists(inner) | st.dictionaries(HOSTILE, inner)))
def test_safe_json_is_the_same_json(value):
    text = escape_json(json.dumps(value, ensure_ascii=False, indent=2))

    assert json.loads(text) == json.loads(json.dumps(value))


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])), st.integers(1, 40))
def test_a_shortened_text_fits(text, width):
    short = shorten(text, width)

    assert text_width(short) <= width
    assert short == text or short.endswith("…")


def test_wide_characters_take_two_columns():
    assert text_width("日本") == 4
    assert text_width("e\u0301") == 1
    assert pad("日本", 6) == "日本  "
    assert pad("7", 3, right=True) == "  7"
    assert shorten("日本語", 5) == "日本…"
