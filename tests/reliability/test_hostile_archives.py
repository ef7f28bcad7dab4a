"""Hundreds of hostile archives, each refused for its own reason, with bounded memory and nothing written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_hostile_archive_is_refused_under_a_limit_of_memory(memory_folder):
    program = [sys.executable, "-m", "tests.reliability.hostile_archives", str(memory_folder)]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["wrong"] == []
    assert told["files"] >= 300
    assert len(told["reasons"]) >= 20
