"""`holdfast forget`: severe, final, and thorough."""

from __future__ import annotations

import os

import pytest
from tests.surfaces.cli.places import name, on_sqlite, place

import holdfast

MARK = "jovial-Kiln-84213"


@pytest.fixture
def secret():
    return os.urandom(40_000)


@pytest.fixture
def store(home, secret):
    with holdfast.open(place(home)) as opened:
        doomed = opened.session("doomed")
        for n in range(4):
            doomed.save({"n": n, "key": secret}, f"{MARK} {n}", tags=[MARK], metadata={"x": MARK})
        doomed.delete("#2")
        for n in range(3):
            opened.session().save({"n": n}, f"kept {n}")
        yield opened


def traces(home, *secrets):
    files = [path for path in (home / ".holdfast").rglob("*") if path.is_file()]
    assert files
    return [path.name for path in files for each in secrets if each in path.read_bytes()]


@on_sqlite
def test_a_session_is_erased_from_every_file(run, store, home, secret):
    assert traces(home, secret[5_000:5_040])
    assert traces(home, MARK.encode())
    result = run("forget", "--session", "doomed", "--confirm", name(home))

    assert result.exit_code == 0, result.stderr
    shown = dict(line.split("\t") for line in result.stdout.splitlines())
    assert (shown["session"], shown["checkpoints"]) == ("doomed", "4")
    assert int(shown["chunks"]) >= 1
    pieces = [secret[at : at + 32] for at in range(0, len(secret) - 32, 1000)]
    assert traces(home, MARK.encode(), *pieces) == []
    assert [each.id for each in store.sessions()] == ["default"]
    assert [store.session().load(each) for each in store.session().log()] == [{"n": 2}, {"n": 1}, {"n": 0}]
    assert "Undo" not in result.stderr


def test_some_checkpoints_are_erased_and_the_session_goes_on(run, store, home, secret):
    del secret
    result = run("forget", "@", "#1", "--session", "doomed", "--confirm", name(home))

    assert result.exit_code == 0
    assert result.stdout.startswith("session\tdoomed\ncheckpoints\t2\n")
    assert [each.seq for each in store.session("doomed").log()] == [3]
    assert run("undo", "--session", "doomed").exit_code == 4


def test_a_ref_is_read_on_the_branch_in_use(run, store, home):
    session = store.session()
    session.fork("#1", "side").save({"n": "side"}, "on side")
    run("forget", "@", "--branch", "side", "--confirm", name(home))

    assert [each.message for each in session.log()] == ["kept 2", "kept 1", "kept 0"]
    assert "on side" not in [each.message for each in store.find(session="default")]


def test_one_that_was_removed_before_is_named_by_its_whole_id(run, store, home):
    gone = store.session().delete("#2")
    assert run("forget", gone.id[:12], "--confirm", name(home)).exit_code == 4
    assert run("forget", gone.id, "--confirm", name(home)).exit_code == 0
    assert run("forget", gone.id, "--confirm", name(home)).exit_code == 4


@pytest.mark.parametrize("words", [["--session", "doomed"], ["@", "--session", "doomed"]])
@pytest.mark.parametrize("more", [[], ["--json"], ["--confirm", "wrong"]])
def test_without_the_name_it_is_20_and_nothing_goes(run, store, home, words, more):
    result = run("forget", *words, *more)

    assert (result.exit_code, result.stdout) == (20, "")
    assert f"--confirm {name(home)} does it without asking" in result.stderr
    assert len(store.session("doomed").log()) == 3


def test_a_whole_session_has_to_be_named_on_the_command_line(run, store, home):
    for env in ({}, {"HOLDFAST_SESSION": "doomed"}):
        result = run("forget", "--confirm", name(home), env=env)
        assert result.exit_code == 2
        assert "say what to forget" in result.stderr
    assert run("forget", "--session", "doomed", "--branch", "main", "--confirm", name(home)).exit_code == 2
    assert len(store.sessions()) == 2


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--session", "doomd"], "did you mean doomed?"),
        (["#99"], "#99"),
        (["f" * 64], "hint:"),
        (["tag:nope"], "nope"),
    ],
)
def test_what_is_not_there_is_4_and_nothing_goes(run, home, words, said):
    result = run("forget", *words, "--confirm", name(home))

    assert result.exit_code == 4
    assert said in result.stderr
    assert run("list", "--all-sessions").stdout.count("\n") == 6
