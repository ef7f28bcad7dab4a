"""`holdfast init`."""

from __future__ import annotations

import json

import pytest

import holdfast

KEPT_IN = ["sqlite"]


def test_a_store_is_made_here_and_found_from_below(run, home, monkeypatch):
    result = run("init")

    assert result.exit_code == 0
    assert "made a new store" in result.stderr
    assert str(home / ".holdfast") in result.stdout
    (home / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(home / "deep" / "er")
    assert run("create", "from below").exit_code == 0
    assert not (home / "deep" / "er" / ".holdfast").exists()


def test_a_store_that_is_there_is_left_alone(run, home):
    run("create", "keep me")
    before = {path.name: path.read_bytes() for path in (home / ".holdfast").iterdir()}

    result = run("init")

    assert result.exit_code == 0
    assert "already there" in result.stderr
    assert {path.name: path.read_bytes() for path in (home / ".holdfast").iterdir()} == before
    assert "keep me" in run("list").stdout


@pytest.mark.parametrize("how", [("other",), ("--store", "other")])
def test_the_place_can_be_chosen(run, home, how):
    made, again = run("init", *how, "--json"), run("init", *how, "--json")

    assert json.loads(made.stdout)["created"] is True
    assert json.loads(again.stdout) == json.loads(made.stdout) | {"created": False}
    assert (home / "other" / "store.db").exists()


def test_init_makes_a_store_here_even_below_another(run, home, monkeypatch):
    run("init")
    (home / "inner").mkdir()
    monkeypatch.chdir(home / "inner")

    run("init")

    assert (home / "inner" / ".holdfast" / "store.db").exists()


def test_two_places_are_refused_but_an_argument_wins_over_the_environment(run, home):
    assert run("init", "a", "--store", "b").exit_code == 2
    assert run("init", "a", env={"HOLDFAST_STORE": "b"}).exit_code == 0
    assert run("init", env={"HOLDFAST_STORE": "c"}).exit_code == 0
    assert sorted(path.name for path in home.iterdir()) == ["a", "c"]


def test_what_is_not_a_store_is_refused_and_left_alone(run, home):
    (home / "notes.db").write_text(
        "my notes, not a database, please leave them alone\n" * 50, encoding="utf-8"
    )
    before = (home / "notes.db").read_bytes()

    result = run("init", "notes.db")

    assert result.exit_code == 2
    assert "code: not-a-store" in result.stderr
    assert (home / "notes.db").read_bytes() == before


def test_the_url_that_is_printed_opens_the_store(run):
    url = run("init").stdout.strip()

    with holdfast.open(url, create=False) as store:
        assert store.sessions() == []


@pytest.mark.parametrize("place", ["notes.db", "folder"])
def test_an_empty_file_is_no_store_to_read_and_a_new_one_to_write_and_both_are_said(run, home, place):
    file = home / place if place.endswith(".db") else home / place / "store.db"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"")

    for args in (["list"], ["verify"], ["repair", "-n"], ["tag", "@", "x"], ["gc"]):
        result = run(*args, "--store", place)
        assert result.exit_code == 10, args
        assert f"error: there is no store at {file}: the file is empty\n" in result.stderr
        assert f"hint: holdfast init --store {place} makes a store there" in result.stderr
    assert run("create", "x", "--store", place, "--dry-run").exit_code == 0
    assert file.read_bytes() == b""

    made = run("create", "x", "--store", place)

    assert made.exit_code == 0
    assert made.stderr.startswith(f"made a new store in a file that was empty: sqlite:///{file}\n")
    assert "made a new store" not in run("create", "y", "--store", place).stderr
