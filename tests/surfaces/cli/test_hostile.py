"""Text out of a store cannot take over a terminal, break a line, or fake a row."""

from __future__ import annotations

import json

import pytest
from tests.surfaces.cli.places import place

import holdfast

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\nid\t1\tfake\u202egnp.exe\u2028\x08"


@pytest.fixture
def session(home):
    with holdfast.open(place(home)) as store:
        session = store.session()
        session.save({"k\x1b[31m": EVIL, "raw": EVIL.encode(), "lone": "\ud800"}, EVIL, metadata={"x": EVIL})
        yield session


def dangerous(text: str) -> set[str]:
    return {char for char in text if char not in "\n\t" and (not char.isprintable())}


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(
    "args", [["list"], ["show"], ["show", "--full"], ["list", "--json"], ["show", "--json"]]
)
def test_no_control_character_reaches_a_terminal(terminal, args):
    seen = terminal(*args, "--color", "never", both=True)

    assert seen.exit_code == 0
    assert dangerous(seen.screen) == set()
    assert "owned" in seen.screen


@pytest.mark.usefixtures("session")
def test_a_message_cannot_break_or_fake_a_row(run):
    lines = run("list").stdout.splitlines()

    assert len(lines) == 1
    assert len(lines[0].split("\t")) == 12
    assert lines[0].split("\t")[9].encode("latin-1", "backslashreplace").decode("unicode_escape") == EVIL


@pytest.mark.usefixtures("session")
def test_json_has_the_text_as_it_was(run):
    document = json.loads(run("show", "--json").stdout)

    assert document["checkpoint"]["message"] == EVIL
    assert document["state"]["k\x1b[31m"] == EVIL
    assert document["state"]["lone"] == {"$type": "str", "$value": "\\ud800"}
    assert document["checkpoint"]["metadata"] == {"x": EVIL}


@pytest.mark.parametrize(
    "args", [["list", "--session", EVIL], ["show", EVIL], [EVIL], ["list", "--since", EVIL]]
)
@pytest.mark.usefixtures("session")
def test_an_error_about_hostile_text_is_harmless(terminal, args):
    seen = terminal("--color", "never", *args, both=True)

    assert seen.exit_code in (2, 4)
    assert dangerous(seen.screen) == set()


def test_arguments_that_are_not_unicode_end_in_an_error_not_a_crash(process):
    import os
    import subprocess
    import sys

    process("create", "one")
    for args in (
        [b"list", b"--tag", b"\xff"],
        [b"create", b"\xff"],
        [b"show", b"\xff"],
        [b"list", b"--session", b"\xff"],
    ):
        done = subprocess.run(
            [os.fsencode(sys.executable), b"-m", b"holdfast", *args], capture_output=True, check=False
        )
        assert done.returncode in (2, 4), done.stderr
        assert b"Traceback" not in done.stderr
        done.stderr.decode("utf-8")
