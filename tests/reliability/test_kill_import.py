"""SIGKILL at every write of an import: each session is there whole or not at all, and the same import finishes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_an_import_that_is_killed_at_any_write_has_brought_all_of_a_session_or_nothing(memory_folder):
    program = [sys.executable, "-m", "tests.reliability.every_import", str(memory_folder)]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kills, as_it_was, finished = map(int, done.stdout.split())
    # The rows of both, and the parts that go ahead of them, are several writes each; and one may be there alone.
    assert as_it_was > 10
    assert kills > as_it_was + finished
