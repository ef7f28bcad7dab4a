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


@pytest.mark.usefixtures("no_store_yet")
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


def spoil(source, thread, kind="pickle"):
    with closing(sqlite3.connect(source)) as connection, connection:
        connection.execute("UPDATE writes SET type = ? WHERE thread_id = ?", (kind, thread))


@pytest.fixture
def mixed(home):
    """Of four threads, one holds a pickle, and one has an id that no session can have."""
    write_threads(home / "mixed.sqlite", (" left", "a", "b", "c"))
    spoil(home / "mixed.sqlite", "b")
    return "mixed.sqlite"


def test_one_thread_that_cannot_be_imported_does_not_stop_the_others_if_told_so(run, mixed):
    result = run("import-langgraph", mixed, "--keep-going")

    assert result.exit_code == 1
    assert {name: fields(result)[name] for name in ("threads", "new", "failed")} == {
        "threads": "4",
        "new": "2",
        "failed": "2",
    }
    assert "not imported: ' left'" in result.stderr
    assert "--thread ' left=NEW'" in result.stderr
    assert "not imported: 'b'" in result.stderr
    assert "thread 'b', checkpoint" in result.stderr
    report = json.loads(run("import-langgraph", mixed, "--keep-going", "--json").stdout)
    problems = {each["id"]: each["problem"] and each["problem"]["code"] for each in report["threads"]}
    assert problems == {" left": "bad-name", "a": None, "b": "value-unsupported", "c": None}


def test_a_thread_can_be_given_another_id(run, home, mixed):
    result = run("import-langgraph", mixed, "--thread", " left=left", "--thread", "a=b=c", "--json")

    assert result.exit_code == 0, result.stderr
    found = [(each["id"], each["session"]) for each in json.loads(result.stdout)["threads"]]
    assert found == [(" left", "left"), ("a", "b=c")]
    with holdfast.open(place(home), create=False) as store:
        assert {each.id for each in store.sessions()} == {"b=c", "left"}
    again = json.loads(run("import-langgraph", mixed, "--thread", " left=left", "--json").stdout)
    assert [each["status"] for each in again["threads"]] == ["unchanged"]

    both = run("import-langgraph", mixed, "--thread", "a=x", "--thread", "c=x")
    assert both.exit_code == 2
    assert "would both become session 'x'" in both.stderr
    missing = run("import-langgraph", mixed, "--thread", "z=x")
    assert missing.exit_code == 4
    assert "there is no thread 'z'" in missing.stderr


def test_imported_checkpoints_have_the_times_at_which_they_were_made(run, home, source):
    with closing(sqlite3.connect(source)) as connection:
        (kind, data) = connection.execute(
            "SELECT type, checkpoint FROM checkpoints WHERE thread_id = '42' AND checkpoint_id = '2'"
        ).fetchone()
    assert kind == "msgpack"
    stamped = {**ormsgpack.unpackb(data, ext_hook=lambda *_: None), "ts": "2024-02-29T12:00:00+00:00"}
    stamped["channel_values"] = {}
    with closing(sqlite3.connect(source)) as connection, connection:
        for number in range(3):
            stamped["ts"] = f"2024-02-29T12:0{number}:00+00:00"
            connection.execute(
                "UPDATE checkpoints SET checkpoint = ? WHERE thread_id = '42' AND checkpoint_id = ?",
                (ormsgpack.packb(stamped), str(number)),
            )
    run("import-langgraph", source)

    listed = json.loads(run("list", "--session", "42", "--json").stdout)["checkpoints"]
    times = {each["key"]: each["created_at"] for each in listed}
    assert times["/ 0"].startswith("2024-02-29T12:00:00")
    assert times["/ 2"].startswith("2024-02-29T12:02:00")
    assert times["/ 2 task 000000"].startswith("2024-02-29T12:02:00")
    found = json.loads(
        run("at", "2024-02-29 12:01:30+00:00", "--session", "42", "--branch", "main", "--json").stdout
    )
    assert "/ 1" in json.dumps(found)
