"""`holdfast verify`: damage is an answer, and names each checkpoint that it costs."""

from __future__ import annotations

import json
import os

import pytest
from tests.surfaces.cli.json_schema import load, problems
from tests.surfaces.cli.places import change_message, on_sqlite, place, zero_chunks
from tests.unit.store.damage import flip

import holdfast
from holdfast.storage.records import CheckpointId


@pytest.fixture
def path(home):
    """Where a store is that nobody has open: three checkpoints each in two sessions."""
    with holdfast.open(place(home)) as store:
        for name in ("alpha", "beta"):
            for n in range(3):
                store.session(name).save({"n": n, "noise": os.urandom(5000)}, f"number {n}")
    return place(home)


@pytest.fixture
def damaged(path, home):
    """The same with the state of the second checkpoint of alpha gone wrong; its id."""
    with holdfast.open(path) as store:
        checkpoint = store.session("alpha").checkpoint("#2")
        with store._backend.reader() as reader:
            row = reader.checkpoint(CheckpointId(bytes.fromhex(checkpoint.id)))
            assert row is not None
    zero_chunks(home, row.root)
    return checkpoint.id


def lines(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("quick", [[], ["--quick"]])
def test_a_store_that_is_whole_is_0_and_says_what_was_looked_at(run, terminal, quick):
    result = run("verify", *quick)

    assert result.exit_code == 0
    assert result.stderr == ""
    (row,) = [line.split("\t") for line in result.stdout.splitlines()]
    assert row[:2] == ["summary", "ok"]
    assert row[5].startswith("checked 6 checkpoints of 2 sessions")
    assert row[5].endswith("nothing is damaged")
    assert ("chunk" in row[5]) == (not quick)
    seen = terminal("verify", *quick, NO_COLOR="1")
    assert (seen.exit_code, seen.screen) == (0, row[5] + "\n")


def test_damage_is_1_and_the_checkpoint_is_named(run, damaged):
    result = run("verify")

    assert result.exit_code == 1
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert [row[1:5] for row in rows if row[0] == "damaged"] == [[damaged, "alpha", "2", "lost"]]
    assert [row[1] for row in rows if row[0] == "problem"] == ["chunk"]
    assert rows[-1][:2] == ["summary", "damaged"]
    assert {len(row) for row in rows} == {6}
    assert result.stderr == (
        "next: holdfast repair --dry-run shows what a repair keeps and what it leaves out\n"
    )


def test_a_quick_look_does_not_read_states(run, damaged):
    del damaged
    assert run("verify", "--quick").exit_code == 0


def test_one_session_alone(run, damaged):
    del damaged
    assert run("verify", "--session", "beta").exit_code == 0
    assert run("verify", "--session", "alpha").exit_code == 1


def test_json_is_a_line_each_that_fits_its_schema(run, damaged):
    result = run("verify", "--json")
    schema = load("verify.schema.json")
    found = lines(result)

    assert (result.exit_code, result.stderr) == (1, "")
    assert [problems(each, schema) for each in found] == [[]] * len(found)
    assert [each["type"] for each in found] == ["problem", "damaged", "summary"]
    assert found[0]["checkpoints"] == [damaged]
    assert (found[1]["id"], found[1]["session"], found[1]["seq"], found[1]["lost"]) == (
        damaged,
        "alpha",
        2,
        True,
    )
    assert (found[2]["ok"], found[2]["problems"], found[2]["damaged"]) == (False, 1, 1)
    assert (found[2]["checkpoints"], found[2]["sessions"]) == (6, 2)


def test_rows_that_cannot_be_read_count_as_checked(run, home, path):
    for name in ("alpha", "beta"):
        with holdfast.open(path) as store:
            first = store.session(name).checkpoint("#1")
        change_message(home, first.id)

    rows = [line.split("\t") for line in run("verify").stdout.splitlines()]

    assert sum(row[0] == "damaged" for row in rows) == 2
    assert rows[-1][5].startswith("checked 6 checkpoints of 2 sessions")
    assert ": 4 fine, 2 lost" in rows[-1][5]


@on_sqlite
def test_a_store_that_other_commands_cannot_open_is_looked_at_all_the_same(run, path):
    flip(path / "store.db", 300)

    assert run("list").exit_code == 9
    assert "holdfast verify says what is lost" in run("list").stderr
    result = run("verify")
    assert result.exit_code == 1
    assert "page 1 of" in result.stdout
