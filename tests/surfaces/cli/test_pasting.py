"""Commands in hints and in talk can be pasted: they carry the store, session and branch that were typed."""

from __future__ import annotations

import re
import shlex

import click
import pytest
from tests.surfaces.cli.test_exit_codes import said

import holdfast
from holdfast.cli import COMMANDS, cli
from holdfast.cli._pasting import TAKES, pasteable

PLACE = {"store": "else where", "session": "a b", "branch": "side"}


@pytest.fixture
def elsewhere(home):
    """Two sessions in a store that is not found from here."""
    with holdfast.open(home / "else where") as store:
        for name in ("a b", "other"):
            session = store.session(name)
            for n in (1, 2, 3):
                session.save({"n": n}, tags=["verified"] if n == 1 else ())
            session.fork("#2", "side")
    return home


def commands(text: str) -> list[str]:
    return [text[found.start() :] for found in re.finditer(rf"holdfast (?:{'|'.join(COMMANDS)})\b", text)]


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    "args",
    [
        ["show", "nope"],
        ["list", "--tag", "nope"],
        ["redo"],
        ["delete", "#2"],
        ["branch", "--delete", "main"],
        ["switch", "nowhere-near"],
        ["tag", "@"],
        ["tag", "fresh"],
        ["show", "@", "--branch", "nowhere"],
        ["fork", "fresh"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("before", [True, False])
def test_every_command_in_a_hint_names_the_store_and_session_that_were_typed(run, args, before):
    place = ["--store", "else where", "--session", "a b"]

    result = run(*place, *args) if before else run(*args, *place)

    assert result.exit_code != 0
    found = commands(said(result)["hint"])
    for each in found:
        assert re.match(r"holdfast \w+ --store 'else where' --session 'a b'", each), each
    assert found or "holdfast" not in said(result)["hint"]


@pytest.mark.usefixtures("elsewhere")
def test_a_hint_can_be_pasted_and_works(run):
    blocked = run("undo", "--store", "else where", "--session", "other")
    assert blocked.exit_code == 0
    hint = said(run("undo", "--store", "else where", "--session", "other"))["hint"]

    pasted = re.search(r"holdfast (restore .*?) goes back", hint)
    assert pasted is not None
    done = run(*shlex.split(pasted[1]))

    assert done.exit_code == 0, done.stderr
    assert "session other" in done.stderr
    assert done.stderr.splitlines()[-1] == "Undo: holdfast undo --store 'else where' --session other"


@pytest.mark.usefixtures("elsewhere")
def test_talk_and_json_carry_them_too(run):
    listed = run("pin", "--store", "else where", "--session", "a b")
    error = run("show", "nope", "--store", "else where", "--session", "other", "--json")

    assert listed.stderr == (
        "nothing is pinned: holdfast pin --store 'else where' --session 'a b' REF protects a checkpoint\n"
    )
    assert "holdfast list --store 'else where' --session other shows what there is" in error.stderr


@pytest.mark.usefixtures("elsewhere")
def test_what_came_from_a_variable_is_left_out(run):
    result = run("show", "nope", env={"HOLDFAST_STORE": "else where", "HOLDFAST_SESSION": "other"})

    assert said(result)["hint"] == "holdfast list shows what there is"


@pytest.mark.usefixtures("no_store_yet")
def test_init_elsewhere_says_how_to_go_on_there(run):
    assert "next: holdfast create --store notes.db MESSAGE saves" in run("init", "notes.db").stderr
    assert "next: holdfast create MESSAGE saves" in run("init").stderr


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("holdfast undo", "holdfast undo --store 'else where' --session 'a b'"),
        ("`holdfast list`", "`holdfast list --store 'else where' --session 'a b'`"),
        ("holdfast undo --list.", "holdfast undo --store 'else where' --session 'a b' --list."),
        ("holdfast restore @-", "holdfast restore --store 'else where' --session 'a b' --branch side @-"),
        ("holdfast verify", "holdfast verify --store 'else where'"),
        ("holdfast blame n", "holdfast blame --store 'else where' --session 'a b' --branch side n"),
        ("holdfast import a.json", "holdfast import --store 'else where' --session 'a b' a.json"),
        ("holdfast import-langgraph x", "holdfast import-langgraph --store 'else where' x"),
        ("holdfast list --sessions", "holdfast list --store 'else where' --sessions"),
        ("holdfast undo --session x", "holdfast undo --store 'else where' --session x"),
        ("holdfast list --help shows", "holdfast list --help shows"),
        ("holdfast demo", "holdfast demo"),
        ("holdfast listing", "holdfast listing"),
        ("a holdfast store", "a holdfast store"),
    ],
)
def test_options_go_where_the_command_takes_them(text, wanted):
    assert pasteable(text, PLACE) == wanted
    assert pasteable(text, {}) == text


def test_what_is_typed_is_quoted_and_never_taken_for_a_pattern():
    pasted = pasteable("holdfast gc", {"store": r"a \1 \g<0>" + "\x1b[31m"})

    assert pasted == r"holdfast gc --store 'a \1 \g<0>\x1b[31m'"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:s3cret@db/agents",
        "postgresql://db/agents?user=ada&password=s3cret&sslmode=require",
        "postgresql://:s3cret@db/agents",
    ],
)
def test_a_password_is_not_repeated(url):
    pasted = pasteable("holdfast gc", {"store": url})

    assert "s3cret" not in pasted
    assert "***" in pasted
    assert "db/agents" in pasted


def test_every_command_says_what_it_is_given_along():
    assert TAKES.keys() == COMMANDS.keys()
    for name in COMMANDS:
        assert cli.get_command(click.Context(cli), name) is not None
