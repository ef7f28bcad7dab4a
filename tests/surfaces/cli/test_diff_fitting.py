"""`holdfast diff` where there is little room: the change itself is in sight, and what was cut is said to be."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.surfaces.cli.places import place

import holdfast
from holdfast import ErrorCode, NotFoundError
from holdfast.cli._diff_drawing import Pen, side_by_side, unified
from holdfast.cli._diffing import Rows
from holdfast.cli._notation import Limits
from holdfast.cli._opening import naming_candidates
from holdfast.cli._settings import Settings
from holdfast.cli._terminal import text_width
from holdfast.cli._words import in_shell_words

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


@pytest.mark.parametrize("width", [60, 80, 120])
def test_both_sides_show_what_changed(width):
    lines, cut = drawn(OLD, NEW, width, beside=True)
    pairs = [line.split(" | ") for line in lines if line.startswith("- ")]
    assert len(pairs) == 6
    assert all(left[2:].strip() != right[2:].strip() for left, right in pairs)
    assert all(text_width(line) <= width for line in lines)
    assert cut
    for word in ("waits", "acts", "world", "there"):
        assert word in "".join(lines)


def test_one_change_stands_in_the_middle_of_what_fits():
    old, new = (f"{SENTENCE}it {word} here; {SENTENCE}" for word in ("was", "is"))
    lines, _ = drawn({"text": old}, {"text": new}, 80, beside=False)
    assert [len(line) for line in lines[1:]] == [80, 79]
    assert abs(lines[1].index(" was ") - lines[1][::-1].index(" saw ")) < 10


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


def test_a_line_that_is_full_to_the_last_column_says_that_there_is_more():
    # The path and the first quote fill the line; nothing of the value fits any more.
    lines, cut = drawn({}, {"k" * 26: 1, "other": 2}, 30, beside=False)
    assert lines[0].endswith("…")
    assert cut


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


def test_in_full_a_long_text_is_read_whole(terminal, store):
    text = " ".join(f"word{number}" for number in range(9_000))
    store.session("long").save({"text": text})
    store.session("long").save({"text": text + " end"})
    screen = terminal("diff", "--session", "long", "--full", width=80, NO_COLOR="1").screen
    assert "word4500 word4501" in screen.replace("\n", "")


def test_a_member_of_a_set_is_written_once(process, store):
    store.session("sets").save({"seen": {(1, "ok")}})
    store.session("sets").save({"seen": {(60, "ok")}})
    lines = process("diff", "--session", "sets", "--unified").stdout.splitlines()
    assert sorted(lines[-2:]) == ['+ seen{(60, "ok")}', '- seen{(1, "ok")}']


def test_of_a_part_it_is_said_that_the_part_is_equal(terminal, store):
    seen = terminal("diff", "@", "@", "--path", "note", NO_COLOR="1")
    assert "note is equal in both states" in seen.screen
    assert "the states are equal" in terminal("diff", "@", "@", NO_COLOR="1").screen
    assert "note is equal" in terminal("diff", "@", "@", "--path", "note", "--stat").stderr


def test_a_part_that_is_nowhere_is_told_by_what_there_is(run, store):
    result = run("diff", "--path", "note.nope")
    assert result.exit_code == 4
    assert "the path ends at" in result.stderr
    result = run("diff", "--path", "nope")
    assert "its keys are: note, digest" in result.stderr
    assert "load the part" not in run("diff", "--path", "nope[1:2]").stderr


@pytest.mark.parametrize(
    ("args", "asked"),
    [
        (["diff", "--from-session", "nope"], "--from-session"),
        (["diff", "--to-session", "nope"], "--to-session"),
        (["merge", "@", "--from-session", "nope"], "--from-session"),
    ],
)
def test_the_session_that_is_missing_is_the_one_that_is_named(run, store, args, asked):
    result = run(*args)
    assert result.exit_code == 4
    assert "there is no session 'nope'" in result.stderr
    assert f"{asked} chooses one of: default" in result.stderr
    near = run(*args[:-1], "defalt")
    assert "there is no session 'defalt'" in near.stderr
    assert re.search(r"did you mean default\?", near.stderr)
    assert "there is no session 'other'" in run("diff", "--session", "other").stderr


def test_a_session_that_went_in_between_is_named_as_well(store):
    gone = NotFoundError("gone", code=ErrorCode.SESSION_MISSING, hint="look", session="other")
    with (
        pytest.raises(NotFoundError, match="there is no session 'other'"),
        naming_candidates(store, Settings()),
    ):
        raise gone


@pytest.mark.parametrize(
    ("library", "shell"),
    [
        (
            "pass force=True (--force) to write over it, or name another file",
            "--force writes over it, or name another file",
        ),
        ("or export it again, with force=True (--whole --force)", "or export it again, with --whole --force"),
        (
            "load the part above it to see what there is",
            "holdfast show REF --path with the part above it shows what there is",
        ),
    ],
)
def test_hints_are_in_the_words_of_the_shell_alone(library, shell):
    assert in_shell_words(library) == shell
