"""Three ways to run the program: in this process, as a process of its own, and on a terminal.

`run` is fast and is what most tests use. `process` and `terminal` are real: an interpreter, pipes, a pty.

What uses `run` runs on SQLite and on PostgreSQL (places.py).
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.surfaces.cli.places import KINDS

from holdfast.cli import cli

PROGRAM = [sys.executable, "-m", "holdfast"]
END = b"\0the program has ended\0"

Run = Callable[..., Result]


@dataclass(frozen=True)
class Seen:
    """What a person saw and what the shell got."""

    exit_code: int
    screen: str
    stderr: str


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what runs in this process on every kind of store."""
    used = set(metafunc.fixturenames)
    said = any("kept_in" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if {"kept_in", "run"} <= used and not said and not used & {"process", "terminal", "talk"}:
        metafunc.parametrize("kept_in", getattr(metafunc.module, "KEPT_IN", KINDS), indirect=True)


@pytest.fixture
def kept_in(request: pytest.FixtureRequest) -> str:
    """The kind of store that commands use by themselves."""
    return getattr(request, "param", "sqlite")


@pytest.fixture
def no_store_yet() -> None:
    """For tests of what is there before a store is made; for others it is made already where that costs time."""


@pytest.fixture
def home(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_in: str
) -> Path:
    """An empty folder to work in, with nothing in the environment that changes how the program speaks."""
    for name in (
        "NO_COLOR",
        "FORCE_COLOR",
        "CLICOLOR_FORCE",
        "COLUMNS",
        "HOLDFAST_STORE",
        "HOLDFAST_SESSION",
        "HOLDFAST_PAGER",
        "HOLDFAST_COLOR",
        "HOLDFAST_TIME",
        "PAGER",
        "LESS",
        "XDG_CONFIG_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
    # Output that waits in a buffer is what people have, and what can fail when the process ends.
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    # A settings file of the person who runs the tests is none of theirs; and each test has its own.
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path.parent / f"{tmp_path.name}-settings"))
    monkeypatch.chdir(tmp_path)
    if kept_in == "postgres":
        place = "postgres_place" if "no_store_yet" in request.fixturenames else "postgres_store"
        monkeypatch.setenv("HOLDFAST_STORE", request.getfixturevalue(place))
    return tmp_path


@pytest.fixture
def run(home: Path) -> Run:
    """Run a command line in this process."""
    del home

    def call(*args: str, **options: Any) -> Result:
        return CliRunner().invoke(cli, list(args), **options)

    return call


@pytest.fixture
def process(home: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command line as a process of its own, with pipes."""

    def call(*args: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PROGRAM, *args],
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            cwd=home,
            env={**os.environ, **env},
        )

    return call


@pytest.fixture
def terminal(home: Path) -> Callable[..., Seen]:
    """Run a command line with a terminal of a given width on stdout; stderr is a pipe unless asked otherwise."""

    def call(*args: str, width: int = 80, both: bool = False, session: bool = False, **env: str) -> Seen:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        child = subprocess.Popen(
            [*PROGRAM, *args],
            stdin=subprocess.DEVNULL,
            stdout=slave,
            stderr=slave if both else subprocess.PIPE,
            start_new_session=session,
            cwd=home,
            # A pager would take over the terminal of the person who runs the tests.
            env={**os.environ, "HOLDFAST_PAGER": "cat", **env},
        )
        with ThreadPoolExecutor() as pool:
            said = pool.submit(until_it_ends, child, slave)
            screen = read_until(END, master)
            stderr = said.result()
        os.close(slave)
        os.close(master)
        return Seen(child.wait(), screen.decode().replace("\r\n", "\n"), stderr.decode())

    return call


def until_it_ends(child: subprocess.Popen[bytes], slave: int) -> bytes:
    """What a program says on stderr; once it has ended, the terminal gets a last word.

    The terminal stays open here until then: one whose last writer closes it may report its end to a
    reader that has not been given everything yet.
    """
    stderr = child.communicate()[1]
    os.write(slave, END)
    return stderr or b""


def read_until(end: bytes, master: int) -> bytes:
    """All that came to a terminal before `end`."""
    screen = b""
    while not screen.endswith(end):
        screen += os.read(master, 65536)
    return screen.removesuffix(end)


CTRL_C = b"\x03"


@pytest.fixture
def talk(home: Path) -> Callable[..., Seen]:
    """Run a program with nothing but a terminal, which it can ask: `answers` are typed once their prompt is there."""

    def call(command: list[str], *answers: tuple[str, str], **env: str) -> Seen:
        child, master = pty.fork()
        if child == 0:
            # Here and not by the parent: the program asks for it as soon as it runs.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
            os.chdir(home)
            os.execve(command[0], command, {**os.environ, **env})
        screen, waiting, said = b"", list(answers), b""
        with suppress(OSError):
            while True:
                if said == CTRL_C and not select.select([master], [], [], 5)[0]:
                    # Python does not notice one that comes right before it waits for an answer. A person presses again.
                    os.write(master, said)
                if not (part := os.read(master, 65536)):
                    break
                screen += part
                if waiting and waiting[0][0].encode() in screen:
                    said = waiting.pop(0)[1].encode()
                    os.write(master, said)
        os.close(master)
        status = os.waitpid(child, 0)[1]
        return Seen(os.waitstatus_to_exitcode(status), screen.decode().replace("\r\n", "\n"), "")

    return call
