"""`holdfast show`: refs, and states of every kind."""

from __future__ import annotations

import json
import os

import pytest
from tests.surfaces.cli.places import place
from tests.unit.store.damage import chunk_of, spoil

import holdfast


@pytest.fixture
def session(home):
    with holdfast.open(place(home)) as store:
        session = store.session()
        for n in range(1, 6):
            session.save({"n": n}, f"save {n}", tags=["odd"] if n % 2 else [])
        yield session


@pytest.mark.parametrize(
    ("ref", "n"),
    [(None, 5), ("@", 5), ("@-", 4), ("@~3", 2), ("main", 5), ("main~1", 4), ("tag:odd", 5), ("#2", 2)],
)
def test_every_ref_shows_its_checkpoint(run, session, ref, n):
    result = run("show", "--json", *([ref] if ref else []))

    assert json.loads(result.stdout)["state"] == {"n": n}


def test_an_id_or_its_beginning_is_a_ref(run, session):
    third = session.checkpoint("#3")

    for ref in (third.id, third.id[:12]):
        assert json.loads(run("show", ref, "--json").stdout)["checkpoint"]["seq"] == 3


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(
    ("ref", "code"), [("", "bad-ref"), ("@@", "bad-ref"), ("~3", "bad-ref"), ("#x", "bad-ref")]
)
def test_what_is_not_a_ref_is_refused(run, ref, code):
    result = run("show", ref)

    assert result.exit_code == 2
    assert f"code: {code}" in result.stderr


@pytest.mark.usefixtures("session")
def test_state_and_record_exclude_each_other(run):
    assert run("show", "--state", "--record").exit_code == 2


def test_what_was_created_from_json_is_shown_as_that_json(run, home):
    text = '{"a": [1, 2.5, null, "x"], "b": {"$value": true}}'
    (home / "s.json").write_text(text, encoding="utf-8")
    run("create", "x", "--state", "s.json")

    shown = run("show", "--state", "--json").stdout
    (home / "again.json").write_text(shown, encoding="utf-8")
    run("create", "again", "--state", "again.json")

    assert json.loads(shown) == json.loads(text)
    assert run("show", "--state", "--json").stdout == shown


def test_a_part_of_the_state_is_shown_by_its_path(run):
    run("create", "one", "--state", "-", input='{"plan": {"steps": ["a", "b"]}}')
    assert run("show", "--path", "plan.steps[-1:]", "--json").stdout == '[\n  "b"\n]\n'
    missing = run("show", "--path", "plan.goal")
    assert (missing.exit_code, missing.stdout) == (4, "")
    assert "path-missing" in missing.stderr
    assert run("show", "--path", "plan[").exit_code == 2
    assert run("show", "--path", "plan", "--record").exit_code == 2


def test_recover_shows_the_newest_that_is_whole_and_says_what_it_passed_over(run, tmp_path):
    path = tmp_path / "s.db"
    with holdfast.open(path, durability="process") as store:
        made = [store.session("default").save({"step": n, "own": os.urandom(400)}) for n in range(3)]
    spoil(path, "UPDATE chunks SET data = x'00' WHERE number = ?", chunk_of(path, made[2].id))

    assert run("show", "--store", str(path)).exit_code == 9
    result = run("show", "--recover", "--record", "--store", str(path))
    assert result.exit_code == 2
    assert run("show", "--recover", "--state", "--json", "--store", str(path)).exit_code == 2
    shown = json.loads(run("show", "--recover", "--json", "--store", str(path)).stdout)
    assert shown["checkpoint"]["seq"] == 2
    assert [each["id"] for each in shown["damaged"]] == [made[2].id]
    result = run("show", "--recover", "--store", str(path))
    assert result.exit_code == 0
    assert f"damaged: {made[2].id[:8]}: " in result.stderr
    assert "shown: #2 is the newest that is whole" in result.stderr


@pytest.mark.parametrize(
    ("path", "missing", "near"),
    [
        ("nope", "state['nope']", []),
        ("plan.stesp", "state['plan']['stesp']", ["steps"]),
        ("plan.stesp[0].x", "state['plan']['stesp']", ["steps"]),
        ("messages[7]", "state['messages'][7]", []),
        ("messages.first", "state['messages']['first']", []),
        ("plan.steps[0]", "state['plan']['steps'][0]", []),
        ("messages[0].x", "state['messages'][0]['x']", []),
    ],
)
@pytest.mark.parametrize("size", [1, 3000])
def test_a_part_that_is_not_there_is_named_with_its_nearest_keys(run, home, path, missing, near, size):
    with holdfast.open(place(home)) as store:
        # Small states stand whole; of large ones only what is asked for is read.
        filler = {f"goal {n}": "x" * 50 for n in range(1, size)}
        state = {"messages": [1, 2], "plan": {"steps": [], "goal": filler}}
        store.session().save(state)

    for command in (["show", "--path", path], ["blame", path], ["history", path], ["edit", "--path", path]):
        error = json.loads(run(*command, "--json", env={"EDITOR": "false"}).stderr)["error"]
        assert (error["code"], error["exit"]) == ("path-missing", 4)
        assert f"there is no {missing}" in error["message"]
        assert error["candidates"] == near
