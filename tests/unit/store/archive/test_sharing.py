"""Several writers of one file: threads, processes and Sessions, and a prune among them; every line gets there whole."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
import time

import pytest
from holdfast.store.archives import lines, locking

import holdfast
from holdfast import HoldfastWarning, Keep

WRITERS = 4
LINES = 5


def made(writer, number):
    return f"{writer:02}{number:062}"


@pytest.fixture
def slowly(monkeypatch):
    """A line is on its way for so long that everybody else gets to see half of it."""
    real = lines._write

    def write(stream, data):
        real(stream, data[: len(data) // 2])
        time.sleep(0.005)
        real(stream, data[len(data) // 2 :])

    monkeypatch.setattr(lines, "_write", write)


PROGRAM = """
import os, sys, threading, holdfast
store = holdfast.open(sys.argv[1], durability="process")
def work(branch):
    session = store.session("s", branch=branch, export_dir=sys.argv[2], export_format="jsonl")
    for step in range(3):
        session.save({"text": os.urandom(1_000_000).hex(), "step": step}, tags=["keep"])
threads = [threading.Thread(target=work, args=(branch,)) for branch in sys.argv[3:]]
for each in threads: each.start()
for each in threads: each.join()
"""


def test_processes_with_threads_and_a_prune_beside_them_lose_no_line(tmp_path):
    place, folder = tmp_path / "s.db", tmp_path / "out"
    with holdfast.open(place, durability="process") as store:
        session = store.session("s", export_dir=folder, export_format="jsonl")
        session.save({"first": 1})
        for name in "abcd":
            store.session("s").fork("#1", name)
        command = [sys.executable, "-W", "error", "-c", PROGRAM, str(place), str(folder)]
        others = [subprocess.Popen([*command, *names]) for names in ("ab", "cd")]
        step = 0
        while any(each.poll() is None for each in others):
            step += 1
            session.save({"step": step})
            session.prune(Keep(last=1, tags=["keep"], per="branch"), only=True)
            # The others need the store and a processor too: less often as it goes on, on a machine that is busy.
            time.sleep(min(0.01 * 1.05**step, 1))
        assert [each.wait(60) for each in others] == [0, 0]
        kept = {each.id for each in store.find(session="s")}
    [path] = folder.iterdir()
    found = [json.loads(each)["id"] for each in path.read_bytes().splitlines()]
    assert len(found) == len(set(found))
    assert len(kept) >= 12
    assert set(found) == kept


def test_a_lock_that_nobody_lets_go_is_an_error_in_the_end_and_a_save_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(locking, "_PATIENCE", 0.02)
    with holdfast.open("memory:") as store:
        session = store.session("s", export_dir=tmp_path, export_format="jsonl")
        session.save({"a": 1})
        [path] = tmp_path.iterdir()
        with open(locking._lock_file(path), "w") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            with pytest.warns(HoldfastWarning, match="another process has been writing"):
                session.save({"a": 2})
        assert session.load() == {"a": 2}
        assert len(path.read_text().splitlines()) == 1
        # What a process that died left of a lock is no lock.
        session.save({"a": 3})
        assert len(path.read_text().splitlines()) == 2
        assert list(tmp_path.iterdir()) == [path]
