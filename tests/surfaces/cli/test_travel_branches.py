"""`holdfast fork`, `branch` and `switch`, and the branch in use between two commands."""

from __future__ import annotations

import json
import sys

import pytest
from tests.surfaces.cli.conftest import PROGRAM
from tests.surfaces.cli.places import place

import holdfast


@pytest.fixture
def store(home):
    with holdfast.open(place(home)) as opened:
        for n in (1, 2):
            opened.session().save({"n": n}, f"step {n}")
        yield opened


def names(store, session="default"):
    return [each.name for each in store.session(session).branches()]


def test_a_fork_into_another_session_is_undone_there(run, store):
    result = run("fork", "#1", "--session-to", "new one")

    assert names(store, "new one") == ["main"]
    assert result.stderr.splitlines()[-1] == "Undo: holdfast undo --session 'new one'"
    assert run("fork", "#1", "--session-to", "new one").exit_code == 5
    assert run("fork", "#1", "second", "--session-to", "new one").exit_code == 0
    run("undo", "--session", "new one")
    run("undo", "--session", "new one")
    assert names(store, "new one") == []


def test_the_branch_in_use_is_remembered_by_every_command(run, store):
    run("fork", "#1", "risky")
    run("switch", "risky")
    run("create", "on risky")

    assert store.session(branch="risky").checkpoint().message == "on risky"
    assert (
        run("show", "--record").stdout.splitlines()[0].split("\t")[1]
        == store.session(branch="risky").checkpoint().id
    )
    assert json.loads(run("create", "dry", "-n", "--json").stdout)["plan"]["branch"] == "risky"
    assert json.loads(run("create", "wet", "--json").stdout)["plan"]["branch"] == "risky"
    assert json.loads(run("tree", "--json").stdout)["branch"] == "risky"
    lanes = {
        each["checkpoint"]["branch"]: each["lane"]
        for each in json.loads(run("timeline", "--json").stdout)["moments"]
    }
    assert lanes["risky"] == 0
    assert "branch risky" in run("restore", "@-").stderr
    assert [line.split("\t")[:2] for line in run("branch").stdout.splitlines()] == [
        ["main", ""],
        ["risky", "*"],
    ]
    # Named, another one is used, and the one in use stays.
    run("create", "on main", "--branch", "main")
    assert store.session(branch="main").checkpoint().message == "on main"
    assert store.session().branch == "risky"
    assert "branch risky" in run("create", "x").stderr


def test_branches_are_listed_renamed_and_deleted(run, store):
    run("fork", "@-", "risky")

    renamed = run("branch", "--rename", "risky", "idea")
    assert renamed.stdout.split("\t")[:2] == ["idea", ""]
    refused = run("branch", "--delete", "idea")
    assert refused.exit_code == 2
    assert "is the only one that leads to its newest checkpoint" in refused.stderr
    deleted = run("branch", "--delete", "idea", "--force", "--yes")
    assert deleted.exit_code == 0
    assert names(store) == ["main"]
    assert run("list").stdout.count("\n") == 3
    run("undo")
    assert names(store) == ["idea", "main"]


def test_a_branch_is_deleted_only_when_somebody_says_so(run, store, talk):
    run("fork", "@", "risky")
    for args in (
        ["branch", "--delete", "risky", "--force"],
        ["branch", "--delete", "risky", "--force", "--json"],
    ):
        result = run(*args)
        assert result.exit_code == 20
        assert "--yes does it without asking" in result.stderr
    assert names(store) == ["main", "risky"]

    delete = [sys.executable, *PROGRAM[1:], "--color", "never", "branch", "--delete", "risky", "--force"]
    no = talk(delete, ("[y/N]", "n\n"))
    assert no.exit_code == 20
    assert "branch risky will be deleted. Go on? [y/N]" in no.screen
    assert names(store) == ["main", "risky"]
    yes = talk(delete, ("[y/N]", "y\n"))
    assert yes.exit_code == 0
    assert names(store) == ["main"]


def test_a_fork_goes_to_the_new_branch_where_asked(run, store):
    planned = run("fork", "#1", "risky", "--switch", "-n")
    assert planned.exit_code == 0
    assert store.session().branch == "main"
    assert run("fork", "#1", "risky", "--switch").exit_code == 0
    assert store.session().branch == "risky"
    run("undo")
    assert store.session().branch == "main"
    assert run("fork", "--switch", "--session-to", "other").exit_code == 2
