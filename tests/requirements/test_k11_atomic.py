"""K11: writes are atomic. SIGKILL at every write of a save leaves no half-written or empty checkpoint."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.requirement("K11")
@pytest.mark.parametrize("existing", [0, 3], ids=["the first save", "a later save"])
def test_a_save_that_is_killed_at_any_write_leaves_no_half_checkpoint(existing, memory_folder):
    """The program saves in a process that is killed before its first write, its second ..., and reads all back."""
    program = [sys.executable, "-m", "tests.reliability.every_write", str(memory_folder), str(existing)]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # A save of a few pages writes its log page by page, syncs it, and moves it into the file when it closes.
    assert int(done.stdout) > 15
