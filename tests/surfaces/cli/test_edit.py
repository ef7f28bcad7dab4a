"""`edit`: a state in an editor, and back without losing a type."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.surfaces.cli.places import place

import holdfast

AT = dt.datetime(2026, 11, 18, tzinfo=dt.UTC)


@dataclass
class Plan:
    goal: str
    steps: tuple[int, ...]


@pytest.fixture
def session(home):
    with holdfast.open(place(home), types=[Plan]) as store:
        session = store.session()
        state = {"n": 1, "at": AT, "plan": Plan("win", (1, 2)), "scores": {1: "x"}}
        session.save(state, "first", step=7, tokens=90, cost_usd=0.5)
        session.save({"n": 2, "at": AT, "plan": Plan("win", (1, 2)), "scores": {1: "x"}}, "second")
        yield session


@pytest.fixture
def editor(monkeypatch, tmp_path):
    """An editor that replaces one text by another."""

    def use(old: str, new: str) -> None:
        script = tmp_path / "editor.py"
        script.write_text(
            "import sys, pathlib\n"
            "path = pathlib.Path(sys.argv[1])\n"
            f"path.write_text(path.read_text().replace({old!r}, {new!r}))\n"
        )
        monkeypatch.setenv("EDITOR", f"python {script}")
        monkeypatch.delenv("VISUAL", raising=False)

    return use


def test_an_edit_keeps_every_type_and_shows_what_it_changed(run, session, editor):
    editor('"n": 2', '"n": 3')

    result = run("edit", "--message", "by hand", "--tags", "a,b")

    assert result.exit_code == 0, result.stderr
    assert "n: 2" in result.stdout
    assert session.load() == {"n": 3, "at": AT, "plan": Plan("win", (1, 2)), "scores": {1: "x"}}
    made = session.checkpoint()
    assert (made.message, made.tags, made.branch) == ("by hand", ("a", "b"), "main")


@pytest.mark.parametrize(
    ("path", "old", "new", "check"),
    [
        ("plan.goal", "win", "draw", lambda state: state["plan"].goal == "draw"),
        ("/plan/steps/-1", "2", "7", lambda state: state["plan"].steps == (1, 7)),
        ("$.plan.steps", "2", "2,\n3", lambda state: state["plan"].steps == (1, 2, 3)),
        ("scores{1}", "x", "y", lambda state: state["scores"] == {1: "y"}),
        ("at", "2026", "2027", lambda state: state["at"] == AT.replace(year=2027)),
    ],
)
def test_a_part_is_edited_wherever_it_lies(run, session, editor, path, old, new, check):
    editor(old, new)

    result = run("edit", "--path", path)

    assert result.exit_code == 0, result.stderr
    assert check(session.load())
    assert len(session.diff()) == 1


def test_an_older_state_goes_on_on_a_branch_of_its_own(run, session, editor):
    editor('"n": 1', '"n": 9')

    assert run("edit", "#1").exit_code == 0
    assert run("edit", "#1", "--branch", "again").exit_code == 0

    heads = {each.name: session.load(each.head)["n"] for each in session.branches()}
    assert heads == {"main": 2, "main-1": 9, "again": 9}
    made = session.checkpoint("again")
    assert (made.step, made.tokens, made.cost_usd) == (7, 90, 0.5), "it is still the state of that step"


def test_what_was_left_as_it_is_saves_nothing(run, session, editor):
    for old, new in (("no such text", ""), ('"n": 2', '"n":   2')):
        editor(old, new)
        result = run("edit")
        assert result.exit_code == 0
        assert "nothing was changed" in result.stderr
    assert len(session.log()) == 2


def test_an_editor_that_fails_saves_nothing(run, session, monkeypatch):
    for program in ("false", "no-such-editor-anywhere"):
        monkeypatch.setenv("EDITOR", program)
        result = run("edit", "--json")
        assert result.exit_code == 2
        assert "EDITOR" in json.loads(result.stderr)["error"]["hint"]
    assert len(session.log()) == 2


def test_a_dry_run_saves_nothing(run, session, editor):
    editor('"n": 2', '"n": 3')

    report = json.loads(run("edit", "--dry-run", "--json").stdout)

    assert (report["checkpoint"], report["plan"]["state"]["source"]) == (None, "edit")
    assert len(session.log()) == 2


def test_without_a_terminal_or_an_editor_nobody_waits(run, session, monkeypatch):
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.delenv("VISUAL", raising=False)

    result = run("edit")

    assert result.exit_code == 2
    assert "EDITOR" in result.stderr
    assert len(session.log()) == 2


@pytest.mark.parametrize("new", ['"n": ', '"n": {"$type": "nothing", "$value": 1}'])
def test_what_cannot_be_read_is_kept_in_a_file(run, session, editor, new):
    editor('"n": 2', new)

    result = run("edit", "--json")

    assert result.exit_code == 2
    hint = json.loads(result.stderr)["error"]["hint"]
    kept = Path(hint.split("kept in ")[1].split(";")[0])
    assert new in kept.read_text(encoding="utf-8")
    kept.unlink()
    assert len(session.log()) == 2
