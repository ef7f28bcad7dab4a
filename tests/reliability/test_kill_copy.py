"""SIGKILL at every write of a copy: the target is in order, and the same copy finishes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MEMORY = Path("/dev/shm")


def test_a_copy_that_is_killed_at_any_write_leaves_a_store_in_order_and_can_be_finished(tmp_path):
    with tempfile.TemporaryDirectory(
        prefix="holdfast-", dir=MEMORY if MEMORY.is_dir() else tmp_path
    ) as folder:
        program = [sys.executable, "-m", "tests.reliability.every_copy", folder]
        done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kills, as_it_was, between, finished = map(int, done.stdout.split())
    assert kills == as_it_was + between + finished
    assert as_it_was > 0
    # Most of them: there are more than ten batches, and each is several writes.
    assert between > 50
