"""`holdfast copy`."""

from __future__ import annotations

import pytest
from tests.surfaces.cli.places import here, place

import holdfast


@pytest.fixture
def store(home):
    with holdfast.open(place(home)) as opened:
        for name in ("default", "other"):
            for n in range(3):
                opened.session(name).save({"n": n}, f"step {n}")
        yield opened


def fields(result):
    return dict(line.split("\t") for line in result.stdout.splitlines())


@pytest.mark.usefixtures("store")
def test_a_copy_is_a_store_with_the_same_checkpoints(run):
    result = run("copy", here(), "copy.db")

    assert result.exit_code == 0, result.stderr
    assert fields(result)["checkpoints"] == "6"
    assert run("list", "--all", "--store", "copy.db").stdout == run("list", "--all").stdout
    assert run("verify", "--store", "copy.db").exit_code == 0


@pytest.mark.usefixtures("store")
def test_sessions_can_be_named_several_times_and_before_the_command(run):
    run("copy", here(), "one.db", "--session", "other")
    run("--session", "default", "copy", here(), "two.db", "--session", "other")

    for path, names in (("one.db", ["other"]), ("two.db", ["default", "other"])):
        with holdfast.open(path, create=False) as copied:
            assert [each.id for each in copied.sessions()] == names


@pytest.mark.usefixtures("store")
def test_a_target_that_is_ahead_is_named(run):
    run("copy", here(), "copy.db")
    with holdfast.open("copy.db") as copied:
        copied.session("other").save({"ahead": 1})

    result = run("copy", here(), "copy.db")

    assert result.exit_code == 0
    assert fields(result)["ahead"] == "1"
    assert "ahead of the source, and was left alone: other" in result.stderr


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    "words",
    [
        ["copy", ".holdfast"],
        ["copy", ".holdfast", ".holdfast"],
        ["copy", ".holdfast", "copy.db", "--store", "x.db"],
        ["copy", ".holdfast", "copy.db", "--branch", "main"],
        ["copy", ".holdfast", "ftp://somewhere"],
    ],
)
def test_what_cannot_be_meant_is_refused(run, words):
    assert run(*(here() if word == ".holdfast" else word for word in words)).exit_code == 2
