"""`holdfast merge`: the row of the new checkpoint, or the conflicts, for people and for programs."""

from __future__ import annotations

import json

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


def test_a_rule_for_what_is_nowhere_is_refused(run, store):
    for more in ([], ["--theirs"]):
        result = run("merge", "risky", "--resolve", "scroe=ours", *more)
        assert result.exit_code == 2
        assert "there is no conflict at 'scroe' to resolve" in result.stderr
        assert "hint: did you mean score? the conflict is at score" in result.stderr
    assert store.session().checkpoint().seq == 6
