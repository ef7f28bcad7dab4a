"""A full disk and a failing disk at every write of one save: a typed error, nothing lost, and the next save works."""

from __future__ import annotations

import json
import shutil
from functools import partial

import pytest
from tests.reliability.tracing import count_calls, fail_at
from tests.reliability.witness import SESSION, check_store, in_new_process, save_step

import holdfast

SEED = 61
PARTS = 3
"""The writes are divided among so many tests, which can run at the same time."""
# Opening, saving and closing may each fail, with an error of ours and no other; then the same program goes on.
SAVE = """
import json, sys
import holdfast
from tests.reliability.witness import SESSION, save_step

story = {"saved": [], "errors": []}

def attempt(call):
    try:
        return call()
    except holdfast.HoldfastError as error:
        story["errors"].append([type(error).__name__, error.code])

def save(step):
    saved = attempt(lambda: save_step(store.session(SESSION), 61, step))
    if saved is not None:
        story["saved"].append(saved.id)

store = attempt(lambda: holdfast.open(sys.argv[1])) or attempt(lambda: holdfast.open(sys.argv[1]))
if store is not None:
    save(4)
    save(5)
    attempt(store.close)
print(json.dumps(story))
"""
WRITES = ("pwrite64", "fdatasync", "ftruncate")
CODES = {"ENOSPC": {"disk-full", "io-failed"}, "EIO": {"io-failed"}}


@pytest.fixture
def master(memory_folder):
    with holdfast.open(memory_folder / "master") as store:
        kept = [save_step(store.session(SESSION), SEED, step).id for step in range(1, 4)]
    return memory_folder / "master", kept


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_one_write_that_fails_costs_at_most_that_save(error, part, master, memory_folder, require):
    require("strace")
    source, kept = master
    path = memory_folder / "victim"
    shutil.copytree(source, path)
    calls = count_calls(SAVE, str(path), log=memory_folder / "calls", names=WRITES)
    assert calls["pwrite64"] > 10
    assert calls["fdatasync"] >= 2
    codes = set()
    for name, count in calls.items():
        for number in range(1 + part, count + 1, PARTS):
            shutil.rmtree(path)
            shutil.copytree(source, path)
            done = fail_at(name, str(number), error, SAVE, str(path))
            assert done.code == 0, (name, number, done.complained)
            story = json.loads(done.said)
            codes |= {code for _, code in story["errors"]}
            # One call fails once: of two saves it can spoil one, and the other must go through.
            assert story["saved"], (name, number, story)
            in_new_process(partial(check, path / "store.db", kept, story["saved"]))
    assert codes, "no failure was noticed at all"
    assert codes <= CODES[error]


def check(path, kept, saved):
    there = check_store(path, [*kept, *saved])
    assert there[:3] == kept
    # A save that ended in an error is there as a whole or not at all; check_store has looked into each.
    assert len(there) <= 5


@pytest.mark.parametrize("error", ["ENOSPC", "EIO"])
def test_a_disk_that_fails_from_some_write_on_loses_nothing(error, master, memory_folder, require):
    require("strace")
    source, kept = master
    path = memory_folder / "victim"
    for name, number in [
        ("pwrite64", 1),
        ("pwrite64", 9),
        ("pwrite64", 15),
        ("fdatasync", 1),
        ("fdatasync", 3),
    ]:
        shutil.copytree(source, path)
        done = fail_at(name, f"{number}+", error, SAVE, str(path))
        assert done.code == 0, (name, number, done.complained)
        story = json.loads(done.said)
        assert story["errors"]
        assert {code for _, code in story["errors"]} <= CODES[error]
        # The disk is well again: this process has no fault.
        in_new_process(partial(go_on, path / "store.db", kept, story["saved"]))
        shutil.rmtree(path)


def go_on(path, kept, saved):
    there = check_store(path, [*kept, *saved])
    with holdfast.open(path) as store:
        newest = save_step(store.session(SESSION), SEED, 6)
    assert check_store(path, [*there, newest.id])[-1] == newest.id
