"""`holdfast gc`: where undo ends it wants the name of the store, and otherwise it just frees."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta

import pytest
from tests.surfaces.cli.places import name, place

import holdfast
from holdfast import Keep


@pytest.fixture
def store(home):
    """Six checkpoints in each of two sessions, of which one has lost four, the other none."""
    with holdfast.open(place(home)) as opened:
        for name in ("alpha", "beta"):
            for n in range(6):
                opened.session(name).save({"n": n, "noise": os.urandom(5000)}, f"number {n}")
        opened.session("alpha").prune(Keep(last=2), only=True)
        yield opened


def fields(result):
    assert result.exit_code == 0, result.stderr
    return dict(line.split("\t") for line in result.stdout.splitlines())


def test_what_can_still_be_undone_waits_and_nothing_is_asked(run, store):
    shown = fields(run("gc"))

    assert (shown["checkpoints"], shown["sessions"], shown["waiting"]) == ("0", "", "4")
    left = datetime.fromisoformat(shown["waiting_until"]) - datetime.now(UTC)
    assert timedelta(days=13.9) < left < timedelta(days=14)
    assert json.loads(run("gc", "--keep-days", "0", "-n", "--json").stdout)["waiting_until"] is None
    assert store.stats().hidden == 4
    store.session("alpha").undo()
    assert len(store.session("alpha").log()) == 6


def test_with_the_name_they_go_for_good(run, store, home):
    dry = fields(run("gc", "--keep-days", "0", "-n"))
    assert store.stats().hidden == 4
    done = fields(run("gc", "--keep-days", "0", "--confirm", name(home)))

    assert dry == done
    assert (done["checkpoints"], done["sessions"], done["waiting"]) == ("4", "alpha", "0")
    assert int(done["freed_bytes"]) > 20_000
    assert int(done["chunks"]) >= 4
    assert store.stats().hidden == 0
    assert len(store.session("alpha").log()) == 2
    undo = run("undo", "--session", "alpha")
    assert undo.exit_code == 4
    assert "code: undo-gone" in undo.stderr


def test_prune_says_what_removes_the_manual_ones_too(run, store):
    refused = run("prune", "--keep-last", "1", "--session", "beta", "--yes")
    assert fields(refused)["deleted"] == "0"
    assert "--only" in refused.stderr
    assert fields(run("prune", "--keep-last", "1", "--only", "--session", "beta", "--yes"))["deleted"] == "5"


@pytest.mark.parametrize("name", ["wrong", "", ".holdfast", "store.db"])
def test_another_name_is_20(run, store, name):
    assert run("gc", "--keep-days", "0", "--confirm", name).exit_code == 20
    assert store.stats().hidden == 4


def test_room_that_nothing_needs_is_freed_without_a_question(run, store):
    # Removed by retention, which keeps nothing back: rows are gone, their chunks are not.
    session = store.session("gamma", keep=Keep(at_most=1))
    for n in range(10):
        session.save({"n": n, "noise": os.urandom(5000)})
    before = store.stats().chunks
    shown = fields(run("gc"))

    assert shown["checkpoints"] == "0"
    assert int(shown["chunks"]) >= 9
    assert store.stats().chunks == before - int(shown["chunks"])
    assert fields(run("gc"))["chunks"] == "0"


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--keep-days", "-1"], "--keep-days"),
        (["--keep-days", "soon"], "--keep-days"),
        (["--keep-days", "inf", "--json"], "--keep-days"),
        (["--keep-days", "nan"], "keep_days"),
        (["--keep-dayz", "1"], "did you mean --keep-days?"),
        (["--session", "alpha"], "--session does not apply"),
        (["--branch", "main"], "--branch does not apply"),
        (["--yes"], "no such option"),
    ],
)
def test_what_cannot_be_meant_is_2(run, words, said):
    result = run("gc", *words)

    assert result.exit_code == 2
    assert said in result.stderr
