"""What the program imports before it does anything: only what the command needs."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

KEPT_IN = ["sqlite"]

HEAVY = {
    "asyncio",
    "anyio",
    "pydantic",
    "rich",
    "jinja2",
    "hypothesis",
    "attr",
    "difflib",
    "importlib.metadata",
    "unittest",
}

HOT = [
    ["--version"],
    ["--help"],
    ["list"],
    ["show", "--json"],
    ["create", "x"],
    ["at", "now"],
    ["undo", "--list"],
]


def imported(args, cwd):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "holdfast", *args],
        capture_output=True,
        text=True,
        check=True,
        cwd=cwd,
    )
    return set(re.findall(r"^import time: .*\| +(\S+)$", done.stderr, re.MULTILINE))


@pytest.mark.parametrize("args", HOT, ids=" ".join)
def test_a_hot_command_imports_nothing_heavy(run, home, args):
    run("create", "one")

    modules = imported(args, home)

    assert "holdfast.cli" in modules
    assert {name for name in modules if name.split(".")[0] in HEAVY or name in HEAVY} == set()
