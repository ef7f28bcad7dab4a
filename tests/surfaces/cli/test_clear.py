"""`holdfast clear`: everything in a session, asked about first, and brought back by one undo."""

from __future__ import annotations

import json

import pytest
from tests.surfaces.cli.conftest import PROGRAM
from tests.surfaces.cli.places import place

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
