"""Options that every command takes, help, and version."""

from __future__ import annotations

import json
import shlex

import click
import pytest
from tests.surfaces.cli.places import on_both, place
from tests.surfaces.cli.threads import write_threads

import holdfast
from holdfast.cli import COMMANDS, cli

KEPT_IN = ["sqlite"]


@pytest.fixture
def two_sessions(run):
    run("create", "in default", "--store", "here")
    run("create", "in other", "--store", "here", "--session", "other")
    run("create", "elsewhere", "--store", "there")


def messages(result):
    return [each["message"] for each in json.loads(result.stdout)["checkpoints"]]


@pytest.mark.usefixtures("two_sessions")
@pytest.mark.parametrize(
    "options",
    [
        ("--store", "here", "--json"),
        ("--store=here", "--session", "other", "--json"),
        ("--json", "--store", "there"),
    ],
)
def test_global_options_mean_the_same_before_and_after_the_command(run, options):
    before, after = run(*options, "list"), run("list", *options)

    assert before.exit_code == after.exit_code == 0
    assert before.stdout == after.stdout
    assert run("--json", "list", *(word for word in options if word != "--json")).stdout == after.stdout


@pytest.mark.usefixtures("two_sessions")
def test_the_later_option_wins_and_an_option_wins_over_the_environment(run):
    env = {"HOLDFAST_STORE": "there", "HOLDFAST_SESSION": "default"}

    assert messages(run("--json", "list", env=env)) == ["elsewhere"]
    assert messages(run("--json", "--store", "here", "list", env=env)) == ["in default"]
    assert messages(run("--json", "list", "--store", "here", "--session", "other", env=env)) == ["in other"]
    assert messages(run("--json", "--session", "other", "list", "--store", "here", env=env)) == ["in other"]
    assert messages(run("--json", "--store", "there", "list", "--store", "here", env=env)) == ["in default"]


def test_an_empty_variable_is_no_variable(run):
    run("create", "one")

    assert run("list", env={"HOLDFAST_STORE": "", "HOLDFAST_SESSION": ""}).exit_code == 0


@on_both
def test_branch_applies_to_what_is_saved_and_shown(run, home):
    run("create", "on main")
    with holdfast.open(place(home)) as store:
        first = store.session().save({"n": 1}, "second on main").parent
        store.session().save({"n": 2}, "aside", parent=first)

    assert messages(run("list", "--json")) == ["aside", "second on main", "on main"]
    aside = json.loads(run("list", "--json").stdout)["checkpoints"][0]["branch"]
    assert messages(run("list", "--json", "--branch", aside)) == ["aside", "on main"]
    assert messages(run("list", "--json", "--branch", "main", "--status", "running")) == [
        "second on main",
        "on main",
    ]
    run("create", "more aside", "--branch", aside)
    assert "more aside" in run("show", "--branch", aside).stdout
    assert "second on main" in run("show").stdout


def test_help_shows_every_command_with_its_own_summary(run):
    text = run("--help").stdout

    for name, entry in COMMANDS.items():
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        assert command.short_help == entry.summary
        assert entry.summary in text


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_help_has_examples_and_names_the_environment(run, name, flag):
    result = run(name, flag)

    assert result.exit_code == 0
    assert result.stderr == ""
    assert f"Examples:\n    holdfast {name}" in result.stdout
    assert "HOLDFAST_STORE" in result.stdout
    # A copy is of all sessions, whichever one is in use, and so is an import.
    assert ("HOLDFAST_SESSION" in result.stdout) == (name not in ("copy", "import-langgraph"))


def test_version_is_the_version_of_the_package(run, process):
    assert run("--version").stdout == f"holdfast {holdfast.__version__}\n"
    assert process("--version").stdout == f"holdfast {holdfast.__version__}\n"


def test_the_shell_can_complete_commands(process):
    done = process(_HOLDFAST_COMPLETE="bash_complete", COMP_WORDS="holdfast l", COMP_CWORD="1")

    assert done.stdout == "plain,list\n"


def examples():
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        assert command.help is not None
        for line in command.help.partition("Examples:\n")[2].splitlines():
            # The demo has tests of its own.
            if line.strip().startswith("holdfast ") and name != "demo":
                yield name, line.strip()


def went_wrong(home):
    """Steps of an agent that end badly, after those that are there."""
    with holdfast.open(home / ".holdfast") as store:
        session = store.session()
        for step in range(6):
            messages = [
                {"role": "error" if step > 3 else "tool", "content": "rate limit"},
                {"role": "tool", "content": "failed: timeout"},
            ]
            beliefs = {} if step > 4 else {"b7": {"confidence": step}}
            tags = ["broken"] if step == 5 else []
            session.save({"messages": messages, "score": 0.6 - step / 10, "beliefs": beliefs}, tags=tags)


def came_from_elsewhere(run, home):
    """Files that a store elsewhere was exported to, and one of another program."""
    for _ in range(3):
        run("create", "theirs", "--store", "theirs.db")
    run("export", "main~2..main", "-o", "checkpoints/", "--format", "json", "--store", "theirs.db")
    run("export", "--whole", "-o", "session.jsonl", "--store", "theirs.db")
    foreign = {"version": "0.0.1", "id": "ckpt_abc123", "timestamp": 1738790400000, "snapshot": {"a": 1}}
    (home / "ckpt_abc123.json").write_text(json.dumps(foreign), encoding="utf-8")


@pytest.mark.parametrize(("name", "example"), list(examples()))
def test_every_example_in_help_works(run, home, monkeypatch, name, example):
    monkeypatch.setenv("HOME", str(home))
    (home / "state.json").write_text('{"n": 1, "messages": ["hi"]}', encoding="utf-8")
    (home / "patch.json").write_text('[{"op": "add", "path": "/n", "value": 2}]', encoding="utf-8")
    if name != "init":
        run("create", "one", "--tags", "verified", "--status", "failed", "--state", str(home / "state.json"))
        for _ in range(3):
            run("create", "more")
    if name == "import-langgraph":
        write_threads(home / "checkpoints.sqlite")
    if name == "import":
        came_from_elsewhere(run, home)
    if name in ("bisect", "blame", "history", "grep"):
        went_wrong(home)
    if name == "merge":
        run("fork", "@", "risky-idea")
    if name in ("undo", "redo"):
        run("tag", "@", "golden")
    if name == "redo":
        run("undo")

    words = [word.replace("~", str(home)) if word.startswith("~/") else word for word in shlex.split(example)]
    result = run(*words[1:])

    assert result.exit_code == 0, result.stderr
