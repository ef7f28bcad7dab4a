"""One wrong bit in the write-ahead log of a store whose processes are gone: older, or an error, and never a mix.

SQLite ends the log where its own checksums do not fit. The store is then as it was after an earlier commit, whole. That
commits are missing is seen by `verify`, as long as they are still in the file. Only of the newest one nobody can say: a
commit that was cut off while it was written looks the same.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

import holdfast

FLIPS = 20
SAVES = 12
HEADER = 32
FRAME = 24 + 4096


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """A file, the log that belongs to it with a save in each commit, and where each of them ends."""
    path = tmp_path_factory.mktemp("logged") / "store.db"
    source = random.Random(7)
    with holdfast.open(path, durability="process") as store:
        store.session("s").save({"n": -1}, step=-1)
    store = holdfast.open(path, durability="process")
    session, log, ends = store.session("s"), Path(f"{path}-wal"), []
    try:
        for n in range(SAVES):
            session.save({"n": n, "noise": source.randbytes(source.choice([5, 900, 5000]))}, step=n)
            ends.append(used(log.read_bytes()))
        return path.read_bytes(), log.read_bytes()[: ends[-1]], ends
    finally:
        store.close()


def used(log):
    """Where the last commit of a log ends."""
    salt = log[16:24]
    frames = range(HEADER, len(log) - FRAME + 1, FRAME)
    return (
        max(at for at in frames if log[at + 8 : at + 16] == salt and log[at + 4 : at + 8] != bytes(4)) + FRAME
    )


def put(folder, content, log):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = folder / "store.db"
    path.write_bytes(content)
    Path(f"{path}-wal").write_bytes(log)
    return path


def steps(store):
    """What there is, newest first, each with its state read and right."""
    session = store.session("s")
    found = session.log()
    assert [session.load(each)["n"] for each in found] == [each.step for each in found]
    return [each.step for each in found]


def through(last):
    return list(range(last, -2, -1))


def test_a_sound_log_is_all_there(logged, tmp_path):
    content, log, ends = logged
    assert len(set(ends)) == SAVES
    with holdfast.open(put(tmp_path / "victim", content, log)) as store:
        assert steps(store) == through(SAVES - 1)
        assert store.verify().ok


def test_a_flipped_bit_leaves_an_earlier_moment_and_verify_says_so(logged, memory_folder):
    content, log, ends = logged
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    source = random.Random(seed)
    outcomes: Counter[str] = Counter()
    for n in range(FLIPS):
        # Some in the header, which is small and counts most.
        bit = source.randrange(HEADER * 8 if n % 6 == 0 else len(log) * 8)
        spoiled = bytearray(log)
        spoiled[bit // 8] ^= 1 << (bit % 8)
        where = f"bit {bit % 8} of byte {bit // 8}"
        # Of the commit with the wrong bit, and of those after it, nothing is left.
        left = 0 if bit // 8 < HEADER else sum(end <= bit // 8 for end in ends)
        with holdfast.open(put(memory_folder / "victim", content, spoiled)) as store:
            assert steps(store) == through(left - 1), where
            report = store.verify()
        lost = SAVES - left
        # What marks the end of a commit may be what was hit: then two count as one, or one as two.
        of_frame = bit // 8 >= HEADER and (bit // 8 - HEADER) % FRAME < FRAME - 4096
        if lost > 1 + of_frame:
            assert not report.ok, f"{where}: {lost} saves are gone, and nobody said so"
            (problem,) = report.problems
            assert "write-ahead log" in problem.what
            assert of_frame or f"{lost} commits" in problem.why, where
        elif not of_frame:
            assert report.ok, where
        outcomes["said" if lost > 1 else "the newest alone"] += 1
    print(dict(outcomes))
    assert outcomes["said"] > FLIPS // 2


def test_what_a_repair_writes_over_is_kept_beside_the_store(logged, tmp_path):
    content, log, ends = logged
    spoiled = bytearray(log)
    spoiled[ends[3] + 100] ^= 1
    path = put(tmp_path / "victim", content, spoiled)
    with holdfast.open(path) as store:
        report = store.repair()
        assert report.kept == 5
        assert report.kept_aside is not None
        assert Path(f"{report.kept_aside}-wal").read_bytes()[: len(spoiled)] == spoiled
        assert store.verify().ok
        assert steps(store) == through(3)
        store.session("s").save({"n": 4}, step=4)
    with holdfast.open(path) as store:
        assert steps(store) == through(4)
        assert store.verify().ok


def test_a_save_after_the_damage_goes_on_from_what_is_left(logged, tmp_path):
    content, log, ends = logged
    spoiled = bytearray(log)
    spoiled[ends[3] + 100] ^= 1
    with holdfast.open(put(tmp_path / "victim", content, spoiled)) as store:
        store.session("s").save({"n": 4}, step=4)
        # What is left of the others lies behind it.
        assert not store.verify().ok
    with holdfast.open(tmp_path / "victim" / "store.db") as store:
        # The last to close moved the log into the file, and what was behind the damage is gone.
        assert steps(store) == through(4)
        assert store.verify().ok


@pytest.mark.parametrize("cut", [1, 24, 2000, 4095])
def test_a_log_that_ends_in_the_middle_of_a_commit_is_not_called_damaged(logged, tmp_path, cut):
    """As a process leaves it that is killed while it writes."""
    content, log, _ = logged
    with holdfast.open(put(tmp_path / "victim", content, log[:-cut])) as store:
        assert steps(store) == through(SAVES - 2)
        assert store.verify().ok


def test_what_an_earlier_log_left_behind_is_not_called_damage(tmp_path):
    """A log is begun anew over the one before, and the rest of that one stays in the file."""
    path = tmp_path / "store.db"
    with holdfast.open(path, durability="process") as store:
        session = store.session("s")
        for n in range(400):
            session.save({"n": n, "noise": os.urandom(9000)}, step=n)
        assert store.verify(quick=True).ok
