"""`holdfast tag`, `pin`, `annotate` and `delete`."""

from __future__ import annotations

import json

import pytest
from tests.surfaces.cli.places import place

import holdfast


@pytest.fixture
def store(home):
    with holdfast.open(place(home)) as opened:
        for n in (1, 2, 3):
            opened.session().save({"n": n}, f"step {n}", tags=["verified"] if n < 3 else ())
        yield opened.session()


def test_tags_are_put_on_and_taken_off(run, store):
    on = run("tag", "@", "golden", "a,b")

    assert on.exit_code == 0
    assert on.stdout.split("\t")[8] == "a,b,golden"
    assert on.stderr.splitlines() == ["plan: session default; #3 +a +b +golden", "Undo: holdfast undo"]
    assert run("tag", "@", "a", "b", "--remove").stderr.startswith("plan: session default; #3 -a -b\n")
    assert store.checkpoint().tags == ("golden",)
    again = run("tag", "@", "golden")
    assert again.exit_code == 0
    assert again.stderr == "plan: session default; #3 has them already\n"
    assert json.loads(run("tag", "@", "golden", "--json").stdout)["changed"] is False


@pytest.mark.usefixtures("store")
def test_one_tag_that_is_not_there_takes_none_off(run):
    result = run("tag", "#1", "verified", "golden", "--remove")

    assert result.exit_code == 4
    assert "its tags are: verified" in result.stderr
    assert "verified" in run("tag").stdout


def test_the_tags_of_a_session_are_listed_with_what_they_name(run, terminal, store):
    store.tag("#3", "golden")

    rows = [line.split("\t") for line in run("tag").stdout.splitlines()]
    screen = terminal("tag", "--color", "never").screen.splitlines()

    assert [(row[0], row[1], row[3], row[5]) for row in rows] == [
        ("golden", "1", "3", "step 3"),
        ("verified", "2", "2", "step 2"),
    ]
    assert screen[0].split() == ["TAG", "COUNT", "ID", "SEQ", "SAVED", "MESSAGE"]
    assert run("tag", "--session", "nope").exit_code == 4


def test_without_any_tag_the_list_says_how_to_make_one(run, home):
    with holdfast.open(place(home)) as opened:
        opened.session().save(1)

    assert (run("tag").exit_code, run("tag").stdout) == (0, "")
    assert "holdfast tag @ NAME" in run("tag").stderr
    assert "holdfast pin REF" in run("pin").stderr


def test_tags_are_counted_over_more_than_one_page(run, home):
    with holdfast.open(place(home), durability="process") as opened:
        session = opened.session()
        session.save(0, tags=["old"])
        for n in range(1100):
            session.save(n % 2)
        session.pin("#1")

    assert run("tag").stdout.split("\t")[:2] == ["old", "1"]
    assert run("pin").stdout.split("\t")[1] == "1"


def test_a_pin_protects_until_it_is_taken_off(run, store):
    assert run("pin", "#2").stderr.startswith("plan: session default; #2 is protected from removal\n")
    assert run("pin").stdout.split("\t")[1] == "2"
    assert run("pin", "#2").stderr == "plan: session default; #2 is protected already\n"
    assert run("delete", "#2").exit_code == 2
    assert "#2 is no longer protected" in run("pin", "#2", "--remove").stderr
    assert run("pin", "#2", "--remove").stderr == "plan: session default; #2 is not protected\n"
    assert run("delete", "#2").exit_code == 0
    assert [each.seq for each in store.log()] == [3, 1]


def test_annotations_change_what_is_said_and_nothing_else(run, store):
    before = store.checkpoint("#2")

    result = run(
        "annotate", "#2", "--message", "better", "--metadata", "model=m1", "--metadata", '{"score": 0.5}'
    )

    after = store.checkpoint("#2")
    assert result.exit_code == 0
    assert (after.message, after.metadata) == ("better", {"model": "m1", "score": 0.5})
    assert (after.id, after.root) == (before.id, before.root)
    assert (
        result.stderr.splitlines()[0]
        == "plan: session default; #2 gets a new message and metadata model, score"
    )
    same = run("annotate", "#2", "--message", "better")
    assert same.stderr == "plan: session default; #2 has that already\n"


def test_deleting_says_where_the_branch_goes(run, store):
    tip = run("delete", "@")
    assert tip.stderr.splitlines() == [
        "plan: session default; #3 is removed from history, branch main moves back to #2",
        "Undo: holdfast undo",
    ]
    middle = run("delete", "#1")
    assert middle.stderr.splitlines()[0] == "plan: session default; #1 is removed from history"
    last = run("delete", "@")
    assert "branch main goes with it, as it has no other checkpoint" in last.stderr
    assert store.branches() == []
    for _ in range(3):
        assert run("undo").exit_code == 0
    assert [each.seq for each in store.log()] == [3, 2, 1]


def test_a_checkpoint_where_branches_part_needs_force(run, store):
    store.fork("#2", "side")

    assert run("delete", "#2").exit_code == 2
    assert run("delete", "#2", "--force").exit_code == 0
    assert [each.seq for each in store.log("side")] == [4, 1]


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        (["@"], "holdfast tag @ NAME"),
        (["#1"], "holdfast tag '#1' NAME"),
        (["tag:verified"], "holdfast tag tag:verified NAME"),
        (["main~2"], "holdfast tag 'main~2' NAME"),
        (["golden"], "holdfast tag @ golden for the newest one, holdfast tag REF golden for another"),
        (["@", "--remove"], "holdfast tag --remove @ NAME"),
        (
            ["two words"],
            "holdfast tag @ 'two words' for the newest one, holdfast tag REF 'two words' for another",
        ),
    ],
)
def test_a_word_alone_is_told_its_place(run, args, wanted):
    run("create", "x")

    result = run("tag", *args)

    assert result.exit_code == 2
    assert f"hint: first the checkpoint, then its labels: {wanted}\n" in result.stderr
