"""`holdfast restore`, `undo` and `redo`."""

from __future__ import annotations

import json
import re

import pytest
from tests.surfaces.cli.places import name, place

import holdfast


@pytest.fixture
def store(home):
    with holdfast.open(place(home)) as opened:
        for n in (1, 2, 3):
            opened.session().save({"n": n, "pair": (1, 2)}, f"step {n}", step=n)
        yield opened


def state(run, *args):
    return json.loads(run("show", "--state", "--json", *args).stdout)["n"]


def test_restore_brings_a_state_back_and_loses_nothing(run, store):
    result = run("restore", "#1")

    fields = result.stdout.rstrip("\n").split("\t")
    assert result.exit_code == 0
    assert fields[1] == "4"
    assert fields[5] == "restore"
    assert fields[9] == "restore of #1: step 1"
    assert store.session().load() == {"n": 1, "pair": (1, 2)}
    assert [each.seq for each in store.session().log()] == [4, 3, 2, 1]
    assert result.stderr == (
        "plan: session default, branch main; the state of #1 comes back as a new checkpoint after #3\n"
        "Undo: holdfast undo\n"
    )


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("verb", ["restore", "annotate", "delete"])
def test_a_number_that_the_shell_took_for_a_comment_is_asked_for_with_quotes(run, verb):
    result = run(verb)

    assert result.exit_code == 2
    assert f"hint: a number needs quotes in a shell: holdfast {verb} '#12'\n" in result.stderr


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


@pytest.mark.usefixtures("store")
def test_undo_says_what_was_undone_and_how_to_redo_it(run):
    run("restore", "#1")

    result = run("undo")

    assert result.stdout.split("\t")[:2] == ["1", "restore"]
    assert result.stdout.split("\t")[3] == "restore #1 on branch 'main' as #4"
    assert result.stderr == (
        "plan: session default; restore #1 on branch 'main' as #4 is undone; then branch main is at #3\n"
        "Redo: holdfast redo\n"
    )


@pytest.mark.usefixtures("store")
def test_a_save_since_then_is_not_undone_in_silence(run):
    run("restore", "#1")
    run("create", "went on")

    for args in (["undo"], ["undo", "--dry-run"]):
        result = run(*args)
        assert result.exit_code == 5
        assert "code: undo-blocked" in result.stderr
        assert "holdfast restore '#3'" in result.stderr
    assert run("list").stdout.count("\n") == 5


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


def test_a_terminal_shows_operations_as_a_table(terminal, run, store):
    del store
    run("restore", "#1")

    listed = terminal("undo", "--list", "--color", "never").screen.splitlines()
    undone = terminal("undo", "--color", "never").screen.splitlines()

    assert listed[0].split() == ["OPERATION", "DONE", "UNDO", "WHAT"]
    assert listed[1].split()[0] == "1"
    assert listed[1].endswith("yes   restore #1 on branch 'main' as #4")
    assert undone[0].split() == ["OPERATION", "DONE", "HEAD", "NOW", "WHAT"]
    assert "#3" in undone[1]


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


def hint_of(result):
    (hint,) = re.findall(r"^hint: (.*)$", result.stderr, re.MULTILINE)
    return hint


def test_an_undo_that_is_blocked_names_the_operation_and_what_leads_on(run, store):
    run("tag", "#1", "a")
    run("restore", "#2")
    run("create", "more")

    result = run("undo")

    assert result.exit_code == 5
    assert (
        "error: undo stops at operation 2: restore #2 on branch 'main' as #4 cannot be undone: "
        in result.stderr
    )
    assert hint_of(result) == (
        "to go back to where it was before: holdfast restore '#3'; "
        "holdfast restore REF always works, holdfast timeline shows each REF ('#3' is one)"
    )
    assert [line.split("\t")[0] for line in run("undo", "--list").stdout.splitlines()] == ["2", "1"]
    assert run("restore", "#3").exit_code == 0
    assert state(run) == 3
    assert "#3" in terminal_text(run("timeline").stdout)


def terminal_text(rows):
    """The numbers of a timeline in a pipe, as a person writes them."""
    return [f"#{line.split(chr(9))[1]}" for line in rows.splitlines()]


@pytest.mark.usefixtures("store")
def test_an_undo_whose_checkpoints_are_gone_names_the_operation_and_what_leads_on(run, home):
    run("tag", "#1", "a")
    run("delete", "#2")
    run("gc", "--keep-days", "0", "--confirm", name(home))

    result = run("undo", "--session", "default")

    assert result.exit_code == 4
    assert "code: undo-gone\n" in result.stderr
    assert re.search(r"error: undo stops at operation 2: delete \S+ cannot be undone: ", result.stderr)
    assert hint_of(result).endswith(
        "; holdfast restore --session default REF always works, "
        "holdfast timeline --session default shows each REF ('#3' is one)"
    )


@pytest.mark.usefixtures("store")
def test_an_undo_past_a_forget_names_it_and_what_leads_on(run, home):
    run("tag", "#1", "a")
    run("forget", "#1", "--confirm", name(home))

    result = run("undo")

    assert result.exit_code == 4
    assert "error: undo stops at operation 2: forget at " in result.stderr
    assert "holdfast restore REF always works" in hint_of(result)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("done", "way"),
    [
        (
            ["branch", "--rename", "main", "trunk"],
            "holdfast branch --rename 'trunk' 'main' gives the branch its name back",
        ),
        (
            ["branch", "--delete", "main", "--force", "--yes"],
            "holdfast fork '#3' begins a branch there again",
        ),
    ],
)
def test_the_way_on_is_a_command(run, done, way):
    run(*done)
    run("create", "more", "--branch", "trunk" if "--rename" in done else "main")

    result = run("undo")

    assert result.exit_code == 5, result.stderr
    assert hint_of(result).startswith(way)
