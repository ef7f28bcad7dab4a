"""Checkpoints without a message, called by what they changed: where it is shown, how it looks, what it costs."""

from __future__ import annotations

import json

import pytest
from tests.surfaces.cli.places import place, zero_chunks

import holdfast
from holdfast.cli import _labels

KEPT_IN = ["sqlite"]


@pytest.fixture
def store(home):
    """Four checkpoints, of which the first and the third have a message."""
    with holdfast.open(place(home), durability="process") as opened:
        session = opened.session()
        session.save({"score": 0.1}, "began")
        session.save({"score": 0.2}, tokens=1_200, cost_usd=0.0123, duration_ms=44)
        session.save({"score": 0.3}, "measured")
        session.save({"score": 0.4})
        yield opened


@pytest.mark.parametrize("command", ["tree", "timeline"])
def test_a_label_stands_in_brackets_where_a_message_is_missing(terminal, store, command):
    lines = terminal(command, "--labels", width=100, NO_COLOR="1").screen.splitlines()[-4:]
    assert [line.split("  ")[-1] for line in lines] == [
        "(score 0.3 to 0.4)",
        "measured",
        "(score 0.1 to 0.2)",
        "began",
    ]
    assert "\x1b[2m(score 0.3 to 0.4)" in terminal(command, "--labels", width=100).screen
    assert "(score" not in terminal(command, width=100, NO_COLOR="1").screen


def test_show_and_bisect_name_the_one_checkpoint_they_are_about(terminal, store):
    header = terminal("show", "#2", width=100, NO_COLOR="1").screen
    assert "message     (score 0.1 to 0.2)" in header
    assert "used        1,200 tokens, 0.0123 USD, 44 ms" in header
    assert "message     measured" in terminal("show", "#3", NO_COLOR="1").screen
    assert "message" not in terminal("show", "#2", "--record", NO_COLOR="1").screen
    assert "(score 0.3 to 0.4)" in terminal("bisect", "score > 0.3", width=100, NO_COLOR="1").screen


@pytest.mark.parametrize("args", [["list"], ["list", "--json"], ["tree", "--json"], ["show", "#2", "--json"]])
def test_programs_get_no_label_that_they_did_not_ask_for(run, store, args, monkeypatch):
    monkeypatch.setattr(_labels, "label_of", lambda *_: pytest.fail("a label was made"))
    result = run(*args)
    assert result.exit_code == 0
    assert "score 0.1 to 0.2" not in result.stdout


def test_a_program_can_tell_what_somebody_wrote_from_what_was_made_of_a_comparison(run, store):
    # Nobody could tell by its looks.
    store.session().save({"score": 0.5}, "(score 0.4 to 0.5)")
    lines = [line.split("\t") for line in run("timeline", "--labels").stdout.splitlines()]
    assert [fields[8:] for fields in lines] == [
        ["(score 0.4 to 0.5)", "message"],
        ["score 0.3 to 0.4", "changes"],
        ["measured", "message"],
        ["score 0.1 to 0.2", "changes"],
        ["began", "message"],
    ]
    moments = json.loads(run("timeline", "--labels", "--json").stdout)["moments"]
    assert [[each["label"], each["label_from"]] for each in moments] == [fields[8:] for fields in lines]
    assert [each["checkpoint"]["message"] for each in moments] == [
        label if origin == "message" else "" for label, origin in (fields[8:] for fields in lines)
    ]


def test_a_message_that_was_written_later_is_one(run, store):
    store.session().annotate("#2", message="looked at")
    lines = [line.split("\t")[8:] for line in run("timeline", "--labels").stdout.splitlines()]
    assert lines[2] == ["looked at", "message"]


def test_without_labels_a_row_has_the_columns_that_it_always_had(run, store):
    lines = [line.split("\t") for line in run("timeline").stdout.splitlines()]
    assert [fields[8:] for fields in lines] == [[""], ["measured"], [""], ["began"]]
    moments = json.loads(run("timeline", "--json").stdout)["moments"]
    assert all(each.keys() == {"checkpoint", "gap_seconds", "lane"} for each in moments)


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_the_tree_gives_programs_what_was_written_and_nothing_else(run, store, form):
    assert run("tree", "--labels", *form).stdout == run("tree", *form).stdout
    assert "score 0.1 to 0.2" not in run("tree", "--labels", *form).stdout


def test_there_are_no_more_labels_than_a_page_has_rows(store, monkeypatch):
    made: list[int] = []

    def label_of(_: object, each: holdfast.Checkpoint) -> str:
        made.append(each.seq)
        return "x"

    monkeypatch.setattr(_labels, "label_of", label_of)
    session = store.session("long")
    rows = [session.save(n) for n in range(60)]
    assert len(_labels.labels_of(store, rows)) == len(made) == _labels.PAGE
    assert made[0] == 1
    assert len(_labels.labels_of(store, rows, None)) == 60


def test_a_state_that_cannot_be_read_costs_its_label_and_nothing_else(terminal, run, home, store):
    damaged = bytes.fromhex(store.session().checkpoint("#1").root)
    store.close()
    zero_chunks(home, damaged)
    for command in ("tree", "timeline"):
        seen = terminal(command, "--labels", width=100, NO_COLOR="1")
        assert seen.exit_code == 0
        assert "(score 0.3 to 0.4)" in seen.screen
        assert "0.1" not in seen.screen
    piped = run("timeline", "--labels")
    assert piped.exit_code == 0
    assert [line.split("\t")[8:] for line in piped.stdout.splitlines()][2] == ["", ""]
    moments = json.loads(run("timeline", "--labels", "--json").stdout)["moments"]
    assert not moments[2].keys() & {"label", "label_from"}
    shown = terminal("show", "#2", NO_COLOR="1")
    assert shown.exit_code == 0
    assert "message" not in shown.screen
