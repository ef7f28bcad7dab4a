"""`holdfast create`."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest
from tests.surfaces.cli.conftest import PROGRAM
from tests.surfaces.cli.places import content, place

import holdfast


@pytest.fixture
def session(home):
    with holdfast.open(place(home)) as store:
        yield store.session()


def plan(result):
    return json.loads(result.stdout)["plan"]


def test_a_type_that_the_program_does_not_know_survives_a_note(run, home):
    from dataclasses import dataclass

    @dataclass
    class Plan:
        goal: str

    with holdfast.open(place(home), types=[Plan]) as store:
        first = store.session().save({"plan": Plan("x")})
        run("create", "a note")
        assert store.session().checkpoint().root == first.root
        assert store.session().load() == {"plan": Plan("x")}
    shown = json.loads(run("show", "--json", "--state").stdout)
    assert shown["plan"]["$type"] == "opaque"
    assert shown["plan"]["$value"] == {"goal": "x"}


@pytest.mark.parametrize("given", [[], ["--state", "s.json"]])
def test_a_dry_run_shows_the_plan_of_the_run_and_changes_nothing(run, home, given):
    (home / "s.json").write_text("[1]", encoding="utf-8")
    run("create", "first")
    before = content(home)
    listed = run("list").stdout
    words = ["create", "x", "--tags", "b,a", "--step", "3", "--metadata", "k=v", *given, "--json"]

    dry = run(*words, "--dry-run")

    assert dry.exit_code == 0
    assert run("list").stdout == listed
    assert content(home) == before
    assert json.loads(dry.stdout)["checkpoint"] is None
    assert plan(dry) == plan(run(*words))


def test_a_dry_run_makes_no_store(run, home):
    result = run("create", "x", "-n")

    assert result.exit_code == 0
    assert "nothing was saved" in result.stderr
    assert result.stdout == ""
    assert list(home.iterdir()) == []


BAD = [
    (["--state", "missing.json"], "bad-argument"),
    (["--state", "."], "bad-argument"),
    (["--state", "bad.json"], "bad-argument"),
    (["--state", "deep.json"], "value-too-deep"),
    (["--metadata", "novalue"], "bad-argument"),
    (["--metadata", '{"a": 1e999}'], "bad-argument"),
    (["--step", "99999999999999999999"], "bad-argument"),
    (["--status", "asleep"], "bad-argument"),
    (["--tags", "a~b"], "bad-name"),
    (["--key", ""], "bad-name"),
    (["--session", " x "], "bad-name"),
    (["--branch", "a..b"], "bad-name"),
    (["--agent", "\t"], "bad-name"),
]


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
@pytest.mark.parametrize(
    ("args", "code"), BAD, ids=lambda value: " ".join(value) if isinstance(value, list) else None
)
def test_bad_input_is_refused_and_nothing_is_written(run, home, args, code, dry):
    (home / "bad.json").write_text("{,}", encoding="utf-8")
    (home / "deep.json").write_text("[" * 50_000 + "]" * 50_000, encoding="utf-8")

    result = run("create", "x", *args, *dry)

    assert result.exit_code == 2
    assert f"code: {code}" in result.stderr
    assert not (home / ".holdfast").exists()


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
@pytest.mark.parametrize("given", [[], ["--state", "s.json"]])
def test_a_branch_that_is_not_there_is_refused(run, home, session, given, dry):
    (home / "s.json").write_text("1", encoding="utf-8")
    session.save(1)

    result = run("create", "x", "--branch", "mian", *given, *dry)

    assert result.exit_code == 4
    assert "code: branch-missing" in result.stderr
    assert "did you mean 'main'" in result.stderr


def test_a_state_that_is_typed_in_is_asked_for(home):
    master, slave = pty.openpty()
    child = subprocess.Popen(
        [*PROGRAM, "create", "typed", "--state", "-"],
        stdin=slave,
        stderr=subprocess.PIPE,
        cwd=home,
        text=True,
    )
    os.close(slave)
    os.write(master, b'{"n": 1}\n\x04')
    _, stderr = child.communicate()
    os.close(master)

    assert child.returncode == 0
    assert "end with Ctrl-D" in stderr
    with holdfast.open(place(home)) as store:
        assert store.session().load() == {"n": 1}


def test_no_stdin_at_all_is_an_error(home):
    done = subprocess.run(
        ["/bin/sh", "-c", f'"{sys.executable}" -m holdfast create x --state - <&-'],
        capture_output=True,
        text=True,
        check=False,
        cwd=home,
    )

    assert done.returncode == 2
    assert "stdin, line 1, column 1: not JSON" in done.stderr
