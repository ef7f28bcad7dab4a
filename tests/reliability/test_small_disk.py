"""A disk that fills up: a clear error, everything can still be read, and with some room saving goes on.

The disk is a small tmpfs in a mount namespace of its own, so nothing else sees it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import json, os, sys
from pathlib import Path

import holdfast
from tests.reliability.witness import SESSION, check_store, save_step, state_of

disk = Path(sys.argv[1])
ballast = disk / "ballast"
ballast.write_bytes(bytes(300_000))
saved, error = [], None
with holdfast.open(disk / "store.db") as store:
    session = store.session(SESSION)
    while error is None and len(saved) < 1000:
        try:
            saved.append(save_step(session, 13, len(saved) + 1).id)
        except holdfast.HoldfastError as caught:
            error = caught
    assert error is not None, "the disk never filled up"
    # The same store, still open, on a disk without room: reading, listing and searching work.
    log = session.log()
    assert [each.id for each in reversed(log)] == saved
    for checkpoint in log:
        assert session.load(checkpoint) == state_of(13, checkpoint.step)
    assert [each.id for each in store.find(session=SESSION)] == saved[::-1]
    assert [each.saves for each in store.sessions()] == [len(saved)]
    # A second attempt without room fails in the same way, and harms nothing.
    try:
        session.save({"noise": os.urandom(200_000)})
        second = None
    except holdfast.HoldfastError as caught:
        second = str(caught.code)
    ballast.unlink()
    saved.append(save_step(session, 13, len(saved) + 1).id)
there = check_store(disk / "store.db", saved)
told = {"code": str(error.code), "hint": error.hint, "second": second, "saved": len(saved), "there": len(there)}
print(json.dumps(told))
"""


@pytest.mark.parametrize("kilobytes", [1000, 2000])
def test_a_full_disk_is_an_error_that_says_so_and_passes(kilobytes, tmp_path, require):
    require("unshare")
    mount = f'mount -t tmpfs -o size={kilobytes}k tmpfs "$0" && exec "$@"'
    done = subprocess.run(
        [
            *("unshare", "--map-root-user", "--mount", "sh", "-c", mount, str(tmp_path)),
            *(sys.executable, "-c", PROGRAM, str(tmp_path)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["code"], told["second"]) == ("disk-full", "disk-full")
    assert "room" in told["hint"]
    assert told["there"] == told["saved"] > 2
