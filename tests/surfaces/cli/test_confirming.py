"""Danger levels (C9): a question on a terminal, an option beforehand, exit 20 where nobody can be asked."""

from __future__ import annotations

import subprocess
import sys

import pytest

from holdfast.cli.invocation import store_name

PROGRAM = """
import sys
import click
from holdfast.cli.app import Command, command
from holdfast.cli.errors import run_guarded
from holdfast.cli.invocation import YES, peek

@click.group()
def cli(): pass

@cli.add_command
@command("prune", "x")
@YES
def prune(cmd, *, yes):
    cmd.confirm("12 checkpoints will be removed", yes=yes)
    print("pruned")
    cmd.say_undo()

@cli.add_command
@command("gc", "x")
@click.option("--confirm", "confirmed")
def gc(cmd, *, confirmed):
    cmd.confirm_by_name("undo ends here", store="sqlite:////home/scout/store.db", confirmed=confirmed)
    print("collected")

cmd = peek(sys.argv[1:])
sys.exit(run_guarded(cmd, lambda: cli.main(sys.argv[1:], obj=cmd, standalone_mode=False)))
"""
PRUNE, GC = "Go on? [y/N] ", "Type the name of the store, scout, to go on: "
COMMAND = [sys.executable, "-c", PROGRAM]


def in_a_pipe(*words, answer=""):
    return subprocess.run([*COMMAND, *words], input=answer, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("answer", ["y\n", " YES \n"])
def test_a_yes_on_a_terminal_goes_on_and_says_how_to_undo(talk, answer):
    seen = talk([*COMMAND, "prune"], (PRUNE, answer), NO_COLOR="1")

    assert seen.exit_code == 0
    assert "12 checkpoints will be removed. Go on? [y/N] " in seen.screen
    assert seen.screen.endswith("pruned\nUndo: holdfast undo\n")


@pytest.mark.parametrize("answer", ["\n", "n\n", "yess\n", "\x04"])
def test_anything_else_changes_nothing_and_is_20(talk, answer):
    seen = talk([*COMMAND, "prune"], (PRUNE, answer), NO_COLOR="1")

    assert seen.exit_code == 20
    assert "pruned" not in seen.screen
    assert "error: not confirmed\nhint: nothing was changed; answer y, or give --yes\n" in seen.screen


def test_ctrl_c_at_the_question_is_an_interruption(talk):
    seen = talk([*COMMAND, "prune"], (PRUNE, "\x03"), NO_COLOR="1")

    assert seen.exit_code == 130
    assert "pruned" not in seen.screen


@pytest.mark.parametrize("answer", ["scout\n", " scout \n"])
def test_severe_danger_wants_the_name_of_the_store(talk, answer):
    seen = talk([*COMMAND, "gc"], (GC, answer), NO_COLOR="1")

    assert (seen.exit_code, seen.screen.endswith("collected\n")) == (0, True)


@pytest.mark.parametrize("answer", ["y\n", "Scout\n", "\x04"])
def test_severe_danger_takes_no_other_answer(talk, answer):
    seen = talk([*COMMAND, "gc"], (GC, answer), NO_COLOR="1")

    assert seen.exit_code == 20
    assert "collected" not in seen.screen


@pytest.mark.parametrize(("command", "flag"), [("prune", "--yes does it"), ("gc", "--confirm scout does it")])
@pytest.mark.parametrize("answer", ["", "scout\n"])
def test_without_a_terminal_it_ends_with_20_and_names_the_option(command, flag, answer):
    done = in_a_pipe(command, answer=answer)

    assert (done.returncode, done.stdout) == (20, "")
    assert flag in done.stderr
    assert "code: needs-confirmation" in done.stderr


def test_without_any_stdin_it_ends_with_20():
    script = f"exec {sys.executable} -c '{PROGRAM}' prune <&-"
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=False)

    assert done.returncode == 20


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["prune", "--yes"], 0),
        (["prune", "-y"], 0),
        (["gc", "--confirm", "scout"], 0),
        (["gc", "--confirm", "scott"], 20),
        (["gc", "--confirm", ""], 20),
        (["gc", "--yes"], 2),
    ],
)
def test_the_option_answers_beforehand(talk, words, code):
    assert in_a_pipe(*words).returncode == code
    assert talk([*COMMAND, *words]).exit_code == code


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("sqlite:////home/ada/scout/.holdfast/store.db", "scout"),
        ("sqlite:////home/ada/agents/store.db", "agents"),
        ("sqlite:////home/ada/notes.db", "notes.db"),
        ("sqlite:////store.db", "store.db"),
        ("sqlite:////.holdfast/store.db", ".holdfast"),
        ("postgresql://db.example/agents", "agents"),
        ("postgresql://ada@db.example:5432/agents?sslmode=require&schema=scout", "agents.scout"),
        ("postgresql://ada@/agents?host=/run/postgresql&port=5433", "agents"),
        ("memory:", "memory"),
    ],
)
def test_a_store_has_the_name_that_people_know_it_by(url, name):
    assert store_name(url) == name
