"""Every exit code, and what is said beside it (C4, C7, C16)."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys

import apsw
import click
import pytest
from tests.surfaces.cli.conftest import PROGRAM
from tests.surfaces.cli.places import on_sqlite, place, zero_chunks

import holdfast
import holdfast.cli as holdfast_cli
from holdfast import errors
from holdfast.cli.app import COMMANDS, Entry, LazyGroup, cli
from holdfast.cli.errors import EXIT_CODES, describe, run_guarded
from holdfast.cli.invocation import Invocation
from holdfast.errors import ErrorCode, HoldfastError

CLASSES = [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, HoldfastError)]


def said(result):
    """The three lines of an error."""
    return dict(
        line.split(": ", 1)
        for line in result.stderr.splitlines()
        if line.split(":")[0] in ("error", "hint", "code")
    )


def test_0_is_done(run):
    assert run("create", "x").exit_code == 0


def test_2_is_a_command_line_that_cannot_be_used(run):
    result = run("create")

    assert result.exit_code == 2
    assert said(result) == {
        "error": "missing MESSAGE",
        "hint": "holdfast create --help shows how it is called",
        "code": "bad-argument",
    }


def test_no_command_shows_the_help_and_is_2(run):
    result = run()

    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Make a store" in result.stderr
    assert said(result)["error"] == "no command given"


@pytest.mark.parametrize("ref", ["#7", "tag:none", "@~9", "beef", "side"])
def test_4_is_a_ref_that_names_nothing(run, ref):
    run("create", "x")

    result = run("show", ref)

    assert result.exit_code == 4
    assert said(result)["hint"]


def test_5_is_a_conflict(run, home):
    (home / "state.json").write_text("[1]", encoding="utf-8")
    run("create", "x", "--key", "k")

    result = run("create", "x", "--key", "k", "--state", "state.json")
    rehearsed = run("create", "x", "--key", "k", "--state", "state.json", "--dry-run")

    assert result.exit_code == rehearsed.exit_code == 5
    assert said(result) == said(rehearsed)
    assert said(result)["code"] == "key-taken"


@pytest.mark.parametrize("size", [10, 60_000])
def test_8_is_output_that_cannot_be_written(run, home, size):
    run("create", "x" * size)

    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PROGRAM, "list"], stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=home
        )

    assert done.returncode == 8
    assert done.stderr.startswith("error: writing the output failed: No space left on device\n")
    assert "Exception ignored" not in done.stderr


def test_9_is_damage_and_the_record_can_still_be_read(run, home):
    run("create", "x", "--metadata", "a=b")
    zero_chunks(home)

    result = run("show")

    assert result.exit_code == 9
    assert result.stdout == ""
    assert said(result)["code"] in ("chunk-damaged", "store-damaged")
    assert run("show", "--record").exit_code == 0


@pytest.mark.parametrize(
    "command",
    [
        *(
            "list",
            "show",
            "tree",
            "watch --timeout 0",
            "gc",
            "forget @",
            "verify",
            "repair",
            "backup copy.db",
        ),
        *(
            "bisect x",
            "blame x",
            "history x",
            "grep x",
            "nb board",
            "brief",
            "copy nowhere.db copy.db",
        ),
    ],
)
@pytest.mark.usefixtures("no_store_yet")
def test_10_is_no_store_and_none_is_made(run, home, command):
    for where in ([], ["--store", "missing"], ["--store", "missing.db"]):
        if where and command.startswith("copy"):
            continue
        result = run(*command.split(), *where)
        assert result.exit_code == 10
        assert said(result)["hint"]
        assert said(result)["code"] == "store-missing"
    assert list(home.iterdir()) == []


@on_sqlite
def test_11_is_a_locked_store(run, home, monkeypatch):
    run("create", "x")
    # The same call with less patience: ten seconds of waiting would show nothing more.
    monkeypatch.setattr(holdfast, "open", functools.partial(holdfast.open, timeout=0.05))
    database = apsw.Connection(str(home / ".holdfast" / "store.db"))
    database.execute("BEGIN EXCLUSIVE")

    result = run("create", "y")

    database.execute("ROLLBACK")
    database.close()
    assert result.exit_code == 11
    assert said(result)["code"] == "store-locked"
    assert run("create", "y").exit_code == 0


def test_70_is_a_bug_whose_traceback_is_shown_only_on_request(run, monkeypatch, tmp_path):
    (tmp_path / "broken_command.py").write_text(
        "import click\n@click.command()\ndef command():\n    raise KeyError('oops')\n", encoding="utf-8"
    )
    monkeypatch.setattr("holdfast.cli.__path__", [*holdfast_cli.__path__, str(tmp_path)])
    group = LazyGroup("holdfast", table={"broken": Entry("broken_command:command", "x", "x")})
    from click.testing import CliRunner

    quiet = CliRunner().invoke(group, ["broken"])
    loud = CliRunner().invoke(group, ["broken"], env={"HOLDFAST_DEBUG": "1"})
    data = CliRunner().invoke(group, ["--json", "broken"])

    assert quiet.exit_code == loud.exit_code == data.exit_code == 70
    assert said(quiet)["error"] == "KeyError: 'oops' (broken_command.py:4)"
    assert "HOLDFAST_DEBUG=1" in said(quiet)["hint"]
    assert "Traceback" not in quiet.stderr
    assert "Traceback" in loud.stderr
    assert json.loads(data.stderr)["error"]["code"] == "internal"


def test_130_is_an_interrupt(home):
    child = subprocess.Popen(
        [*PROGRAM, "create", "x", "--state", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=home,
        text=True,
    )
    # It is reading its input, and so past its start, once it has taken more than a pipe holds.
    assert child.stdin is not None
    child.stdin.write("[" + " " * 200_000)
    child.stdin.flush()
    child.send_signal(signal.SIGINT)
    stdout, stderr = child.communicate()

    assert child.returncode == 130
    assert stdout == ""
    assert stderr == "error: interrupted\ncode: interrupted\n"
    assert list(home.iterdir()) == []


def test_143_is_an_end_by_sigterm_after_a_last_checkpoint(home):
    with subprocess.Popen(
        [*PROGRAM, "heartbeat"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=home, text=True
    ) as child:
        assert child.stdout is not None
        # It is awake, and so past the point from which on signals wait for a checkpoint.
        assert child.stdout.readline().startswith("woke:")
        child.send_signal(signal.SIGTERM)
        child.communicate()

    assert child.returncode == 143
    with holdfast.open(place(home)) as store:
        assert store.session("heartbeat").checkpoint().status == "interrupted"


def test_20_is_a_danger_that_nobody_confirmed(capsys):
    def action() -> None:
        Invocation().confirm("everything will be removed", yes=False)

    code = run_guarded(Invocation(), action)

    assert code == 20
    assert capsys.readouterr().err == (
        "error: everything will be removed, and nobody is there to be asked\n"
        "hint: --yes does it without asking\n"
        "code: needs-confirmation\n"
    )


@pytest.mark.parametrize("size", [10, 60_000])
def test_141_is_a_reader_that_went_away_and_is_quiet(run, home, size):
    for _ in range(4):
        run("create", "x" * size)
    read, write = os.pipe()
    os.close(read)

    done = subprocess.run([*PROGRAM, "list"], stdout=write, stderr=subprocess.PIPE, cwd=home, check=False)

    os.close(write)
    assert done.returncode == 141
    assert done.stderr == b""


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_class_has_an_exit_code_that_is_documented(cls, capsys):
    def action() -> int:
        raise cls("it failed", code=ErrorCode.BAD_ARGUMENT, hint="do this")

    code = run_guarded(Invocation(), action)

    assert code == cls("x", code=ErrorCode.BAD_ARGUMENT, hint="x").exit_code
    assert code in EXIT_CODES
    assert capsys.readouterr().err == "error: it failed\nhint: do this\ncode: bad-argument\n"


@pytest.mark.parametrize(
    "code", [ErrorCode.STORE_MISSING, ErrorCode.STORE_LOCKED, ErrorCode.NEEDS_CONFIRMATION]
)
def test_codes_with_an_exit_code_of_their_own_are_documented(code):
    assert describe(HoldfastError("x", code=code, hint="x"))["exit"] in EXIT_CODES


# The demo with a mistake that nobody can find: the edit that makes it is gone.
DEMO = """
from holdfast.cli import main
from holdfast.cli.demo import runner

runner._EDITS = (*runner._EDITS[:1], ("Round the figures", "rounded", {}), *runner._EDITS[2:])
main()
"""


def test_1_is_a_demo_that_went_wrong(home):
    program = [sys.executable, "-c", DEMO, "demo", "--json"]
    done = subprocess.run(program, capture_output=True, cwd=home, text=True, check=False)

    assert done.returncode == 1
    assert "never-holds" in done.stderr


def test_every_exit_code_has_a_test_here():
    with open(__file__, encoding="utf-8") as source:
        text = source.read()

    shown_by_class = {6, 7}
    for code in EXIT_CODES.keys() - shown_by_class:
        assert f"def test_{code}_is_" in text, code


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_show_usage_errors_in_their_own_name(run, name):
    result = run(*name.split(), "--no-option-is-called-this")

    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert result.exit_code == 2
    assert said(result)["hint"].partition("; ")[0] == f"holdfast {name} --help shows how it is called"


@pytest.mark.parametrize("closed", ["1>&-", "2>&-", "1>&- 2>&-"])
def test_a_program_without_stdout_or_stderr_does_its_work(home, closed):
    command = f'"{sys.executable}" -m holdfast create x {closed}'

    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False, cwd=home)

    assert done.returncode == 0, done.stderr
    with holdfast.open(place(home)) as store:
        assert store.session().checkpoint().message == "x"
