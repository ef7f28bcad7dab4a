"""`holdfast import-langgraph`."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing

import ormsgpack
import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from tests.surfaces.cli.places import place
from tests.surfaces.cli.threads import write_threads

import holdfast


@pytest.fixture
def source(home):
    write_threads(home / "checkpoints.sqlite")
    return "checkpoints.sqlite"


def fields(result):
    return dict(line.split("\t") for line in result.stdout.splitlines())


def test_threads_become_sessions_of_a_store_that_is_made(run, home, source):
    result = run("import-langgraph", source)

    assert result.exit_code == 0, result.stderr
    assert (
        "made a new store" in result.stderr
        or "HOLDFAST_STORE" in result.stderr
        or fields(result)["new"] == "2"
    )
    assert fields(result) == {
        "threads": "2",
        "new": "2",
        "updated": "0",
        "unchanged": "0",
        "ahead": "0",
        "checkpoints": "6",
        "writes": "2",
        "opaque": "0",
        "bare": "0",
    }
    with holdfast.open(place(home), create=False) as store:
        assert [each.id for each in store.sessions()] == ["41", "42"]
    shown = run("show", "--session", "42", "--branch", "main").stdout
    assert "turn 1" in shown
    assert run("verify").exit_code == 0


def test_the_same_again_changes_nothing(run, source):
    run("import-langgraph", source)

    again = json.loads(run("import-langgraph", source, "--json").stdout)

    assert {each["status"] for each in again["threads"]} == {"unchanged"}
    assert (again["checkpoints"], again["writes"]) == (0, 0)


def test_threads_can_be_named_several_times(run, source):
    report = json.loads(run("import-langgraph", source, "--thread", "42", "--thread", "41", "--json").stdout)
    assert [each["id"] for each in report["threads"]] == ["42", "41"]

    missing = run("import-langgraph", source, "--thread", "43")
    assert missing.exit_code == 4
    assert "code: session-missing" in missing.stderr


def test_a_dry_run_says_the_same_and_makes_nothing(run, home, source):
    dry = run("import-langgraph", source, "-n", "--store", "new.db")

    assert dry.exit_code == 0
    assert "nothing was changed" in dry.stderr
    assert not (home / "new.db").exists()
    real = run("import-langgraph", source, "--store", "new.db")
    assert fields(dry) == fields(real)
    assert dry.stderr.splitlines()[0] == next(
        line for line in real.stderr.splitlines() if line.startswith("plan")
    )


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        (["nowhere.sqlite"], "source-missing", 4),
        (["text.sqlite"], "source-unknown", 2),
        (["empty.sqlite"], "source-empty", 4),
        (["pickled.sqlite"], "value-unsupported", 2),
        (["checkpoints.sqlite", "--thread", "nope"], "session-missing", 4),
        (["mysql://ada:hush@host/db"], "bad-url", 2),
        (["postgresql://ada:hush@127.0.0.1:1/db"], "server-gone", 8),
    ],
)
def test_what_cannot_be_imported_is_said_and_leaves_no_store_behind(
    run, home, source, words, code, exit_code
):
    (home / "text.sqlite").write_text("hello, this is no database", encoding="utf-8")
    with SqliteSaver.from_conn_string("empty.sqlite") as saver:
        saver.setup()
    write_threads("pickled.sqlite")
    with closing(sqlite3.connect("pickled.sqlite")) as connection, connection:
        connection.execute("UPDATE checkpoints SET type = 'pickle' WHERE thread_id = '41'")

    result = run("import-langgraph", *words, "--store", "new.db")

    assert result.exit_code == exit_code, result.stderr
    assert f"code: {code}" in result.stderr
    assert "hint: " in result.stderr
    assert "hush" not in result.stderr + result.stdout
    assert code == "value-unsupported" or not (home / "new.db").exists()


def test_a_thread_that_is_another_one_is_a_conflict(run, home, source):
    with holdfast.open(place(home)) as store:
        store.session("42").save({"mine": True})

    result = run("import-langgraph", source)

    assert result.exit_code == 5
    assert "code: history-differs" in result.stderr
    assert "'42'" in result.stderr
    assert len(json.loads(run("list", "--session", "42", "--json").stdout)["checkpoints"]) == 1


def test_a_thread_that_went_on_here_and_classes_that_nobody_knows_are_named(run, home, source):
    plan = ormsgpack.Ext(2, ormsgpack.packb(["app", "Plan", {"a": 1}]))
    data = ormsgpack.packb({"v": 4, "channel_values": {"x": plan}})
    with closing(sqlite3.connect(source)) as connection, connection:
        connection.execute("INSERT INTO checkpoints VALUES ('41', '', '9', '2', 'msgpack', ?, '{}')", (data,))
    result = run("import-langgraph", source)
    assert "app.Plan (1 object)" in result.stderr
    assert fields(result)["opaque"] == "1"

    with holdfast.open(place(home)) as store:
        store.session("41").save({"more": 1}, key="/ 99")
    result = run("import-langgraph", source)
    assert fields(result)["ahead"] == "1"
    assert "left alone: 41" in result.stderr


@pytest.mark.parametrize("words", [["--session", "x"], ["--branch", "x"]])
def test_options_that_do_not_apply_are_refused(run, source, words):
    assert run(*words, "import-langgraph", source).exit_code == 2


def test_without_langgraph_it_says_what_to_install(home, source):
    program = """
import sys
sys.modules["langgraph"] = sys.modules["langchain_core"] = None
from holdfast.cli import main
main()
"""

    done = subprocess.run(
        [sys.executable, "-c", program, "import-langgraph", source],
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 6
    assert "pip install 'holdfast[langgraph]'" in done.stderr
    assert not (home / ".holdfast").exists()


def test_on_a_terminal_figures_are_sentences(terminal, source):
    seen = terminal("import-langgraph", source, NO_COLOR="1").screen

    assert seen.splitlines() == [
        "threads      2 new",
        "checkpoints  6 imported",
        "writes       2 pending imported",
    ]
