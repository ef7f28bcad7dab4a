"""stdout is data, stderr is talk (C1); a table for people, TSV for programs (C2), JSON with a schema (C3)."""

from __future__ import annotations

import json
import re

import pytest
from tests.surfaces.cli.json_schema import FOLDER, load, problems
from tests.surfaces.cli.places import KINDS, here, place
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
    "init": (["init"], "init.schema.json"),
    "create": (["create", "note", "--tags", "x", "--metadata", '{"$type": 1}'], "create.schema.json"),
    "create --dry-run": (["create", "note", "--dry-run"], "create.schema.json"),
    "list": (["list"], "list.schema.json"),
    "list --all-sessions": (["list", "--all-sessions", "--limit", "2"], "list.schema.json"),
    "show": (["show", "@~1"], "show.schema.json"),
    "show --record": (["show", "--record"], "show.schema.json"),
    "diff": (["diff", "#1", "@"], "diff.schema.json"),
    "diff --stat": (["diff", "--stat", "#1"], "diff.schema.json"),
    "diverge": (["diverge", "#1"], "diverge.schema.json"),
    "bisect": (["bisect", "goal == 'y'"], "bisect.schema.json"),
    "blame": (["blame", "seen"], "blame.schema.json"),
    "history": (["history", "seen", "--oldest-first"], "history.schema.json"),
    "grep": (["grep", "x"], "grep.schema.json"),
    "list --sessions": (["list", "--sessions"], "sessions.schema.json"),
    "tree": (["tree"], "tree.schema.json"),
    "tree --limit": (["tree", "--limit", "2"], "tree.schema.json"),
    "timeline": (["timeline"], "timeline.schema.json"),
    "timeline --labels": (["timeline", "--labels"], "timeline.schema.json"),
    "timeline --all-sessions": (["timeline", "--all-sessions", "--limit", "2"], "timeline.schema.json"),
    "stats": (["stats"], "stats.schema.json"),
    "stats --session": (["stats", "--session", "default"], "stats.schema.json"),
    "prune": (["prune", "--only", "--keep-last", "1", "--keep-hourly", "all", "--yes"], "prune.schema.json"),
    "prune --dry-run": (
        ["prune", "--only", "--dry-run", "--at-most", "1", "--per", "branch"],
        "prune.schema.json",
    ),
    "gc": (["gc"], "gc.schema.json"),
    "gc --dry-run": (["gc", "--dry-run", "--keep-days", "0.5"], "gc.schema.json"),
    "forget --dry-run": (["forget", "--dry-run", "#1"], "forget.schema.json"),
    "watch": (["watch", "--after", "@-", "--timeout", "0"], "watch.schema.json"),
    "verify": (["verify"], "verify.schema.json"),
    "verify --quick": (["verify", "--quick", "--session", "default"], "verify.schema.json"),
    "repair": (["repair"], "repair.schema.json"),
    "repair --dry-run": (["repair", "-n"], "repair.schema.json"),
    "backup": (["backup", "copy.db"], "backup.schema.json"),
    "completion": (["completion", "bash"], "completion.schema.json"),
    "config": (["config"], "config.schema.json"),
    "config --explain": (["config", "--explain"], "config.schema.json"),
    "copy": (["copy", ".holdfast", "copied.db"], "copy.schema.json"),
    "copy --dry-run": (["copy", "--dry-run", ".holdfast", "copied.db"], "copy.schema.json"),
    "export": (["export", "@~1", "-o", "one.json"], "export.schema.json"),
    "export --whole": (["export", "--whole", "-o", "all.jsonl"], "export.schema.json"),
    "import": (["import", "archive.jsonl"], "import.schema.json"),
    "import --dry-run": (["import", "-n", "archive.jsonl"], "import.schema.json"),
    "import-langgraph": (["import-langgraph", "checkpoints.sqlite"], "import-langgraph.schema.json"),
    "import-langgraph --dry-run": (
        ["import-langgraph", "-n", "checkpoints.sqlite", "--thread", "42"],
        "import-langgraph.schema.json",
    ),
    "backup --dry-run": (["backup", "copy.db", "--dry-run"], "backup.schema.json"),
    "at": (["at", "now"], "at.schema.json"),
    "at --nearest": (["at", "2020-01-01", "--nearest", "--all"], "at.schema.json"),
    "restore": (["restore", "#1"], "restore.schema.json"),
    "restore --dry-run": (["restore", "#1", "--dry-run"], "restore.schema.json"),
    "undo": (["undo"], "undo.schema.json"),
    "undo --dry-run": (["undo", "--dry-run"], "undo.schema.json"),
    "undo --list": (["undo", "--list"], "operations.schema.json"),
    "redo": (["redo"], "redo.schema.json"),
    "redo --dry-run": (["redo", "--dry-run"], "redo.schema.json"),
    "fork": (["fork", "@-", "risky"], "fork.schema.json"),
    "fork --dry-run": (["fork", "--session-to", "other", "--dry-run"], "fork.schema.json"),
    "branch": (["branch"], "branch.schema.json"),
    "branch --rename": (["branch", "--rename", "main", "trunk"], "branch.schema.json"),
    "branch --delete": (["branch", "--delete", "main", "--force", "--dry-run"], "branch.schema.json"),
    "merge": (["merge", "@-"], "merge.schema.json"),
    "merge --dry-run": (["merge", "@-", "--ours", "--dry-run"], "merge.schema.json"),
    "switch": (["switch", "main"], "switch.schema.json"),
    "switch --dry-run": (["switch", "main", "--dry-run"], "switch.schema.json"),
    "tag": (["tag", "@", "golden"], "tag.schema.json"),
    "tag --dry-run": (["tag", "#1", "a", "--remove", "--dry-run"], "tag.schema.json"),
    "tag (list)": (["tag"], "tags.schema.json"),
    "pin": (["pin", "@"], "pin.schema.json"),
    "pin --dry-run": (["pin", "#1", "--remove", "--dry-run"], "pin.schema.json"),
    "pin (list)": (["pin"], "pins.schema.json"),
    "annotate": (["annotate", "@", "--message", "hi"], "annotate.schema.json"),
    "annotate --dry-run": (["annotate", "@", "--metadata", "a=b", "--dry-run"], "annotate.schema.json"),
    "delete": (["delete", "@"], "delete.schema.json"),
    "delete --dry-run": (["delete", "#2", "--dry-run"], "delete.schema.json"),
    "clear": (["clear", "--yes", "--force"], "clear.schema.json"),
    "clear --dry-run": (["clear", "--force", "--dry-run"], "clear.schema.json"),
    "list A..B": (["list", "#1..@"], "list.schema.json"),
}


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


NO_ROWS = {"init", "backup", "completion"}
"""Commands whose data is a path, a script or a list of names, without tabs."""


@pytest.mark.usefixtures("store")
@on_both(COMMANDS)
def test_json_is_one_document_that_fits_its_schema(run, name):
    args, schema = COMMANDS[name]

    result = run(*meant(args), "--json")

    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    assert problems(json.loads(result.stdout), load(schema)) == []


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
    tested = {schema for _, schema in COMMANDS.values()} | {
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


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("args", [args for args, _ in COMMANDS.values() if args[0] not in NO_ROWS])
def test_data_is_on_stdout_and_talk_on_stderr(run, args):
    result = run(*meant(args))

    rows = [line for line in result.stdout.splitlines() if "\t" in line]
    assert result.exit_code == 0
    assert bool(rows) == (args[-1] != "--dry-run")
    assert not re.search(r"[0-9a-f]{64}", result.stderr)
    assert "\t" not in result.stderr


def test_create_prints_the_row_that_list_prints(run):
    made = run("create", "note", "--tags", "b,a")

    assert made.stdout == run("list").stdout
    assert made.stdout.split("\t")[8] == "a,b"


@pytest.mark.usefixtures("store")
def test_a_table_is_coloured_on_a_terminal(terminal):
    assert "\x1b[33m" in terminal("list").screen
    assert "\x1b" not in terminal("list", TERM="dumb").screen
    assert "\x1b" not in terminal("list", "--color", "never").screen


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
