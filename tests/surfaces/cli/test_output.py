"""stdout is data, stderr is talk (C1); a table for people, TSV for programs (C2), JSON with a schema (C3)."""

from __future__ import annotations

import json

import pytest
from tests.surfaces.cli.json_schema import FOLDER, load, problems
from tests.surfaces.cli.places import KINDS, here, place
from tests.surfaces.cli.test_commands import CASES
from tests.surfaces.cli.threads import write_threads

import holdfast

STATE = {"goal": "x", "pair": (1, 2), "seen": {1}, "raw": b"\x00"}


@pytest.fixture
def store(home):
    """Three checkpoints, one with a long message, on a clock that stands still long ago."""
    with holdfast.open(place(home)) as opened:
        session = opened.session(agent="scout", project="acme")
        session.save(STATE, "first", step=1, tags=["verified", "a"], metadata={"model": "m1"})
        session.save(STATE, "second " + "long " * 40, step=2)
        last = STATE | {"goal": "y", "seen": {2}}
        session.save(last, "third", status="completed", tokens=1234, cost_usd=0.5, key="k-3")
        # Something to undo, and something to redo.
        session.pin("#1")
        session.pin("#2")
        session.undo()
        yield session


COMMANDS = {
    "create --dry-run": "create",
    "list --all-sessions --limit 2": "list",
    "list --sessions": "sessions",
    "list #1..@": "list",
    "show --record": "show",
    "show @~1": "show",
    "diff --stat #1": "diff",
    "history seen --oldest-first": "history",
    "tree --limit 2": "tree",
    "timeline --labels": "timeline",
    "timeline --all-sessions --limit 2": "timeline",
    "stats --session default": "stats",
    "prune --only --keep-last 1 --keep-hourly all --yes": "prune",
    "prune --only --dry-run --at-most 1 --per branch": "prune",
    "gc --dry-run --keep-days 0.5": "gc",
    "forget --dry-run #1": "forget",
    "watch --after @- --timeout 0": "watch",
    "verify --quick --session default": "verify",
    "repair -n": "repair",
    "config --explain": "config",
    "copy --dry-run .holdfast copied.db": "copy",
    "export --whole -o all.jsonl": "export",
    "import archive.jsonl": "import",
    "import -n archive.jsonl": "import",
    "import-langgraph checkpoints.sqlite": "import-langgraph",
    "import-langgraph -n checkpoints.sqlite --thread 42": "import-langgraph",
    "backup copy.db --dry-run": "backup",
    "at 2020-01-01 --nearest --all": "at",
    "restore #1 --dry-run": "restore",
    "undo --dry-run": "undo",
    "undo --list": "operations",
    "redo --dry-run": "redo",
    "fork --session-to other --dry-run": "fork",
    "branch --rename main trunk": "branch",
    "branch --delete main --force --dry-run": "branch",
    "merge @- --ours --dry-run": "merge",
    "switch main --dry-run": "switch",
    "tag #1 a --remove --dry-run": "tag",
    "tag": "tags",
    "pin #1 --remove --dry-run": "pin",
    "pin": "pins",
    "annotate @ --metadata a=b --dry-run": "annotate",
    "delete #2 --dry-run": "delete",
    "clear --force --dry-run": "clear",
}
"""More forms than test_commands.py has, and the schema of each."""


def meant(args):
    """A command with the store that is in use where it names one, and with the file that it names."""
    if "checkpoints.sqlite" in args:
        write_threads("checkpoints.sqlite")
    if "archive.jsonl" in args:
        with holdfast.open("memory:") as other:
            other.session("archived").save(STATE)
            other.session("archived").export(path="archive.jsonl", session=True)
    return [here() if word == ".holdfast" else word for word in args]


def on_both(names):
    """The names of commands with each kind of store that can do them."""
    pairs = [
        (kind, name) for name in names for kind in KINDS if (kind, name.split()[0]) != ("postgres", "backup")
    ]
    return pytest.mark.parametrize(("kept_in", "name"), pairs, indirect=["kept_in"])


@pytest.mark.usefixtures("store")
@on_both(COMMANDS)
def test_json_is_one_document_that_fits_its_schema(run, name):
    words = ["create", "x", "--dry-run"] if name.startswith("create") else name.split()
    result = run(*meant(words), "--json")

    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    assert problems(json.loads(result.stdout), load(f"{COMMANDS[name]}.schema.json")) == []


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    "args",
    [
        ["list", "--session", "nope"],
        ["list", "--tag", "nope"],
        ["list", "--nope"],
        ["list", "--nope", "--json"],
        ["show", "zzz zzz"],
        ["show", "#99"],
        ["show", "--store", "nowhere"],
        ["create", "x", "--state", "missing.json"],
        ["nope"],
        [],
    ],
)
def test_an_error_in_json_mode_is_one_object_on_stderr_that_fits_its_schema(run, args):
    result = run(*([] if "--json" in args else ["--json"]), *args)

    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    error = json.loads(result.stderr)
    assert problems(error, load("error.schema.json")) == []
    assert error["error"]["exit"] == result.exit_code != 0


def test_every_schema_is_checked_by_a_test_and_no_keyword_is_overlooked():
    tested = {f"{name}.schema.json" for name in COMMANDS.values()} | {
        *(f"{case.schema.lstrip('*')}.schema.json" for case in CASES.values()),
        "error.schema.json",
        "demo.schema.json",
        # test_plan.py holds the commands of plans to theirs.
        *(
            f"plan-{name}.schema.json"
            for name in ("run", "status", "show", "diff", "whatif", "approve", "cancel")
        ),
        "heartbeat.schema.json",
    }
    assert {path.name for path in FOLDER.iterdir()} == tested | {
        "checkpoint.schema.json",
        # Of files: test_export_import.py holds them to these.
        "archive-checkpoint.schema.json",
        "archive-session.schema.json",
    }

    with pytest.raises(KeyError):
        problems({}, {"type": "object", "propertyNames": {}})
    assert problems({"more": 1}, {"properties": {}}) == ["$.more is not described"]
    assert problems({"a": True}, {"properties": {"a": {"type": "integer"}}}) != []


def test_create_prints_the_row_that_list_prints(run):
    made = run("create", "note", "--tags", "b,a")

    assert made.stdout == run("list").stdout
    assert made.stdout.split("\t")[8] == "a,b"


@pytest.mark.usefixtures("store")
def test_a_terminal_that_is_not_unicode_gets_ascii(terminal):
    seen = terminal("list", width=72, PYTHONIOENCODING="ascii")

    assert seen.exit_code == 0
    assert "..." in seen.screen
    assert seen.screen.isascii()


def test_text_that_the_locale_cannot_write_is_escaped_not_lost(process):
    process("create", "größe 日本 🙂")

    listed = process("list", PYTHONIOENCODING="ascii")
    document = process("list", "--json", PYTHONIOENCODING="ascii")

    assert listed.returncode == 0
    assert listed.stdout.rstrip().endswith(r"gr\u00f6\u00dfe \u65e5\u672c \ud83d\ude42")
    assert json.loads(document.stdout)["checkpoints"][0]["message"] == "größe 日本 🙂"


def test_show_in_a_pipe_is_fields_an_empty_line_and_the_whole_state(run, store):
    store.save({"text": "x" * 5000, "many": list(range(500))}, "big\tone\n", step=9, metadata={"a": 1})

    record, _, state = run("show").stdout.partition("\n\n")

    fields = dict(line.split("\t") for line in record.splitlines())
    assert fields["id"] == store.checkpoint().id
    assert fields["message"] == r"big\tone\n"
    assert fields["step"] == "9"
    assert json.loads(fields["metadata"]) == {"a": 1}
    assert fields["created_at"].endswith("Z")
    assert fields["tokens"] == ""
    assert "x" * 5000 in state
    assert " 499," in state
    assert "…" not in state


def test_show_on_a_terminal_cuts_a_large_state_and_says_how_to_see_it(terminal, store):
    store.save({"many": list(range(500)), "text": "x" * 5000}, "big")

    short, full = terminal("show"), terminal("show", "--full")

    assert "… 476 more" in short.screen
    assert "--full" in short.stderr
    assert "… " not in full.screen
    assert full.stderr == ""
    assert "499," in full.screen


def test_show_as_json_tags_what_json_lacks_and_state_alone_is_the_state(run, store):
    both = json.loads(run("show", "--json").stdout)
    alone = json.loads(run("show", "--json", "--state").stdout)

    assert both["checkpoint"] == store.checkpoint().to_dict()
    assert both["state"] == alone
    assert alone["pair"] == {"$type": "tuple", "$value": [1, 2]}
    assert json.loads(run("show", "--json", "--record").stdout) == {"checkpoint": both["checkpoint"]}


@pytest.mark.usefixtures("store")
def test_only_the_state_or_only_the_record(run):
    state, record = run("show", "--state").stdout, run("show", "--record").stdout

    assert state.startswith("{")
    assert record.startswith("id\t")
    assert "goal" not in record
    assert run("show").stdout == f"{record}\n{state}"
