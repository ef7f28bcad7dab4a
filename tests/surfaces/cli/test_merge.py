"""`holdfast merge`: the row of the new checkpoint, or the conflicts, for people and for programs."""

from __future__ import annotations

import json
import re

import pytest
from tests.surfaces.cli.json_schema import load, problems
from tests.surfaces.cli.places import place

import holdfast

EVIL = "\x1b[2J\r\n\u202eevil\u2028\tx"


@pytest.fixture
def store(home):
    """Two branches that both went on: `risky` is in the way of main at `score`, `safe` is not."""
    with holdfast.open(place(home), durability="process") as opened:
        session = opened.session()
        session.save({"score": 1, "log": ["x"], "notes": {}}, "first")
        risky, safe = session.fork(name="risky"), session.fork("#1", "safe")
        risky.save({"score": 3, "log": ["x", "t"], "notes": {EVIL: {1}}}, "risky")
        safe.save({"score": 1, "log": ["x", "s"], "notes": {}}, "safe")
        session.save({"score": 2, "log": ["x", "o"], "notes": {}}, "ours")
        yield opened


def state(store):
    return store.session().load()


def test_a_merge_prints_the_new_checkpoint_and_the_way_back(run, store):
    result = run("merge", "safe", "-m", "both")
    assert result.exit_code == 0
    assert result.stdout.split("\t")[4:6] == ["main", "merge"]
    assert result.stdout.rstrip("\n").endswith("\tboth")
    plan, *_, undo = result.stderr.splitlines()
    assert plan == (
        "plan: session default, branch main; #5 of safe comes in, both went on since #1 of main: +1 log"
    )
    assert undo.endswith("holdfast undo")
    assert state(store)["log"] == ["x", "o", "s"]
    assert run("undo").exit_code == 0
    assert state(store)["log"] == ["x", "o"]


def test_what_is_in_it_already_is_said_and_is_no_failure(run, store):
    result = run("merge", "#1")
    assert result.exit_code == 0
    assert "it has all of #1 of main already" in result.stderr
    assert store.session().checkpoint().seq == 6


def test_conflicts_are_listed_and_nothing_is_written(run, store):
    result = run("merge", "risky")
    assert result.exit_code == 5
    assert result.stdout == "score\tedit/edit\t1\t2\t3\n"
    error, hint = result.stderr.splitlines()
    assert error == "error: 1 conflict between #6 of main and #4 of risky, so nothing was merged"
    assert hint == "hint: --ours or --theirs decides on all of them, --resolve score=theirs on one"
    assert store.session().checkpoint().seq == 6


@pytest.mark.parametrize(
    ("options", "score"),
    [
        (["--ours"], 2),
        (["--theirs"], 3),
        (["--resolve", "score=theirs"], 3),
        (["--resolve", "score=ours", "--theirs"], 2),
        (["--resolve", "*=theirs", "--resolve", "score=ours"], 3),
    ],
)
def test_conflicts_are_decided_as_asked(run, store, options, score):
    result = run("merge", "risky", *options)
    assert result.exit_code == 0, result.stderr
    assert state(store) == {"score": score, "log": ["x", "o", "t"], "notes": {EVIL: {1}}}
    assert f"score (edit/edit): {'ours' if score == 2 else 'theirs'}" in result.stderr


def test_a_side_that_is_not_there_is_a_dash_in_a_pipe(run, store):
    store.session().save({"log": ["x", "o"], "notes": {}})
    result = run("merge", "risky")
    assert result.stdout == "score\tremove/edit\t1\t-\t3\n"


@pytest.mark.parametrize(
    "options", [["--resolve", "score"], ["--resolve", "score=mine"], ["--resolve", "=base"]]
)
def test_what_is_no_rule_is_refused(run, store, options):
    result = run("merge", "risky", *options)
    assert result.exit_code == 2
    assert "--resolve takes PATH=ours or PATH=theirs" in result.stderr


def test_a_path_that_is_none_is_refused(run, store):
    assert run("merge", "risky", "--resolve", "a..b=ours").exit_code == 2


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["safe"], 0),
        (["safe", "--dry-run"], 0),
        (["#1"], 0),
        (["risky"], 5),
        (["risky", "--dry-run"], 5),
        (["risky", "--theirs"], 0),
    ],
)
def test_json_is_one_document_in_any_case(run, store, args, code):
    before = store.session().checkpoint().seq
    result = run("merge", *args, "--json")
    assert (result.exit_code, result.stderr) == (code, "")
    told = json.loads(result.stdout)
    assert problems(told, load("merge.schema.json")) == []
    wrote = told["checkpoint"] is not None
    assert wrote == (store.session().checkpoint().seq > before) == (told["changed"] and not told["dry_run"])
    assert [each["path"] for each in told["conflicts"]] == (["score"] if code else [])
    assert told["plan"]["up_to_date"] == (args == ["#1"])


def test_a_dry_run_tells_the_same_plan(run, store):
    dry, wet = run("merge", "safe", "-n"), run("merge", "safe")
    assert dry.stderr.splitlines()[0] == wet.stderr.splitlines()[0]
    assert "nothing was changed" in dry.stderr
    assert dry.stdout == ""


def test_a_fork_in_another_session_comes_back(run, store):
    other = store.session().fork("#1", session="experiment")
    other.save({"score": 1, "log": ["x", "e"], "notes": {}})
    assert run("merge", "@", "--from-session", "experiment").exit_code == 0
    assert state(store)["log"] == ["x", "o", "e"]
    store.session("stranger").save(1)
    result = run("merge", "@", "--from-session", "stranger")
    assert result.exit_code == 4
    assert "code: no-common-ancestor" in result.stderr
    assert run("merge", "@", "--from-session", "experimet").exit_code == 4


def test_a_branch_that_is_not_there(run, store):
    assert run("merge", "rsky").exit_code == 4
    assert run("merge").exit_code == 2


def test_people_see_what_was_there_and_what_each_side_made_of_it(terminal, store):
    store.session(branch="risky").save({"score": "x" * 500 + EVIL, "log": [], "notes": {}})
    seen = terminal("merge", "risky", both=True, COLUMNS="80", NO_COLOR="1")
    lines = [line.rstrip() for line in seen.screen.splitlines()]
    assert seen.exit_code == 5
    assert lines[:3] == ["score  type", "  base    1", "  ours    2"]
    assert re.fullmatch(r'  theirs  "x+…', lines[3])
    assert "long values are cut short; --json has all of them" in lines
    assert {char for char in seen.screen if char != "\n" and not char.isprintable()} == set()


def test_the_tree_shows_where_lines_meet(run, terminal, store):
    run("merge", "safe")
    seen = terminal("tree", NO_COLOR="1")
    drawn = [line[:7].rstrip() for line in seen.screen.splitlines()[1:]]
    nodes = json.loads(run("tree", "--json").stdout)["nodes"]
    assert len(nodes[0]["parents"]) == 2
    assert drawn[0].startswith("@")
    # The line of safe comes out of the merge, and runs down beside main to where it began.
    assert re.match(r"├─[╮┬]", drawn[1]), drawn
