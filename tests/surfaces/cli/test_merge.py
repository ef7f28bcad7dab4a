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
    error, hint, code = result.stderr.splitlines()
    assert code == "code: merge-conflict"
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


def test_no_line_is_wider_than_the_terminal(terminal, store):
    store.session(branch="safe").save(
        {f"a long name of number {n}": n for n in range(9)} | {"log": ["x", "s"]}
    )
    for args in (["--dry-run", "--theirs"], ["--theirs"], []):
        seen = terminal("merge", "safe", *args, both=True, COLUMNS="80", NO_COLOR="1")
        lines = [line.rstrip() for line in seen.screen.splitlines()]
        assert max(map(len, lines)) <= 80
        if args:
            assert lines[0].startswith(
                "plan: session default, branch main; #7 of safe comes in, both went on"
            )
            # What does not fit goes on below, where the words of the plan begin.
            assert re.match(r" {6}\S", lines[1])
    assert "it has all of #7 of safe already" in " ".join(lines)


@pytest.fixture
def crosswise(store):
    """`risky` and main were merged into each other, and main took back what came from it."""
    session, risky = store.session(), store.session(branch="risky")
    session.save({"score": 1, "log": ["x"], "notes": {}}, "back to the first")
    mine = session.checkpoint()
    session.merge("risky", resolve="theirs")
    risky.merge(mine, resolve="ours")
    session.save({**session.load(), "score": 1})


def test_where_both_met_is_told_if_there_are_several_places(run, store, crosswise):
    result = run("merge", "risky")
    assert result.exit_code == 5
    assert result.stdout.startswith("score\tedit/edit\t")
    note, *_ = result.stderr.splitlines()
    assert note == (
        "note: both met last at #7 of main and #4 of risky; what these do not agree on is asked about"
    )
    told = json.loads(run("merge", "risky", "--json").stdout)
    assert problems(told, load("merge.schema.json")) == []
    assert (len(told["plan"]["bases"]), told["plan"]["base_exact"]) == (2, True)
    assert told["plan"]["bases"][0] == told["plan"]["base"]


def test_where_the_place_is_gone_that_is_told(run, store):
    store.session().merge("safe")
    store.session(branch="safe").save({"score": 1, "log": ["x", "s", "s2"], "notes": {}})
    assert run("merge", "safe", "--dry-run").exit_code == 0
    store.forget("default", "#5", clean=False)
    result = run("merge", "safe")
    assert result.exit_code == 5
    assert "note: where both met last is gone for good, so all that differs is asked about" in result.stderr
    assert [line.split("\t")[0] for line in result.stdout.splitlines()] == ["score", "log"]
    told = json.loads(run("merge", "safe", "--theirs", "--json").stdout)
    assert told["plan"]["base_exact"] is False


def test_the_tree_shows_where_lines_meet(run, terminal, store):
    run("merge", "safe")
    seen = terminal("tree", NO_COLOR="1")
    drawn = [line[:7].rstrip() for line in seen.screen.splitlines()[1:]]
    nodes = json.loads(run("tree", "--json").stdout)["nodes"]
    assert len(nodes[0]["parents"]) == 2
    assert drawn[0].startswith("@")
    # The line of safe comes out of the merge, and runs down beside main to where it began.
    assert re.match(r"├─[╮┬]", drawn[1]), drawn


def test_both_sides_at_once_are_refused(run, store):
    for args in (["--ours", "--theirs"], ["--theirs", "--ours"]):
        result = run("merge", "risky", *args)
        assert result.exit_code == 2
        assert "--ours excludes --theirs" in result.stderr
    assert store.session().checkpoint().seq == 6


def test_a_rule_for_what_is_nowhere_is_refused(run, store):
    for more in ([], ["--theirs"]):
        result = run("merge", "risky", "--resolve", "scroe=ours", *more)
        assert result.exit_code == 2
        assert "there is no conflict at 'scroe' to resolve" in result.stderr
        assert "hint: did you mean score? the conflict is at score" in result.stderr
    assert store.session().checkpoint().seq == 6


def test_a_rule_that_decided_nothing_is_told_and_is_no_failure(run, store):
    rules = ["--resolve", "log=ours", "--resolve", "beliefs.*=ours"]
    result = run("merge", "risky", *rules, "--theirs", "--dry-run")
    assert result.exit_code == 0
    assert "note: no conflict is at log: --resolve decided nothing there\n" in result.stderr
    result = run("merge", "risky", *rules)
    assert result.exit_code == 5
    assert "note: no conflict is at log: --resolve decided nothing there\n" in result.stderr
    told = json.loads(run("merge", "risky", *rules, "--json").stdout)
    assert problems(told, load("merge.schema.json")) == []
    assert told["unused"] == ["log"]
    result = run("merge", "safe", "--resolve", "nots=ours", *rules[2:])
    assert result.exit_code == 0
    assert (
        "note: there is no conflict, neither at nots nor elsewhere: --resolve decided nothing there\n"
        in result.stderr
    )


@pytest.fixture
def many(store):
    """Thirty conflicts, with long names and long values."""
    session = store.session()
    names = [f"part {number:02} " + "of a very long name " * 6 for number in range(30)]
    session.save({name: {"text": "base " * 100} for name in names})
    beside = session.fork(name="many")
    beside.save({name: {"text": "theirs " * 100} for name in names})
    session.save({name: {"text": "ours " * 100} for name in names})
    return names


def test_many_conflicts_are_bounded_for_people_and_whole_for_programs(run, terminal, store, many):
    seen = terminal("merge", "many", both=True, COLUMNS="80", NO_COLOR="1")
    lines = [line.rstrip() for line in seen.screen.splitlines()]
    assert seen.exit_code == 5
    assert max(map(len, lines)) <= 80
    assert len(lines) < 90
    assert [line.split()[0] for line in lines[:4]] == ["['part", "base", "ours", "theirs"]
    # The kind is there, however long the path is.
    assert lines[0].endswith("…  edit/edit")
    assert "and 10 more; --json has all of them" in lines
    assert "--resolve PATH=theirs on one" in " ".join(line.strip() for line in lines)
    piped = run("merge", "many").stdout.splitlines()
    assert [line.split("\t")[0] for line in piped] == [f"['{name}'].text" for name in many]
    told = json.loads(run("merge", "many", "--json").stdout)
    assert [each["theirs"] for each in told["conflicts"]] == ["theirs " * 100] * 30


def test_many_decisions_are_bounded_for_people_and_whole_for_programs(terminal, run, store, many):
    told = json.loads(run("merge", "many", "--theirs", "--dry-run", "--json").stdout)
    assert [each["how"] for each in told["resolved"]] == ["theirs"] * 30
    seen = terminal("merge", "many", "--theirs", both=True, COLUMNS="80", NO_COLOR="1")
    lines = [line.rstrip() for line in seen.screen.splitlines()]
    assert seen.exit_code == 0
    assert max(map(len, lines)) <= 80
    assert len([line for line in lines if line.endswith("(edit/edit): theirs")]) == 20
    assert "and 10 more; --json has all of them" in lines


def test_a_part_of_a_list_is_decided_by_its_own_rule_and_never_by_the_rest(run, store):
    session = store.session("rows")
    rows = [{"m": [{"id": 1, "x": side}]} for side in range(3)]
    session.save(rows[0])
    session.fork(name="other").save(rows[2])
    session.save(rows[1])

    refused = run("--session", "rows", "merge", "other", "--resolve", "m[-1]=theirs", "--ours")
    assert refused.exit_code == 2
    assert "'m[-1]' counts from the end of a list" in refused.stderr
    assert "code: bad-path" in refused.stderr
    assert session.load() == rows[1]

    assert run("--session", "rows", "merge", "other", "--resolve", "m[0:1]=theirs", "--ours").exit_code == 0
    assert session.load() == rows[2]
