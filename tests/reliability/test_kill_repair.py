"""SIGKILL at every write of a repair: the store is as it was, or repaired."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_repair_that_is_killed_at_any_write_has_taken_place_or_not(memory_folder):
    program = [sys.executable, "-m", "tests.reliability.every_repair", str(memory_folder)]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kills, repaired = map(int, done.stdout.split())
    # The new store is written, then the log, then the file: both sides of the one commit were tried.
    assert kills > 50
    assert 0 < repaired < kills
