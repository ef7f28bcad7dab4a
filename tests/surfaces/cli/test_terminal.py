"""What is shown on a terminal: escapes, widths, ages."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli._terminal import (
    age,
    escape_controls,
    escape_field,
    escape_json,
    iso,
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


def test_ordinary_text_stays_as_it_is():
    for text in ("plain", "größe", "日本語", "нет", "emoji 🙂", "می‌خواهم", "a\\b"):
        assert escape_controls(text) == text


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


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "now"),
        (0.9, "now"),
        (1, "1s ago"),
        (59, "59s ago"),
        (60, "1m ago"),
        (7199, "1h ago"),
        (86_400 * 6, "6d ago"),
        (86_400 * 20, "2w ago"),
        (86_400 * 360, "11mo ago"),
        (86_400 * 800, "2y ago"),
        (-90, "in 1m"),
    ],
)
def test_ages_are_short(seconds, text):
    now = datetime(2026, 11, 15, tzinfo=UTC)

    assert age(now - timedelta(seconds=seconds), now) == text
    assert len(text) <= 8


def test_times_are_utc_and_sort_as_text():
    whole = datetime(2026, 11, 15, 12, tzinfo=UTC)
    later = whole + timedelta(microseconds=1)

    assert iso(whole) == "2026-11-15T12:00:00.000000Z"
    assert iso(whole) < iso(later)
