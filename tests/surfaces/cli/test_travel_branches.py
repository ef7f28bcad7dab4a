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


def test_a_fork_is_named_or_numbered_and_nobody_moves(run, store):
    first, named, again = run("fork"), run("fork", "@-", "risky"), run("fork", "--name", "other")

    assert [result.exit_code for result in (first, named, again)] == [0, 0, 0]
    assert names(store) == ["main", "main-1", "other", "risky"]
    assert named.stdout.split("\t")[4] == "risky"
    assert named.stderr.splitlines() == [
        "plan: session default; branch risky begins at #1",
        "still on main: holdfast switch risky goes to it",
        "Undo: holdfast undo",
    ]
    assert store.session(branch="risky").load() == {"n": 1}


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
    assert store.session().checkpoint().message == "on main"
    assert "branch risky" in run("create", "x").stderr


def test_a_switch_is_for_people_of_one_session_and_can_be_undone(run, store):
    store.session("second").save(1)
    run("fork", "@", "risky")
    result = run("switch", "risky")

    assert result.stderr.splitlines()[0] == "plan: session default; from main to risky, which is at #3"
    assert store.session().branch == "main"
    assert "branch main" in run("create", "x", "--session", "second").stderr
    already = run("switch", "risky")
    assert already.stderr == "plan: session default; already on risky, which is at #3\n"
    assert json.loads(run("switch", "risky", "--json").stdout)["changed"] is False
    run("undo")
    assert "branch main" in run("create", "x").stderr


def test_a_branch_in_use_that_is_gone_is_an_error_that_says_where_to_go(run, store):
    run("fork", "@", "risky")
    run("switch", "risky")
    store.session(branch="risky").delete_branch("risky", force=True)

    # Whoever was on it is put on another one.
    assert "branch main" in run("create", "x").stderr

    store.session("lost").save(1)
    fork = store.session("lost").fork("@", "aside")
    fork.switch("aside", remember=True)
    store.session("origin").save(1)
    store.session("origin").fork("@", "solo", session="lost")
    store.session("lost").switch("solo", remember=True)
    store.session("lost", branch="solo").delete("solo")
    gone = run("show", "--session", "lost")
    assert gone.exit_code == 4
    assert "holdfast switch --session lost NAME goes to one" in gone.stderr


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


def test_what_cannot_be_deleted_is_not_asked_about(store, talk):
    del store
    refused = talk([sys.executable, *PROGRAM[1:], "--color", "never", "branch", "--delete", "main"])

    assert refused.exit_code == 2
    assert "[y/N]" not in refused.screen


def test_a_terminal_shows_branches_with_a_mark(terminal, run, store):
    del store
    run("fork", "@-", "risky")

    lines = terminal("branch", "--color", "never").screen.splitlines()

    assert lines[0].split() == ["BRANCH", "ID", "SEQ", "MOVED", "MESSAGE"]
    assert lines[1].startswith("*  main ")
    assert lines[2].startswith("   risky ")


def test_a_session_that_is_not_there_has_no_branches(run, store):
    assert run("branch", "--session", "defualt").exit_code == 4
    store.session("empty").save(1)
    store.session("empty").clear()
    assert run("branch", "--session", "empty").exit_code == 0
    assert run("branch", "--branch", "nope").exit_code == 4
