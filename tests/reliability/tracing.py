"""Programs run under strace, to end or fail them at one exact system call.

strace counts the calls of each name from the start of the process, so a sweep first counts them in a run that nobody
disturbs, and then runs the program once per call.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

WRITES = ("pwrite64", "write", "fsync", "fdatasync", "ftruncate", "unlink", "rename")
# A filter in the kernel: the program stops only at the calls that are asked for, not at each of thousands.
_FILTER = ("--seccomp-bpf",)
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Run:
    """How a program ended, and what it said before."""

    code: int
    said: str
    complained: str


def run(program: str, *arguments: str, strace: tuple[str, ...] = ()) -> Run:
    """Run a Python program, with strace around it if there is anything for it to do."""
    tracing = ["strace", "-f", "-qq", *strace] if strace else []
    command = [*tracing, sys.executable, "-W", "error", "-c", program, *arguments]
    # Bytecode that Python writes when it is first imported must not be counted among the writes.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    return Run(done.returncode, done.stdout, done.stderr)


def count_calls(program: str, *arguments: str, log: Path, names: tuple[str, ...] = WRITES) -> Counter[str]:
    """How often an undisturbed run makes each of these calls."""
    done = run(program, *arguments, strace=(*_FILTER, "-o", str(log), "-e", f"trace={','.join(names)}"))
    assert done.code == 0, done.complained
    return Counter(re.findall(r"^\d+\s+(\w+)\(", log.read_text(), re.MULTILINE))


def kill_at(name: str, number: int, program: str, *arguments: str) -> Run:
    """Run it, and end it with SIGKILL as it makes that call, which is not carried out any more."""
    # Without the filter: strace sends no signal from it.
    return _disturb((), name, f"signal=KILL:when={number}", program, *arguments)


def fail_at(name: str, number: str, error: str, program: str, *arguments: str) -> Run:
    """Run it, and let that call fail; `3` is the third one, `3+` all from the third one on."""
    return _disturb(_FILTER, name, f"error={error}:when={number}", program, *arguments)


def _disturb(options: tuple[str, ...], name: str, how: str, program: str, *arguments: str) -> Run:
    injected = ("-o", "/dev/null", "-e", f"trace={name}", "-e", f"inject={name}:{how}")
    return run(program, *arguments, strace=(*options, *injected))
