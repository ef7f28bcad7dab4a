"""`holdfast stats` and `holdfast list --sessions`."""

from __future__ import annotations

import json
import re

import pytest
from tests.surfaces.cli.places import place

import holdfast
from holdfast.cli import stats as counting


@pytest.fixture
def store(home):
    with holdfast.open(place(home)) as opened:
        scout = opened.session("scout-1", agent="scout", project="acme")
        for n in range(5):
            scout.save({"text": "all the same " * 500, "n": n}, f"number {n}")
        scout.delete("#2")
        opened.session("other").save(1)
        yield opened


def fields(result):
    assert result.exit_code == 0, result.stderr
    return dict(line.split("\t") for line in result.stdout.splitlines())


def test_a_store_is_counted_as_the_store_counts_itself(run, store):
    shown = fields(run("stats"))
    counted = store.stats()

    assert shown.pop("store") == store.url
    ratio = float(shown.pop("ratio"))
    assert {name: int(value) for name, value in shown.items()} == counted._asdict()
    assert ratio == round(counted.chunk_bytes / counted.stored_bytes, 2) > 1
    assert (shown["checkpoints"], shown["hidden"], shown["sessions"]) == ("5", "1", "2")


def test_a_session_is_the_sum_of_its_rows(run, store, monkeypatch):
    monkeypatch.setattr(counting, "_PAGE", 2)
    shown = fields(run("stats", "--session", "scout-1"))
    rows = store.find(session="scout-1")

    assert (shown["saves"], shown["checkpoints"]) == ("5", "4")
    assert int(shown["state_bytes"]) == sum(row.size_bytes for row in rows)
    assert int(shown["stored_bytes"]) == sum(row.stored_bytes for row in rows)
    assert (shown["agent"], shown["project"]) == ("scout", "acme")


@pytest.mark.usefixtures("store")
def test_a_terminal_gets_sentences(terminal):
    whole = terminal("stats", NO_COLOR="1").screen
    one = terminal("stats", "--session", "scout-1", NO_COLOR="1").screen

    assert re.search(r"^sessions     2, with 2 branches$", whole, re.MULTILINE)
    assert re.search(r"^checkpoints  5 \(1 removed, not yet collected\)$", whole, re.MULTILINE)
    assert re.search(r"^chunks       \d+: .*B, .* in the store, [\d.]+ times smaller$", whole, re.MULTILINE)
    assert re.search(r"^on disk      .* KB$", whole, re.MULTILINE)
    assert re.search(r"^session      scout-1 \(agent scout project acme\)$", one, re.MULTILINE)
    assert re.search(r"^checkpoints  4 \(1 removed\)$", one, re.MULTILINE)


def test_a_store_without_anything_has_figures_too(run, terminal):
    run("init")

    assert json.loads(run("stats", "--json").stdout)["totals"]["ratio"] is None
    assert terminal("stats").exit_code == 0


@pytest.mark.usefixtures("store")
def test_a_session_that_is_not_there_is_an_error_with_the_near_name(run):
    result = run("stats", "--session", "scout-2")

    assert result.exit_code == 4
    assert "did you mean scout-1?" in result.stderr
    assert run("stats", "--branch", "main").exit_code == 2
    assert run("stats", "--store", "nowhere").exit_code == 10


@pytest.mark.usefixtures("store")
def test_sessions_are_listed_oldest_first(run, terminal):
    rows = [line.split("\t") for line in run("list", "--sessions").stdout.splitlines()]
    table = terminal("list", "--sessions", NO_COLOR="1").screen.splitlines()

    assert [(row[0], row[1], row[2], row[4]) for row in rows] == [
        ("scout-1", "scout", "acme", "5"),
        ("other", "", "", "1"),
    ]
    assert table[0].split() == ["SESSION", "AGE", "SAVES", "AGENT", "PROJECT"]
    assert table[1].split()[0] == "scout-1"
    assert [
        line.split("\t")[0] for line in run("list", "--sessions", "--agent", "scout").stdout.splitlines()
    ] == ["scout-1"]
    assert run("list", "--sessions", "--limit", "1").stdout.startswith("other\t")


@pytest.mark.usefixtures("store")
def test_sessions_of_nobody_are_an_error_with_the_near_name(run):
    result = run("list", "--sessions", "--agent", "scuot")

    assert result.exit_code == 4
    assert "did you mean scout?" in result.stderr


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    "more", [["--tag", "x"], ["--session", "other"], ["--all-sessions"], ["--since", "2020-01-01"]]
)
def test_filters_of_checkpoints_do_not_go_with_sessions(run, more):
    assert run("list", "--sessions", *more).exit_code == 2


def test_no_sessions_is_an_answer(run, terminal):
    run("init")

    assert (run("list", "--sessions").exit_code, run("list", "--sessions").stdout) == (0, "")
    assert terminal("list", "--sessions").exit_code == 0
