"""Three ways to run the program: in this process, as a process of its own, and on a terminal.

`run` is fast and is what most tests use. `process` and `terminal` are real: an interpreter, pipes, a pty.
"""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from holdfast.cli import cli

PROGRAM = [sys.executable, "-m", "holdfast"]

Run = Callable[..., Result]


@dataclass(frozen=True)
class Seen:
    """What a person saw and what the shell got."""

    exit_code: int
    screen: str
    stderr: str


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with nothing in the environment that changes how the program speaks."""
    for name in (
        "NO_COLOR",
        "FORCE_COLOR",
        "CLICOLOR_FORCE",
        "COLUMNS",
        "HOLDFAST_STORE",
        "HOLDFAST_SESSION",
    ):
        monkeypatch.delenv(name, raising=False)
    # Output that waits in a buffer is what people have, and what can fail when the process ends.
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.chdir(tmp_path)
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

    def call(*args: str, width: int = 80, both: bool = False, **env: str) -> Seen:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        child = subprocess.Popen(
            [*PROGRAM, *args],
            stdin=subprocess.DEVNULL,
            stdout=slave,
            stderr=slave if both else subprocess.PIPE,
            cwd=home,
            env={**os.environ, **env},
        )
        os.close(slave)
        screen = b""
        with suppress(OSError):  # Linux reports the end of a pty as EIO
            while part := os.read(master, 65536):
                screen += part
        os.close(master)
        stderr = b"" if child.stderr is None else child.stderr.read()
        if child.stderr is not None:
            child.stderr.close()
        return Seen(child.wait(), screen.decode().replace("\r\n", "\n"), stderr.decode())

    return call
