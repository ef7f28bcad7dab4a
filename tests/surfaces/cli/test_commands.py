"""Every command on a terminal, in a pipe, with --json, with --fields and --format, and with bad input.

Codes and data, not sentences. A command that is not in the table fails the first test.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

import pytest
from tests.surfaces.cli.json_schema import load, problems
from tests.surfaces.cli.places import place

import holdfast
from holdfast.cli.app import COMMANDS

KEPT_IN = ["sqlite"]


class Case(NamedTuple):
    """A command, and what is true of each of its forms."""

    words: str
    schema: str
    """The schema of --json; `*` before it: one object a line; empty: it has no JSON form here."""
    seen: str
    """What a person sees on a terminal."""
    fields: str = ""
    """Some of its fields."""
    bad: str = "--no-such-option"
    """What makes it fail."""
    code: str = "bad-argument"
    exit_code: int = 2
    result: int = 0
    """What it ends with when all is well."""


CASES = {
    "init": Case("init other", "init", "other", "store,created", "a b"),
    "create": Case("create three", "create", "three", "id,seq", "x --state none.json"),
    "list": Case("list", "list", "two", "id,seq,message", "nope", "checkpoint-missing", 4),
    "show": Case("show", "show", "score", "id,message", "@~9", "history-too-short", 4),
    "diff": Case("diff", "diff", "score", "op,path", "@~9", "history-too-short", 4),
    "diverge": Case("diverge @-", "diverge", "differs", "last,same", "@~9", "history-too-short", 4),
    "bisect": Case("bisect score>1", "bisect", "two", "id,seq", "score>9", "never-holds", 1),
    "blame": Case("blame score", "blame", "changed by", "id,value", "scroe", "path-missing", 4),
    "history": Case("history score", "history", "VALUE", "id,value", "scroe", "path-missing", 4),
    "grep": Case("grep timeout", "grep", "timeout", "id,path", "-E (", "bad-pattern"),
    "tree": Case("tree", "tree", "main", "id,lane", "--branch nope", "branch-missing", 4),
    "timeline": Case("timeline", "timeline", "two", "id,gap", "--since x", "bad-time"),
    "watch": Case(
        "watch --after #1 --timeout 0", "*watch", "two", "id", "--after #9", "checkpoint-missing", 4
    ),
    "stats": Case(
        "stats", "stats", "checkpoints", "checkpoints,chunks", "--session nope", "session-missing", 4
    ),
    "at": Case("at now", "at", "two", "id,seq", "x", "bad-time"),
    "restore": Case("restore @-", "restore", "restore", "id", "@~9", "history-too-short", 4),
    "undo": Case("undo", "undo", "tag", "number,summary", "--limit 1"),
    "redo": Case("redo", "redo", "tag", "number", "--dry-run", "nothing-to-redo", 4),
    "fork": Case("fork @- risky", "fork", "fork", "id,branch", "nope", "checkpoint-missing", 4),
    "branch": Case("branch", "branch", "main", "name,id", "--delete nope --yes", "branch-missing", 4),
    "switch": Case("switch main", "switch", "two", "id", "nope", "branch-missing", 4),
    "merge": Case("merge main", "merge", "two", "id", "nope", "checkpoint-missing", 4),
    "tag": Case("tag @ silver", "tag", "silver", "id,tags", "@"),
    "pin": Case("pin @", "pin", "two", "id,pinned", "@~9", "history-too-short", 4),
    "annotate": Case("annotate @ --message hm", "annotate", "hm", "id,message", "@"),
    "delete": Case("delete @", "delete", "two", "id", "@~9", "history-too-short", 4),
    "clear": Case("clear --yes", "clear", "removed", "session,checkpoints", "", "needs-confirmation", 20),
    "prune": Case("prune --at-most 1 --yes", "prune", "removed", "total,deleted", "--at-most 0"),
    "gc": Case("gc", "gc", "chunks", "checkpoints,chunks", "--keep-days x"),
    "forget": Case(
        "forget @ --dry-run",
        "forget",
        "would be erased",
        "session,checkpoints",
        "@~9",
        "history-too-short",
        4,
    ),
    "verify": Case(
        "verify", "*verify", "nothing is damaged", "type,why", "--session nope", "session-missing", 4
    ),
    "repair": Case("repair", "repair", "can be read", "needed,kept", "--store none", "store-missing", 10),
    "backup": Case("backup copy.db", "backup", "copy.db", "path,bytes", ".holdfast", "path-exists"),
    "copy": Case(
        "copy .holdfast c.db", "copy", "copied", "checkpoints,bytes", "none.db c.db", "store-missing", 10
    ),
    "export": Case("export -o e.json", "export", "e.json", "checkpoints,bytes", "--whole @"),
    "import": Case(
        "import saved.json",
        "import",
        "there already",
        "sessions,checkpoints",
        "none.json",
        "source-missing",
        4,
    ),
    "config": Case("config", "config", "session", "key,value", "nope", "bad-config"),
    "completion": Case("completion bash", "completion", "complete", "", "tcsh"),
}
ELSEWHERE = {
    "brief",
    "demo",
    "edit",
    "exec",
    "heartbeat",
    "import-langgraph",
    "mcp",
    "reindex",
    "serve",
    "sql",
    "why",
}
"""Commands that have test modules of their own."""

CHANGE = {
    *("annotate", "backup", "clear", "copy", "create", "delete", "export", "fork", "init", "pin", "prune"),
    *("redo", "restore", "tag", "undo"),
}
"""Commands that cannot be run twice alike."""


@pytest.fixture
def history(home):
    """Two checkpoints, a tag, and an archive of the newest."""
    with holdfast.open(place(home)) as store:
        session = store.session()
        session.save({"score": 1, "notes": ["a"]}, "one")
        last = session.save({"score": 2, "notes": ["a", "timeout"]}, "two", step=2, tokens=7, cost_usd=0.5)
        session.tag(last, "gold")
        session.export("@", str(home / "saved.json"))


def words(text: str) -> list[str]:
    return text.split()


def failing(name: str, case: Case) -> list[str]:
    return [name, *words(case.bad)]


def test_every_command_is_in_the_table():
    alone = {name for name, entry in COMMANDS.items() if entry.home and " " not in name}

    assert alone == set(CASES) | ELSEWHERE


@pytest.fixture(params=list(CASES.items()), ids=list(CASES))
def case(request, run, history):
    name, case = request.param
    if name == "redo":
        run("undo")
    return name, case


def test_a_pipe_gets_whole_lines_and_no_paint(case, run):
    _, it = case
    result = run(*words(it.words))

    assert result.exit_code == it.result, result.stderr
    assert "\x1b" not in result.stdout
    assert "\u2026" not in result.stdout
    # Data is on stdout, talk on stderr.
    assert "\t" not in result.stderr
    assert not re.search(r"[0-9a-f]{64}", result.stderr)


def test_json_is_what_the_schema_says(case, run):
    _, it = case
    result = run(*words(it.words), "--json")

    assert result.exit_code == it.result, result.stderr
    assert result.stderr == ""
    lines = it.schema.startswith("*")
    documents = result.stdout.splitlines() if lines else [result.stdout]
    for each in documents:
        assert problems(json.loads(each), load(f"{it.schema.lstrip('*')}.schema.json")) == []


def test_fields_and_format_choose_what_is_written(case, run):
    name, it = case
    if not it.fields:
        return
    if name in CHANGE:
        # They change something: once is enough.
        result = run(*words(it.words), "--fields", it.fields)
        assert result.exit_code == it.result, result.stderr
        assert {line.count("\t") for line in result.stdout.splitlines()} == {it.fields.count(",")}
        return
    chosen = run(*words(it.words), "--fields", it.fields)
    shaped = run(
        *words(it.words), "--format", "<" + "|".join(f"{{{field}}}" for field in it.fields.split(",")) + ">"
    )
    unknown = run(*words(it.words), "--fields", "no_such_field")

    assert chosen.exit_code == shaped.exit_code == it.result, chosen.stderr + shaped.stderr
    assert [
        f"<{line}>".replace("\t", "|") for line in chosen.stdout.splitlines()
    ] == shaped.stdout.splitlines()
    assert unknown.exit_code == 2
    assert "code: bad-argument" in unknown.stderr


def test_bad_input_has_a_code_a_hint_and_an_exit_code(case, run):
    name, it = case
    if name == "redo":
        run("redo")
    result = run(*failing(name, it), "--json")

    assert result.exit_code == it.exit_code, result.stderr + result.stdout
    error = json.loads(result.stderr)["error"]
    assert (error["code"], error["exit"]) == (it.code, it.exit_code)
    assert error["hint"]
    assert problems({"error": error}, load("error.schema.json")) == []


@pytest.mark.parametrize("name", CASES)
def test_a_terminal_gets_what_people_read(name, run, terminal, history):
    if name == "redo":
        run("undo")
    seen = terminal(*words(CASES[name].words), width=120)

    assert seen.exit_code == CASES[name].result, seen.stderr
    assert CASES[name].seen in seen.screen


@pytest.mark.parametrize(
    "words",
    [
        *(["create", "x"], ["restore", "@-"], ["fork"], ["switch", "main"], ["tag", "@", "x"], ["pin", "@"]),
        *(
            ["annotate", "@", "--message", "x"],
            ["delete", "@"],
            ["clear"],
            ["undo"],
            ["prune", "--at-most", "1"],
        ),
        *(["gc", "--keep-days", "0"], ["forget", "@"], ["merge", "main"], ["import", "saved.json"]),
    ],
    ids=lambda words: words[0],
)
def test_a_dry_run_changes_nothing(run, home, history, words):
    def everything():
        with holdfast.open(place(home)) as store:
            return store.stats()._replace(file_bytes=0), [each.to_dict() for each in store.find()]

    before = everything()
    result = run(*words, "--dry-run", "--json")

    assert result.exit_code == 0, result.stderr
    assert everything() == before


@pytest.mark.parametrize("name", CASES)
def test_options_that_say_where_and_do_not_apply_are_refused_and_not_listed(run, name):
    listed = run(name, "--help").stdout.partition("Options of every command")[2]
    for option in ("store", "session", "branch")[COMMANDS[name].place :]:
        assert f"--{option} " not in listed
        if (name, option) != ("copy", "session"):
            assert run(f"--{option}", "x", *words(CASES[name].words)).exit_code == 2


def test_ids_are_shown_with_the_digits_that_name_them(terminal, history):
    seen = terminal("list", "--color", "always")

    assert "\x1b[1m\x1b[33m" in seen.screen
