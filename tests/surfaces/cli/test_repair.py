"""`holdfast repair`: what is whole takes its place, what was there is kept, and what is lost is named."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from tests.surfaces.cli.conftest import PROGRAM
from tests.surfaces.cli.json_schema import load, problems
from tests.surfaces.cli.places import content, on_sqlite, place, zero_chunks

import holdfast
from holdfast.storage.records import CheckpointId

QUESTION = "Go on? [y/N] "


@pytest.fixture
def path(home):
    with holdfast.open(place(home)) as store:
        for n in range(4):
            store.session("alpha").save({"n": n, "noise": os.urandom(5000)}, f"number {n}")
        store.session("beta").save({"n": 0}, "of beta")
    return place(home)


@pytest.fixture
def damaged(path, home):
    """The ids of two that are lost: one in the middle, and the head."""
    lost = []
    for seq in (2, 4):
        with holdfast.open(path) as store:
            checkpoint = store.session("alpha").checkpoint(f"#{seq}")
            with store._backend.reader() as reader:
                row = reader.checkpoint(CheckpointId(bytes.fromhex(checkpoint.id)))
                assert row is not None
        zero_chunks(home, row.root)
        lost.append(checkpoint.id)
    return lost


def fields(result):
    assert result.exit_code == 0, result.stderr
    return dict(line.split("\t") for line in result.stdout.splitlines())


def seqs(path):
    with holdfast.open(path) as store:
        return [each.seq for each in store.session("alpha").log()]


def test_a_dry_run_says_what_the_run_does_and_changes_nothing(run, home, path, damaged):
    before = content(home)
    dry = fields(run("repair", "--dry-run"))
    assert content(home) == before
    done = fields(run("repair", "--yes"))

    assert done.pop("kept_aside") != dry.pop("kept_aside") == ""
    assert dry == done
    assert sorted(done["lost"].split(",")) == sorted(damaged)
    assert (done["needed"], done["kept"], done["moved"], done["relinked"]) == ("yes", "3", "alpha main", "1")
    assert seqs(path) == [3, 1]
    assert run("verify").exit_code == 0


@on_sqlite
def test_the_store_as_it_was_is_kept(run, path, damaged):
    del damaged
    result = run("repair", "--yes")
    aside = fields(result)["kept_aside"]

    assert Path(aside).parent == path
    assert result.stderr == f"the store as it was: {aside}\n"
    assert Path(aside).stat().st_size > 10_000


def test_without_a_terminal_it_is_20_and_names_the_option(run, home, damaged):
    del damaged
    before = content(home)
    for more in ([], ["--json"]):
        result = run("repair", *more)
        assert (result.exit_code, result.stdout) == (20, "")
        assert "--yes does it without asking" in result.stderr
        assert "written anew with 3 checkpoints, 2 checkpoints left out" in result.stderr
    assert content(home) == before


def test_on_a_terminal_the_lost_ones_are_shown_first_and_then_it_asks(talk, path, damaged):
    no = talk([*PROGRAM, "repair"], (QUESTION, "n\n"), NO_COLOR="1")
    assert no.exit_code == 20
    seen = talk([*PROGRAM, "repair"], (QUESTION, "y\n"), NO_COLOR="1")

    assert seen.exit_code == 0
    table, _, rest = seen.screen.partition(QUESTION)
    for each in damaged:
        assert re.search(rf"^lost +{each[:8]} #\d of session alpha", table, re.MULTILINE)
    assert re.search(r"^lost         2 checkpoints left out$", rest, re.MULTILINE)
    assert re.search(r"^branch       main of session alpha moves from \w{8} to \w{8}$", rest, re.MULTILINE)
    assert "the store as it was: " in rest
    assert seqs(path) == [3, 1]


def test_json_fits_its_schema(run, damaged):
    result = run("repair", "--json", "--yes")
    report = json.loads(result.stdout)

    assert (result.exit_code, result.stderr) == (0, "")
    assert problems(report, load("repair.schema.json")) == []
    assert sorted(each["id"] for each in report["lost"]) == sorted(damaged)
    assert (report["needed"], report["dry_run"], report["kept"]) == (True, False, 3)
    assert report["moved"][0]["before"] == damaged[1]


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("more", [[], ["--yes"], ["--dry-run"]])
def test_a_store_that_is_whole_is_left_alone(run, home, more):
    before = content(home)
    result = run("repair", *more)

    assert fields(result)["needed"] == "no"
    assert "nothing is damaged: there is nothing to repair" in result.stderr
    assert content(home) == before
    assert json.loads(run("repair", *more, "--json").stdout)["dry_run"] == ("--dry-run" in more)
