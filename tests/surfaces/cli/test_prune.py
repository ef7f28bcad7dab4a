"""`holdfast prune`: the plan as a table, a question, and a way back."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest
from tests.surfaces.cli.conftest import PROGRAM
from tests.surfaces.cli.places import place

import holdfast
from holdfast import Keep

QUESTION = "Go on? [y/N] "


@pytest.fixture
def store(home):
    with holdfast.open(place(home)) as opened:
        session = opened.session()
        for n in range(6):
            session.save({"n": n}, f"number {n}", step=n, tags=["golden"] if n == 1 else [])
        yield opened


def steps(store, session="default"):
    return [each.step for each in store.session(session).log()]


def rows(result):
    assert result.exit_code == 0, result.stderr
    return [line.split("\t") for line in result.stdout.splitlines()]


def test_in_a_pipe_every_decision_is_a_row_and_a_dry_run_has_the_same(run, store):
    dry = run("prune", "--keep-last", "2", "--keep-tag", "golden", "--dry-run")
    assert steps(store) == [5, 4, 3, 2, 1, 0]
    done = run("prune", "--keep-last", "2", "--keep-tag", "golden", "--yes")

    assert dry.stdout == done.stdout
    assert [(row[1], row[3], row[4], row[5], row[6]) for row in rows(done)] == [
        ("6", "default", "keep", "tip of main; last 2", "number 5"),
        ("5", "default", "keep", "last 2", "number 4"),
        ("4", "default", "remove", "no rule keeps it", "number 3"),
        ("3", "default", "remove", "no rule keeps it", "number 2"),
        ("2", "default", "keep", "tag golden", "number 1"),
        ("1", "default", "remove", "no rule keeps it", "number 0"),
    ]
    assert steps(store) == [5, 4, 1]
    assert (
        dry.stderr == "6 checkpoints: 3 would be kept, 3 would be removed\na dry run: nothing was changed\n"
    )
    assert done.stderr == "6 checkpoints: 3 kept, 3 removed\nUndo: holdfast undo\n"


def test_the_command_that_it_names_takes_it_back(run, store):
    run("prune", "--at-most", "1", "--yes")
    assert steps(store) == [5]
    assert run("undo").exit_code == 0

    assert steps(store) == [5, 4, 3, 2, 1, 0]


def test_the_verb_of_the_source_documents_works_with_a_yes_where_nobody_can_be_asked(run, store):
    """`prune --keep-last 100 --keep-days 7`, as they write it: a pipe has nobody to ask."""
    words = ["prune", "--keep-last", "3", "--keep-days", "7"]
    assert [row[4] for row in rows(run(*words))] == ["keep"] * 6

    words = ["prune", "--keep-last", "3"]
    refused = run(*words)
    assert (refused.exit_code, refused.stdout) == (20, "")
    assert "error: 3 of 6 checkpoints will be removed, and nobody is there to be asked" in refused.stderr
    assert "hint: --yes does it without asking" in refused.stderr
    assert steps(store) == [5, 4, 3, 2, 1, 0]
    assert run(*words, "--yes").exit_code == 0
    assert steps(store) == [5, 4, 3]


def test_on_a_terminal_the_table_comes_first_and_then_a_question(talk, store):
    seen = talk([*PROGRAM, "prune", "--keep-last", "2"], (QUESTION, "y\n"), NO_COLOR="1")

    assert seen.exit_code == 0
    table, _, rest = seen.screen.partition("4 of 6 checkpoints will be removed. Go on? [y/N] ")
    lines = table.splitlines()
    assert lines[0].split() == ["ID", "SEQ", "AGE", "PLAN", "REASONS", "MESSAGE"]
    assert re.search(r"#6 .* keep +tip of main, last 2 +number 5", lines[1])
    assert re.search(r"#1 .* remove +no rule keeps it +number 0", lines[6])
    assert rest.endswith("6 checkpoints: 2 kept, 4 removed\nUndo: holdfast undo\n")
    assert steps(store) == [5, 4]


@pytest.mark.parametrize("answer", ["n\n", "\n", "\x04", "\x03"])
def test_another_answer_removes_nothing(talk, store, answer):
    seen = talk([*PROGRAM, "prune", "--keep-last", "2"], (QUESTION, answer), NO_COLOR="1")

    assert seen.exit_code == (130 if answer == "\x03" else 20)
    assert steps(store) == [5, 4, 3, 2, 1, 0]


def test_the_plan_of_a_dry_run_is_the_table_of_the_run(talk, store):
    del store
    command = [*PROGRAM, "prune", "--at-most", "2", "--time", "iso"]
    dry = talk([*command, "--dry-run"], NO_COLOR="1").screen
    done = talk(command, (QUESTION, "y\n"), NO_COLOR="1").screen

    assert dry.splitlines()[:7] == done.splitlines()[:7]
    assert QUESTION not in dry


def test_json_has_the_policy_the_counts_and_every_reason(run, store):
    dry = json.loads(run("prune", "--keep-last", "2", "--keep-hourly", "3", "--json", "-n").stdout)
    done = json.loads(run("prune", "--keep-last", "2", "--keep-hourly", "3", "--json", "--yes").stdout)

    assert dry["policy"] == Keep(last=2, hourly=3).to_dict()
    assert (done["total"], done["kept"], done["deleted"], done["changed"]) == (6, 2, 4, True)
    assert (dry["dry_run"], dry["changed"]) == (True, False)
    assert dry["decisions"] == done["decisions"]
    assert [each["kept"] for each in done["decisions"]] == [True, True, False, False, False, False]
    assert steps(store) == [5, 4]


def test_json_is_never_asked_and_is_20(run, store):
    refused = run("prune", "--keep-last", "2", "--json")

    assert (refused.exit_code, refused.stdout) == (20, "")
    assert json.loads(refused.stderr)["error"]["code"] == "needs-confirmation"
    assert len(steps(store)) == 6


@pytest.mark.parametrize("more", [[], ["--dry-run"], ["--yes"]])
def test_nothing_to_remove_is_said_and_needs_no_answer(run, terminal, more):
    run("create", "one")
    result = run("prune", "--keep-last", "5", *more)

    assert result.exit_code == 0
    assert "nothing to remove: the one checkpoint is kept" in result.stderr
    assert len(result.stdout.splitlines()) == 1
    assert "Undo" not in result.stderr
    seen = terminal("prune", "--keep-last", "5", *more, both=True, NO_COLOR="1")
    assert seen.exit_code == 0
    assert "nothing to remove" in seen.screen


OPTIONS: list[tuple[list[str], dict[str, Any]]] = [
    (["--keep-last", "2"], {"last": 2}),
    (["--keep-within", "2d"], {"within": "2d"}),
    (["--keep-hourly", "24"], {"hourly": 24}),
    (["--keep-hourly", "all"], {"hourly": "all"}),
    (["--keep-daily", "7"], {"daily": 7}),
    (["--keep-weekly", "5"], {"weekly": 5}),
    (["--keep-monthly", "all"], {"monthly": "all"}),
    (["--keep-days", "7"], {"days": 7}),
    (["--keep-manual"], {"manual": True}),
    (["--keep-tag", "a", "--keep-tag", "b"], {"tags": ["a", "b"]}),
    (["--keep-significant"], {"significant": True}),
    (["--at-most", "3"], {"at_most": 3}),
    (["--max-age-days", "30"], {"max_age_days": 30}),
    (["--at-most", "3", "--per", "branch"], {"at_most": 3, "per": "branch"}),
]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(("words", "fields"), OPTIONS, ids=lambda each: str(each)[:40])
def test_every_option_is_a_field_of_the_policy(run, words, fields):
    assert json.loads(run("prune", *words, "-n", "--json").stdout)["policy"] == Keep(**fields).to_dict()


def test_every_field_of_a_policy_has_an_option():
    assert {name for _, fields in OPTIONS for name in fields} == set(Keep(last=1).to_dict())


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], "empty-policy", "--keep-last 100 or --keep-days 7"),
        (["--per", "branch"], "empty-policy", "--at-most 10"),
        (["--keep-last", "0"], "bad-argument", "--keep-last"),
        (["--keep-last", "x"], "bad-argument", "--keep-last"),
        (["--keep-hourly", "every"], "bad-argument", "neither a whole number from 1 on nor all"),
        (["--keep-hourly", "0"], "bad-argument", "neither"),
        (["--keep-hourly", "9" * 5000], "bad-argument", "neither"),
        (["--keep-within", "2 days"], "bad-argument", '"2d"'),
        (["--keep-tag", ""], "bad-name", "tag"),
        (["--at-most", "3", "--per", "brnach"], "bad-argument", "--per"),
        (["--keep-lsat", "3"], "bad-argument", "did you mean --keep-last?"),
        (["--at-most", "3", "--branch", "main"], "bad-argument", "--per branch"),
    ],
)
def test_what_cannot_be_meant_is_2_and_says_what_could(run, words, code, said):
    result = run("prune", *words)

    assert result.exit_code == 2
    assert f"code: {code}" in result.stderr
    assert said in result.stderr


@pytest.mark.usefixtures("store")
def test_a_session_that_is_not_there_is_4_with_the_near_name(run):
    result = run("prune", "--at-most", "3", "--session", "defualt")

    assert result.exit_code == 4
    assert "did you mean default?" in result.stderr
    assert run("prune", "--at-most", "3", "--store", "nowhere").exit_code == 10


def test_per_agent_prunes_all_its_sessions_and_says_how_to_undo_each(run, home, terminal):
    with holdfast.open(place(home)) as store:
        for n in range(8):
            store.session(f"s {n % 2}", agent="scout").save({"n": n}, f"number {n}", step=n)
        words = ["prune", "--at-most", "3", "--per", "agent", "--session", "s 0"]
        seen = terminal(*words, "--dry-run", width=100, NO_COLOR="1").screen
        result = run(*words, "--yes")

        assert seen.splitlines()[0].split() == ["ID", "SEQ", "SESSION", "AGE", "PLAN", "REASONS", "MESSAGE"]
        assert {row[3] for row in rows(result)} == {"s 0", "s 1"}
        assert result.stderr.endswith(
            "Undo: holdfast undo --session 's 0'\nUndo: holdfast undo --session 's 1'\n"
        )
        assert "5 of 8" not in result.stderr
        assert len(store.find(agent="scout")) == 3
        run("undo", "--session", "s 0")
        run("undo", "--session", "s 1")
        assert len(store.find(agent="scout")) == 8


def test_a_session_that_was_named_is_named_in_the_way_back(run, store):
    store.session("other").save({"n": 0})
    store.session("other").save({"n": 1})
    result = run("prune", "--at-most", "1", "--yes", "--session", "other")

    assert result.stderr.endswith("Undo: holdfast undo --session other\n")


def test_hostile_text_is_harmless(terminal, home):
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\nid\t1\tfake\u202e\u2028\x08"
    with holdfast.open(place(home)) as store:
        for _ in range(3):
            store.session("s").save({}, evil, tags=["t"])
    seen = terminal("prune", "--at-most", "1", "--session", "s", "--yes", "--color", "never", both=True)

    assert seen.exit_code == 0
    assert {char for char in seen.screen if char not in "\n\t" and not char.isprintable()} == set()
    assert "owned" in seen.screen


def test_what_is_saved_while_somebody_thinks_is_kept_to_the_policy_and_not_lost(talk, store):
    program = [sys.executable, "-c", THINKING, "prune", "--keep-last", "2"]
    seen = talk(program, NO_COLOR="1")

    assert seen.exit_code == 0
    assert steps(store) == [99, 5]
    assert "7 checkpoints: 2 kept, 5 removed" in seen.screen


THINKING = """
import holdfast
from holdfast.cli import main, _confirming

def ask(settings, question):
    with holdfast.open(".holdfast") as store:
        store.session().save({"n": 99}, "late", step=99)
    return "y"

_confirming._ask = ask
main()
"""
