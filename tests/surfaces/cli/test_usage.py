"""Command lines that cannot be used, in plain words; habits from other programs; one and many."""

from __future__ import annotations

import json
import re

import pytest
from tests.surfaces.cli.test_exit_codes import said

import holdfast
from holdfast.cli import COMMANDS
from holdfast.cli._figures import counted, newest_shown
from holdfast.cli._usage import HABITS

JARGON = re.compile(r"integer|range|x[<>]=|<=x|float|valid|requires|unexpected", re.IGNORECASE)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["list", "--limit", "-1"], "--limit takes a whole number from 0 on, not -1"),
        (["list", "--limit", "x"], "--limit takes a whole number from 0 on, not 'x'"),
        (["list", "--step", "x"], "--step takes a whole number, not 'x'"),
        (
            ["list", "--status", "x"],
            "--status takes one of running, paused, completed, failed, interrupted, not 'x'",
        ),
        (["prune", "--keep-last", "0"], "--keep-last takes a whole number from 1 to 1,000,000,000, not 0"),
        (["gc", "--keep-days", "-1"], "--keep-days takes a number from 0 to 1,000,000, not -1"),
        (["watch", "--timeout", "x"], "--timeout takes a number from 0 on, not 'x'"),
        (["list", "--limit"], "--limit needs a value"),
        (["branch", "--rename", "a"], "--rename needs 2 values"),
        (["list", "--json=1"], "--json takes no value"),
        (["create", "two", "words"], "there is nothing that takes words; a text with spaces needs quotes"),
        (["completion", "tcsh"], "SHELL takes one of bash, zsh, fish, not 'tcsh'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_is_wrong_is_said_without_jargon(run, args, message):
    result = run(*args)

    assert result.exit_code == 2
    assert said(result)["error"] == message
    assert not JARGON.search(result.stderr)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_no_formulas(run, name):
    assert not re.search(r"x[<>]=|<=x", run(name, "--help").stdout)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("log", ["list"]),
        ("ls", ["list"]),
        ("rm", ["delete"]),
        ("checkout", ["switch", "restore"]),
        ("commit", ["create"]),
        ("rebase", ["merge"]),
        ("save", ["create"]),
        ("status", ["show"]),
    ],
)
def test_habits_from_other_programs_are_understood_and_nothing_is_run(run, home, typed, meant):
    result = run(typed, "x")

    assert result.exit_code == 2
    assert said(result)["error"] == f"there is no command '{typed}'"
    assert said(result)["hint"] == f"did you mean {' or '.join(f'holdfast {each}' for each in meant)}?"
    assert json.loads(run("--json", typed).stderr)["error"]["candidates"] == meant
    assert list(home.iterdir()) == []


def test_every_habit_leads_to_a_command_that_is_there():
    assert not HABITS.keys() & COMMANDS.keys()
    for meant in HABITS.values():
        for each in meant:
            assert each.split()[0] in COMMANDS or each.startswith("--")


def test_one_is_not_many(run, terminal):
    run("create", "one")
    with holdfast.open(".holdfast") as store:
        store.session("two").save(1)

    assert counted(1, "checkpoint") == "1 checkpoint"
    assert counted(0, "branch", "branches") == "0 branches"
    assert newest_shown(1) == "only the newest is shown; --limit 0 shows all"
    assert newest_shown(50) == "the 50 newest are shown; --limit 0 shows all"
    run("create", "two")
    seen = [
        terminal("stats", NO_COLOR="1").screen,
        terminal("list", "--limit", "1").stderr,
        run("prune", "--keep-last", "1", "--session", "two").stderr,
        run("prune", "--keep-last", "1", "--dry-run").stderr,
        run("verify", "--session", "two").stdout,
        run("gc", "--dry-run").stderr,
    ]
    assert not [text for text in seen if re.search(r"\b(?:all )?1 (?:[a-z]+ )*(?:\w+s|newest are)\b", text)]
    assert "2, with 2 branches" in seen[0]
    assert "only the newest is shown" in seen[1]
