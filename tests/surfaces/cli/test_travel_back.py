"""`holdfast restore`, `undo` and `redo`."""

from __future__ import annotations

import json

import pytest
from tests.surfaces.cli.places import place

import holdfast


@pytest.fixture
def store(home):
    with holdfast.open(place(home)) as opened:
        for n in (1, 2, 3):
            opened.session().save({"n": n, "pair": (1, 2)}, f"step {n}", step=n)
        yield opened


def state(run, *args):
    return json.loads(run("show", "--state", "--json", *args).stdout)["n"]


def test_restore_on_a_named_branch_leaves_the_one_in_use_alone(run, store):
    store.session().fork("#2", "side")

    run("restore", "#1", "--branch", "side")

    assert store.session(branch="side").load()["n"] == 1
    assert store.session().load()["n"] == 3


@pytest.mark.usefixtures("store")
def test_undo_and_redo_go_back_and_forth(run):
    run("restore", "#1")
    run("restore", "#2")

    assert state(run) == 2
    assert run("undo").exit_code == 0
    assert state(run) == 1
    run("undo")
    assert state(run) == 3
    assert run("undo").exit_code == 4
    again = run("redo")
    assert state(run) == 1
    assert again.stdout.split("\t")[1] == "restore"
    assert again.stderr.endswith("Undo: holdfast undo\n")
    run("redo")
    assert state(run) == 2
    nothing = run("redo")
    assert nothing.exit_code == 4
    assert "code: nothing-to-redo" in nothing.stderr


def test_what_was_done_is_listed(run, store):
    run("restore", "#1")
    run("tag", "@", "golden")
    run("undo")

    rows = [line.split("\t") for line in run("undo", "--list").stdout.splitlines()]
    document = json.loads(run("undo", "--list", "--limit", "2", "--json").stdout)

    assert [(row[0], row[1], row[3], row[4]) for row in rows] == [
        ("3", "undo", "no", "undo of tag #4 +golden"),
        ("2", "tag", "no", "tag #4 +golden"),
        ("1", "restore", "yes", "restore #1 on branch 'main' as #4"),
    ]
    assert [each["number"] for each in document["operations"]] == [3, 2]
    assert document["more"] is True
    store.session("fresh").save(1)
    assert run("undo", "--list", "--session", "fresh").stderr == "nothing was done yet that could be undone\n"
    assert run("undo", "--list", "--session", "nope").exit_code == 4


def test_a_restore_under_load_is_not_a_conflict(run, store, monkeypatch):
    """Another writer saves between what the command reads and what it writes."""
    real = holdfast.Session.checkpoint

    def and_then(self, ref="@"):
        found = real(self, ref)
        store.session().save({"n": 100})
        return found

    monkeypatch.setattr(holdfast.Session, "checkpoint", and_then)

    result = run("restore", "@")

    assert result.exit_code == 0, result.stderr
    monkeypatch.undo()
    assert store.session().checkpoint("@-").trigger == "restore"
