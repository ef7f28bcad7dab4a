"""Several writers of one file: threads, processes and Sessions, and a prune among them; every line gets there whole."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

import holdfast
from holdfast import BackendError, HoldfastWarning, Keep
from holdfast.store.archives import keeping, lines, locking
from holdfast.store.archives.lines import JsonLines, id_in_line
from holdfast.store.archives.locking import locked

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


def test_threads_that_add_and_cut_lines_lose_none(tmp_path, slowly):
    path = tmp_path / "x.jsonl"
    short_lived: list[str] = []

    def write(writer):
        for number in range(LINES):
            JsonLines(path).add(['{"added_metadata": null, "id": "', made(writer, number), '"}\n'])

    def cut():
        for number in range(2 * LINES):
            short_lived.append(made(99, number))
            JsonLines(path).add(['{"added_metadata": null, "id": "', short_lived[-1], '"}\n'])
            JsonLines(path).cut(short_lived)

    with ThreadPoolExecutor(WRITERS + 1) as pool:
        for done in [pool.submit(cut), *(pool.submit(write, each) for each in range(WRITERS))]:
            done.result()
    found = sorted(id_in_line(each) for each in path.read_bytes().splitlines())
    assert found == sorted(made(writer, number) for writer in range(WRITERS) for number in range(LINES))
    assert [each.name for each in tmp_path.iterdir()] == ["x.jsonl"]


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
            session.prune(Keep(last=1, tags=["keep"], per="branch"))
            # The others need the store and a processor too: less often as it goes on, on a machine that is busy.
            time.sleep(min(0.01 * 1.05**step, 1))
        assert [each.wait(60) for each in others] == [0, 0]
        kept = {each.id for each in store.find(session="s")}
    [path] = folder.iterdir()
    found = [json.loads(each)["id"] for each in path.read_bytes().splitlines()]
    assert len(found) == len(set(found))
    assert len(kept) >= 12
    assert set(found) == kept


def test_a_checkpoint_that_goes_before_its_file_is_there_leaves_none(tmp_path, monkeypatch):
    with holdfast.open("memory:") as store:
        store.session("s").save({"a": 0})
        for kind in ("json", "jsonl"):
            session = store.session("s", export_dir=tmp_path / kind, export_format=kind)
            for name in ("append_new", "export_to_folder"):
                real = getattr(keeping, name)

                def late(place, rows, *rest, real=real, **more):
                    store.session("s").delete("@")
                    return real(place, rows, *rest, **more)

                with monkeypatch.context() as patch:
                    patch.setattr(keeping, name, late)
                    if (name == "append_new") == (kind == "jsonl"):
                        session.save({"a": kind})
            assert list((tmp_path / kind).iterdir()) == []


@pytest.mark.parametrize("kind", ["json", "jsonl"])
def test_what_is_saved_while_a_session_is_forgotten_keeps_its_file(tmp_path, monkeypatch, kind):
    with holdfast.open("memory:") as store:
        session = store.session("s", export_dir=tmp_path, export_format=kind)
        session.save({"a": 1})
        real = keeping._there
        came: list[holdfast.Checkpoint] = []

        def there(place):
            if not came:
                # Between a look at the files and one at the store; or the other way round, were it so.
                came.append(store.session("s", export_dir=tmp_path, export_format=kind).save({"new": 1}))
            return real(place)

        def stale(place):
            found = real(place)
            came.append(store.session("s", export_dir=tmp_path, export_format=kind).save({"new": 2}))
            return found

        for hook in (there, stale):
            monkeypatch.setattr(keeping, "_there", hook)
            store.forget("s")
            [path] = tmp_path.iterdir()
            assert came[-1].id in path.read_text()
            came.clear()


def test_who_got_the_lock_of_a_file_without_a_name_takes_the_new_one(tmp_path, monkeypatch):
    path = tmp_path / "x.jsonl"
    beside = locking._lock_file(path)
    real = locking._try_lock
    tries = []

    def late(handle):
        tries.append(handle)
        if len(tries) == 1:
            # Whoever had it lets go, and the next one takes it, before this one gets to it.
            beside.unlink()
            other = os.open(beside, os.O_RDWR | os.O_CREAT)
            assert real(other)
            tries.append(other)
        elif len(tries) == 4:
            os.close(tries[1])
        return real(handle)

    monkeypatch.setattr(locking, "_try_lock", late)
    with locked(path):
        assert len(tries) == 4
        assert locking._is_named(tries[3], beside)
    assert not beside.exists()


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


def test_a_signal_handler_that_saves_in_the_middle_of_a_line_does_not_wait_for_itself(tmp_path, monkeypatch):
    with holdfast.open("memory:") as store:
        session = store.session("s", export_dir=tmp_path, export_format="jsonl")
        session.save({"a": 1})
        store.session("s").fork("@", "other")
        handler = store.session("s", branch="other", export_dir=tmp_path, export_format="jsonl")
        real = lines._write
        saved: list[holdfast.Checkpoint] = []
        told: list[str] = []

        def interrupted(stream, data):
            real(stream, data[:10])
            if not saved:
                os.kill(os.getpid(), signal.SIGUSR1)
                time.sleep(0.01)
            real(stream, data[10:])

        def handle(_number, _frame):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                saved.append(handler.save({"late": 1}))
            told.extend(str(each.message) for each in caught)

        monkeypatch.setattr(lines, "_write", interrupted)
        before = signal.signal(signal.SIGUSR1, handle)
        try:
            session.save({"a": 2})
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert "was interrupted by this one" in told[0]
        assert {each.id for each in store.find()} >= {saved[0].id, session.checkpoint().id}
        [path] = tmp_path.iterdir()
        assert [json.loads(each)["state"] for each in path.read_text().splitlines()] == [{"a": 1}, {"a": 2}]


def test_a_child_does_not_keep_the_lock_of_its_parent(tmp_path, monkeypatch):
    monkeypatch.setattr(locking, "_PATIENCE", 0.02)
    path = tmp_path / "x.jsonl"
    beside = locking._lock_file(path)
    ready, end = os.pipe()
    with locked(path):
        child = os.fork()
        if child == 0:
            os.read(ready, 1)
            os._exit(0)
        # As if this process had died here: without a word, the system closes what it has open.
        [handle] = locking._held.values()
        os.close(handle)
        locking._held.clear()
    try:
        assert beside.exists()
        with locked(path):
            assert beside.exists()
    finally:
        os.write(end, b"x")
        os.waitpid(child, 0)
        os.close(ready)
        os.close(end)


def test_a_file_system_without_locks_says_so(tmp_path, monkeypatch):
    def none(_handle, _how):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", none)
    with pytest.raises(BackendError, match="shared") as caught, locked(tmp_path / "x.jsonl"):
        pass
    assert "one file a checkpoint" in (caught.value.hint or "")
    # Nobody can have locked it, so that nobody needs it.
    assert not list(tmp_path.iterdir())


def test_only_a_file_that_lines_are_added_to_needs_locks(tmp_path, monkeypatch):
    def none(_handle, _how):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with holdfast.open("memory:") as store:
        session = store.session("s")
        session.save({"n": 1})
        for name in ("x.json", "x.json.gz", "x.html"):
            assert session.export("@", tmp_path / name).checkpoints == 1
        assert session.export(path=tmp_path / "all.jsonl.gz", session=True).checkpoints == 1
        with pytest.raises(BackendError, match="shared"):
            session.export("@", tmp_path / "x.jsonl")


def test_whoever_may_write_into_the_folder_can_take_a_lock_that_another_user_left(tmp_path):
    before = os.umask(0o077)
    try:
        with locked(tmp_path / "x.jsonl"):
            [beside] = tmp_path.iterdir()
            assert beside.stat().st_mode & 0o777 == 0o666
    finally:
        os.umask(before)
