"""`holdfast diff` where there is little room: the change itself is in sight, and what was cut is said to be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.surfaces.cli.places import place

import holdfast
from holdfast.cli.diff_view import Pen, Rows, side_by_side, unified
from holdfast.cli.pretty import Limits
from holdfast.cli.terminal import text_width

SENTENCE = (
    "The agent looked at the first place and found nothing there, and then it went on to the second, and "
)
OLD: dict[str, Any] = {
    "note": SENTENCE + "waits for an answer.",
    "digest": "a" * 300 + "b",
    "number": 10**90,
    "raw": b"x" * 200 + b"1",
    "lines": "one\n" + SENTENCE + "was\nthree",
    "very_long_name_of_a_part_of_the_state_that_fills_a_line": {"x": "hello world"},
}
NEW: dict[str, Any] = {
    "note": SENTENCE + "acts on its own.",
    "digest": "a" * 300 + "c",
    "number": 10**90 + 7,
    "raw": b"x" * 200 + b"2",
    "lines": "one\n" + SENTENCE + "is\nthree",
    "very_long_name_of_a_part_of_the_state_that_fills_a_line": {"x": "hello there"},
}


def drawn(old: Any, new: Any, width: int, *, beside: bool, full: bool = False) -> tuple[list[str], bool]:
    """The lines of a diff on a terminal of that width, and whether it says that something was cut."""
    with holdfast.open("memory:") as store:
        session = store.session()
        session.save(old)
        session.save(new)
        diff = session.diff()
        room = (width - 3) // 2 if beside else width
        limits = None if full else Limits(lines=40)
        rows = Rows(fold=3, width=room - 2, limits=limits, short=not full, mark="…")
        pen = Pen(color=False, width=width, mark="…", full=full, was_cut=rows.was_cut)
        found = rows.of(diff)
        lines = list(side_by_side(found, pen) if beside else unified(found, pen, words=False))
    return lines, rows.cut


@pytest.fixture
def store(home):
    with holdfast.open(place(home)) as opened:
        opened.session().save(OLD, "before")
        opened.session().save(NEW, "after")
        yield opened


@given(
    at=st.integers(min_value=0, max_value=60),
    count=st.integers(min_value=1, max_value=60),
    width=st.integers(min_value=60, max_value=120),
    words=st.sampled_from(["word", "ein langes Wort", "日本", "x"]),
)
def test_wherever_a_word_changed_it_is_in_sight(at, count, width, words):
    parts = [f"{words}{number}" for number in range(count + at + 1)]
    old, new = (" ".join([*parts[:at], each, *parts[at:]]) for each in ("BEFORE", "AFTER"))
    for beside in (True, False):
        lines, cut = drawn({"text": old}, {"text": new}, width, beside=beside)
        assert "BEFORE" in "\n".join(lines)
        assert "AFTER" in "\n".join(lines)
        assert all(text_width(line) <= width for line in lines)
        assert cut == ("…" in "\n".join(lines))


@given(width=st.integers(min_value=60, max_value=200), length=st.integers(min_value=1, max_value=400))
def test_in_full_nothing_is_cut(width, length):
    old, new = {"text": "".join(map(str, range(length))) + "日本"}, {"text": "other"}
    lines, cut = drawn(old, new, width, beside=True, full=True)
    left = "".join(line[: (width - 3) // 2].split("|")[0][2:] for line in lines if line.startswith("-"))
    assert old["text"] in left.replace(" ", "")
    assert all(text_width(line) <= width for line in lines)
    assert not cut
    assert "…" not in "".join(lines)


def test_cuts_are_told_and_full_cuts_nothing(terminal, process, store):
    for form in ([], ["--side-by-side"]):
        seen = terminal("diff", *form, width=70, NO_COLOR="1")
        assert "cut short; --full shows all of them" in seen.stderr
        whole = terminal("diff", *form, "--full", width=70, NO_COLOR="1")
        assert whole.stderr == ""
        # The summary is one line whatever happens.
        assert "…" not in "".join(whole.screen.splitlines()[3:])
    shown = terminal("diff", "--full", width=70, NO_COLOR="1").screen.replace("\n", "")
    assert OLD["digest"] in shown
    assert NEW["note"] in shown
    assert "--full" in process("diff", "--side-by-side").stderr
    assert process("diff", "--unified").stderr == ""
