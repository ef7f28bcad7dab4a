"""The power goes at any moment: "power" loses no save that returned, "process" at most the newest; neither corrupts."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import ormsgpack
import pytest
from tests.reliability.powercut import MODES, Disk
from tests.reliability.recording import ROUNDS, SAVES
from tests.reliability.witness import SESSION, check_store

import holdfast

ROOT = Path(__file__).resolve().parents[2]
CUTS = 200


@pytest.fixture(scope="module", params=["power", "process"])
def recorded(request, tmp_path_factory):
    """The durability, and the events of a program that saved with it."""
    folder = tmp_path_factory.mktemp("recording")
    program = [sys.executable, "-m", "tests.reliability.recording"]
    arguments = [str(folder / "store.db"), request.param, "5", str(folder / "events")]
    done = subprocess.run([*program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return request.param, ormsgpack.unpackb((folder / "events").read_bytes())


def test_the_recording_is_the_whole_truth(recorded, tmp_path):
    """With every write carried out, the copy that is made of the events is the store."""
    _, events = recorded
    disk = Disk()
    for event in events:
        disk.happen(*event)
    assert len(disk.acknowledged) == ROUNDS * SAVES
    disk.after("everything", random.Random(0), tmp_path)
    assert check_store(tmp_path / "store.db", disk.acknowledged) == disk.acknowledged


def test_a_power_cut_at_any_moment_leaves_a_sound_store(recorded, memory_folder):
    durability, events = recorded
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    source = random.Random(seed)
    # A store that is still being made is another matter: see the next test.
    first = next(at for at, event in enumerate(events) if event[0] == "ack")
    cuts = sorted(source.randrange(first, len(events)) for _ in range(CUTS))
    disk, at, lost = Disk(), 0, 0
    for cut in cuts:
        for event in events[at : cut + 1]:
            disk.happen(*event)
        at = cut + 1
        lost += check_after(
            disk, durability, MODES[source.randrange(len(MODES))], source, memory_folder / "after"
        )
    # If nothing was ever lost with "process" either, the cuts cut nothing.
    assert (lost > 0) == (durability == "process")


def check_after(disk, durability, mode, source, folder):
    """Cut the power here; the number of acknowledged saves that are gone, all of them the newest."""
    folder.mkdir()
    disk.after(mode, source, folder)
    there = check_store(folder / "store.db", disk.acknowledged if durability == "power" else [])
    kept = [each for each in there if each in set(disk.acknowledged)]
    assert disk.acknowledged[: len(kept)] == kept, f"a save is gone from the middle ({mode})"
    with holdfast.open(folder, durability="process") as store:
        store.session(SESSION).save("life goes on")
    shutil.rmtree(folder)
    return len(disk.acknowledged) - len(kept)


def test_a_power_cut_while_a_store_is_made_leaves_none_or_an_empty_one(recorded, memory_folder):
    _, events = recorded
    source = random.Random(1)
    disk, folder = Disk(), memory_folder / "after"
    first = next(at for at, event in enumerate(events) if event[0] == "ack")
    for event in events[:first]:
        disk.happen(*event)
        for mode in MODES:
            folder.mkdir()
            disk.after(mode, source, folder)
            with holdfast.open(folder, durability="process") as store:
                session = store.session(SESSION)
                assert len(session.log()) <= 1
                session.save("life goes on")
                assert session.load() == "life goes on"
            shutil.rmtree(folder)
