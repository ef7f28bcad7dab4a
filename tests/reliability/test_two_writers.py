"""Two writers on one branch, thousands of saves in all: no update is lost, and the one who comes second is told so.

Each writer reads the newest number, adds one, and saves that on the condition that nobody saved in between. If an
update were lost, two checkpoints would carry the same number, or the last one too small a number.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback

import pytest

import holdfast
from holdfast import ConflictError, ErrorCode

PROCESS_SAVES = 4_000
THREAD_SAVES = 2_000
SESSION = "counter"


def count_up(store, name, wins_wanted):
    """Add one, so many times; how often another writer was first."""
    session = store.session(SESSION)
    wins = conflicts = 0
    while wins < wins_wanted:
        head = session.checkpoint()
        value = session.load(head)["count"]
        try:
            session.save({"count": value + 1, "by": name}, step=value + 1, expect=head)
        except ConflictError as conflict:
            if conflict.code is not ErrorCode.BRANCH_MOVED:
                raise
            conflicts += 1
        else:
            wins += 1
    return conflicts


def check_count(store, total):
    """Every number once, in order, each a child of the one before, and written by both."""
    log = store.session(SESSION).log()
    assert [each.step for each in log] == list(range(total, -1, -1))
    assert [each.parent for each in log] == [*(each.id for each in log[1:]), None]
    session = store.session(SESSION)
    assert session.load()["count"] == total
    some = [session.load(each) for each in log[:200]]
    assert [state["count"] for state in some] == [each.step for each in log[:200]]


def start_process(path, name, wins):
    """A writer in a process of its own; its id, and where it will say how many conflicts it had."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with holdfast.open(path, durability="process", timeout=60) as store:
                os.write(write, json.dumps(count_up(store, name, wins)).encode())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(write)
    return child, read


def test_two_processes_lose_no_update(tmp_path):
    path = tmp_path / "store.db"
    with holdfast.open(path, durability="process") as store:
        store.session(SESSION).save({"count": 0, "by": "nobody"}, step=0)
    writers = [start_process(path, name, PROCESS_SAVES // 2) for name in ("left", "right")]
    conflicts = 0
    for child, read in writers:
        with os.fdopen(read) as said:
            answer = said.read()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "a writer failed; its error is above"
        conflicts += int(answer)
    with holdfast.open(path, create=False) as store:
        check_count(store, PROCESS_SAVES)
    # Without any the two were never at it at the same time, and nothing was shown.
    assert conflicts > 0


@pytest.mark.parametrize("target", ["memory:", "store.db"])
def test_two_threads_with_two_sessions_lose_no_update(target, tmp_path):
    place = target if target == "memory:" else tmp_path / target
    with holdfast.open(place, durability="process") as store:
        store.session(SESSION).save({"count": 0, "by": "nobody"}, step=0)
        conflicts, errors = [], []

        def work(name):
            try:
                conflicts.append(count_up(store, name, THREAD_SAVES // 2))
            except BaseException as error:
                errors.append(error)

        # Threads that change places often meet often.
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            threads = [threading.Thread(target=work, args=(name,)) for name in ("left", "right")]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(interval)
        assert errors == []
        check_count(store, THREAD_SAVES)
        assert sum(conflicts) > 0
