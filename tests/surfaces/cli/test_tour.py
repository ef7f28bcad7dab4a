"""The tour of the README: ten commands that a newcomer can paste, one after the other, into an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.surfaces.cli.places import place

import holdfast
from holdfast.cli.app import COMMANDS

README = Path(__file__).resolve().parents[3] / "README.md"


def tour() -> list[str]:
    text = README.read_text(encoding="utf-8")
    _, _, rest = text.partition("Ten commands that you can paste")
    block = re.search(r"```console\n(.*?)```", rest, re.DOTALL)
    assert block is not None
    return [line.removeprefix("$ ") for line in block.group(1).splitlines()]


@pytest.fixture
def taken(home, tmp_path_factory):
    """What each command of the tour said."""
    program = tmp_path_factory.mktemp("bin") / "holdfast"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m holdfast "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    return [
        subprocess.run(
            ["/bin/sh", "-c", line], capture_output=True, text=True, cwd=home, env=environment, check=False
        )
        for line in tour()
    ]


def test_there_are_ten_and_each_is_a_command_of_the_program():
    verbs = [re.search(r"holdfast (\w+)", line) for line in tour()]

    assert len(verbs) == 10
    assert all(verb is not None and verb.group(1) in COMMANDS for verb in verbs)


def test_every_one_of_them_works_and_does_what_its_comment_says(taken, home):
    for line, done in zip(tour(), taken, strict=True):
        assert done.returncode == 0, (line, done.stderr)
        assert done.stdout, line
    verbs = [re.findall(r"holdfast (\w+)", line)[0] for line in tour()]
    said = dict(zip(verbs, taken, strict=True))

    assert [row.split("\t")[9] for row in said["list"].stdout.splitlines()] == ["a second", "a first name"]
    assert "bollard" in said["show"].stdout
    assert said["restore"].stderr.splitlines()[-1] == "Undo: holdfast undo"
    assert "restore #1" in said["undo"].stdout
    assert said["tree"].stdout.count("\n") == 3
    assert "a first name" in said["at"].stdout
    with holdfast.open(place(home), create=False) as store:
        assert store.session().branch == "wild-idea"
        session = store.session(branch="main")
        assert [each.name for each in session.branches()] == ["main", "wild-idea"]
        assert session.load()["tried"] == ["moor", "bollard"]
        assert session.load("wild-idea")["tried"] == ["moor"]
        assert store.sessions()[0].branch == "wild-idea"


@pytest.mark.parametrize(
    "words",
    [
        ["create", "After verifying Q4_0 dequant", "--tags", "q4_0,verified"],
        ["list", "--tag", "q4_0"],
        ["restore", "<id>"],
        ["at", "2 hours ago", "--nearest"],
        ["timeline"],
        ["prune", "--keep-last", "100", "--keep-days", "7", "--yes"],
    ],
    ids=lambda words: words[0],
)
def test_the_verbs_of_the_source_document_work_as_it_writes_them(run, words):
    made = run("create", "before", "--tags", "q4_0").stdout.split("\t")[0]
    result = run(*(made[:8] if word == "<id>" else word for word in words))

    assert result.exit_code == 0, result.stderr
    assert result.stdout
