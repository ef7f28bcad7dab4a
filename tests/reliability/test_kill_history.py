"""SIGKILL before every write of an operation on history: the history from before or from after, never a mix.

`every_change` is the program that is killed, and says what is looked at after each kill.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.reliability.every_change import OPERATIONS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_history_is_old_or_new_whatever_write_is_the_last(memory_folder, operation):
    done = subprocess.run(
        [sys.executable, "-m", "tests.reliability.every_change", str(memory_folder), operation],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    kills, new = map(int, done.stdout.split())
    # Otherwise nothing was shown: there were writes before the commit that counts, and writes after it.
    assert kills > 8
    assert 0 < new < kills
