"""What searches write: CSV that reads back, values by what is new in them, words that fit what was asked."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import deque
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.surfaces.cli.conftest import home, kept_in, process, run, terminal
from tests.surfaces.cli.places import place

import holdfast
from holdfast.cli._values import what_is_new
from holdfast.cli.history import _csv_line

__all__ = ["home", "kept_in", "process", "run", "terminal"]

KEPT_IN = ["sqlite"]


@pytest.fixture
def agent(home: Path):
    """Twelve steps with messages that grow, a set, a long note and a number that is none for once."""
    with holdfast.open(place(home), durability="process") as store:
        session = store.session()
        for n in range(12):
            session.save(
                {
                    "messages": [{"role": "tool", "text": f"what came as number {i}"} for i in range(n + 1)],
                    "seen": {(i, "ok") for i in range(n + 1)},
                    "notes": "It begins like this every time. " * 5 + f"step {n}",
                    "score": [0.5, math.nan, math.inf, -math.inf][n % 4],
                    "text": ["one\ntwo", "a\rb", "c\r\nd", 'x,"y"\n'][n % 4],
                }
            )
        yield session


@given(st.lists(st.lists(st.text(), min_size=2, max_size=6), max_size=5))
def test_a_table_of_any_texts_reads_back(rows):
    written = "".join(_csv_line(row) + "\r\n" for row in rows)
    assert list(csv.reader(io.StringIO(written, newline=""))) == rows


def test_in_csv_a_text_is_in_quotes_and_nothing_else_looks_like_it(run, home):
    with holdfast.open(place(home), durability="process") as store:
        session = store.session()
        for value in ("19", 19, "", None, "null", True, "true", 1.5, [1], "a, b", ...):
            session.save({} if value is ... else {"v": value})
    lines = run("history", "v", "--csv", "--oldest-first").stdout.splitlines()
    values = [re.sub(r"^([^,]*,){4}|,[^,]*$", "", line) for line in lines[1:]]
    assert values == ['"19"', "19", '""', "null", '"null"', "true", '"true"', "1.5", "[1]", '"a, b"', ""]
    assert [line.split(",")[3] for line in lines[-2:]] == ["replace", "remove"]


@pytest.mark.usefixtures("agent")
def test_csv_of_a_history_reads_back_line_breaks_and_odd_numbers_and_all(run):
    def values(path):
        text = run("history", path, "--csv", "--oldest-first", "--limit", "4").stdout_bytes.decode()
        return [row["value"] for row in csv.DictReader(io.StringIO(text, newline=""))]

    assert values("text") == ["one\ntwo", "a\rb", "c\r\nd", 'x,"y"\n']
    assert values("score") == ["0.5", "nan", "inf", "-inf"]
    assert math.isnan(float(values("score")[1]))


@pytest.mark.usefixtures("agent")
@pytest.mark.parametrize(
    ("path", "newest", "before"),
    [
        ("messages", "12 items, [11]: {", "11 items, [10]: {"),
        ("seen", '12 members, new {(11, "ok")}', '11 members, new {(10, "ok")}'),
        ("notes", '167 characters, … "time. step 11"', "167 characters, …"),
    ],
)
def test_a_history_shows_what_is_new_in_each_value(terminal, path, newest, before):
    lines = terminal("history", path, width=80, NO_COLOR="1").screen.splitlines()
    assert newest in lines[1]
    assert before in lines[2]
    assert len({re.split(r"ago|now", line, maxsplit=1)[-1] for line in lines[1:]}) == 12


@pytest.mark.usefixtures("agent")
def test_blame_shows_what_is_new_in_a_value_and_what_was_there_instead(terminal):
    screen = terminal("blame", "seen", width=80, NO_COLOR="1").screen
    assert 'value        12 members, new {(11, "ok")}' in screen
    assert 'before       11 members, without (11, "ok")  (#11)' in screen


@pytest.mark.parametrize(
    ("value", "old", "wanted"),
    [
        ([1, 2], [1], "[1, 2]"),
        ([*range(20), 7], [*range(20)], "21 items, [20]: 7"),
        ([*range(19)], [*range(20)], "19 items, [18]: 18"),
        ([0, 5, *range(2, 20)], [*range(20)], "20 items, [1]: 5, 2, 3 and 16 more"),
        (tuple(range(20)), tuple(range(19)), "20 items, [19]: 19"),
        (deque(range(20)), deque(range(19)), "20 items, [19]: 19"),
        ({n: n for n in range(20)}, {n: n for n in range(19)}, "20 keys, {19: 19}"),
        ({n: n for n in range(19)}, {n: n for n in range(21)}, "19 keys, without 19 and 1 more"),
        ({n: n * 1.0 if n == 5 else n for n in range(19)}, {n: n for n in range(19)}, "19 keys, {5: 5.0}"),
        ([*range(20)], "a text", "[0, 1, 2, 3, 4, 5, 6, 7, … 12 more]"),
        ([*range(20)], None, "[0, 1, 2, 3, 4, 5, 6, 7, … 12 more]"),
        ("a" * 50, "a" * 60, '50 characters, … "aaaaaaaaaaaaa"'),
    ],
)
def test_a_long_value_is_told_by_how_much_it_is_and_what_is_new(value, old, wanted):
    assert what_is_new(value, old, 40) == wanted


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


def test_values_too_deep_to_be_compared_are_shown_all_the_same():
    told = what_is_new([*range(20), nested(5_000)], [*range(20), nested(5_000)], 40)
    assert told.startswith("21 items, [20]: [[[")


@pytest.mark.usefixtures("agent")
def test_the_end_of_a_search_is_called_what_it_is(run):
    assert ", given as bad, nor at the oldest" in run("bisect", "score > 9", "--bad", "#2").stderr
    assert ", the newest, nor at good" in run("bisect", "score == 9", "--good", "#2").stderr
    assert ", the newest, nor at the oldest" in run("bisect", "score == 9").stderr
    assert "no longer at #2" in (told := run("bisect", "score == 0.5", "--bad", "#2").stderr)
    assert "given as bad" in told


@pytest.mark.usefixtures("agent")
def test_a_path_that_no_state_has_is_told_by_grep(run):
    nowhere = run("grep", "number", "--path", "nope")
    assert nowhere.exit_code == 1
    assert "note: there is no nope in any state that was searched" in nowhere.stderr
    assert "there is no nope" in run("grep", "number", "--path", "nope", "--json").stdout
    assert "note:" not in run("grep", "nothing like it", "--path", "messages").stderr
    assert "note:" not in run("grep", "number", "--path", "messages[5]").stderr
    assert "note:" not in run("grep", "nothing like it").stderr
