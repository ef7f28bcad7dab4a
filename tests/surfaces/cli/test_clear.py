"""`holdfast clear`: everything in a session, asked about first, and brought back by one undo."""

from __future__ import annotations

import json

import pytest
from tests.surfaces.cli.conftest import PROGRAM
from tests.surfaces.cli.places import name, place

import holdfast

QUESTION = "Go on? [y/N] "


@pytest.fixture
def store(home):
    with holdfast.open(place(home)) as opened:
        session = opened.session()
        for n in (1, 2, 3):
            session.save({"n": n}, f"step {n}")
        session.fork("#2", "side")
        opened.session("other").save(1, "of another")
    return home


def left(home, session="default"):
    with holdfast.open(place(home)) as opened:
        return len(opened.find(session=session)), [each.name for each in opened.session(session).branches()]


def test_it_removes_all_of_the_session_and_nothing_else_and_undo_brings_it_back(run, store):
    done = run("clear", "--yes")

    assert done.exit_code == 0
    assert done.stdout.splitlines() == ["session\tdefault", "checkpoints\t4", "branches\tmain,side"]
    assert done.stderr.splitlines() == [
        "plan: session default; 4 checkpoints and 2 branches are removed from history",
        "Undo: holdfast undo",
    ]
    assert left(store) == (0, [])
    assert left(store, "other") == (1, ["main"])
    assert run("undo").exit_code == 0
    assert left(store) == (4, ["main", "side"])


def test_without_a_terminal_it_needs_yes_and_a_terminal_is_asked(run, talk, store):
    refused = run("clear")
    no = talk([*PROGRAM, "clear"], (QUESTION, "n\n"), NO_COLOR="1")

    assert refused.exit_code == no.exit_code == 20
    assert "4 checkpoints and 2 branches of session default will be removed" in refused.stderr
    assert left(store) == (4, ["main", "side"])
    assert talk([*PROGRAM, "clear"], (QUESTION, "y\n"), NO_COLOR="1").exit_code == 0
    assert left(store) == (0, [])


def test_a_pin_needs_force(run, store):
    run("pin", "#1")

    refused = run("clear", "--yes")

    assert refused.exit_code == 2
    assert "code: protected" in refused.stderr
    assert "--force" in refused.stderr
    assert left(store)[0] == 4
    assert run("clear", "--yes", "--force").exit_code == 0
    assert left(store) == (0, [])


def test_a_dry_run_changes_nothing_and_an_empty_session_needs_no_answer(run, store):
    plan = json.loads(run("clear", "--dry-run", "--json").stdout)
    assert (plan["dry_run"], plan["changed"], plan["plan"]["checkpoints"]) == (True, True, 4)
    assert left(store)[0] == 4
    run("clear", "--yes")

    again = run("clear")

    assert again.exit_code == 0
    assert "there is nothing to remove" in again.stderr
    assert "Undo" not in again.stderr


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("args", "exit_code", "hint"),
    [
        (["--session", "othr"], 4, "did you mean other?"),
        (["--branch", "main"], 2, None),
        (["--store", "x"], 10, None),
    ],
)
def test_what_cannot_be_meant_is_said(run, args, exit_code, hint):
    result = run("clear", "--yes", *args)

    assert result.exit_code == exit_code
    assert hint is None or hint in result.stderr


def test_lists_say_that_all_was_removed_and_how_it_comes_back_while_it_can(run, store):
    run("clear", "--yes")
    for command in (["list"], ["tree"], ["timeline"]):
        said = run(*command)
        assert (said.exit_code, said.stdout) == (0, "")
        assert said.stderr == (
            "every checkpoint of session 'default' was deleted: "
            "holdfast create MESSAGE starts it again, holdfast undo brings them back\n"
        )
        assert json.loads(run(*command, "--json").stdout)
    run("gc", "--keep-days", "0", "--confirm", name(store))

    for command in (["list"], ["tree"], ["timeline"]):
        assert run(*command).stderr == (
            "every checkpoint of session 'default' was deleted: holdfast create MESSAGE starts it again\n"
        )


def test_what_is_gone_for_good_is_not_promised_back(run, store):
    run("clear", "--yes")
    assert "holdfast undo brings them back" in run("show").stderr
    run("gc", "--keep-days", "0", "--confirm", name(store))
    undo, show = run("undo"), run("show")

    assert (undo.exit_code, show.exit_code) == (4, 4)
    assert "code: undo-gone" in undo.stderr
    assert "restore" not in undo.stderr
    assert "timeline" not in undo.stderr
    assert "undo" not in show.stderr
    assert "holdfast create MESSAGE starts it again" in show.stderr


def test_nor_is_what_lies_before_a_forget(run, store):
    with holdfast.open(place(store)) as opened:
        gone = opened.session().checkpoint("#1").id
    run("clear", "--yes")
    run("forget", gone, "--confirm", name(store))

    assert "code: undo-gone" in run("undo").stderr
    assert "undo" not in run("show").stderr
