"""The PostgreSQL server killed with -9 under load: no acknowledged save is lost, and none is there twice.

Writers acknowledge a save after `save` has returned, and are never told that the server was gone: they go on by
themselves when it is back. In the end what is in the store is exactly what they acknowledged, which shows also that
a save whose commit was under way at the kill was settled, not guessed. Without waiting for the disk, kills do lose
saves: that is shown as well.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from functools import partial

import pytest
from tests.reliability.crews import Crew, in_threads

import holdfast
from holdfast import BackendError, ErrorCode

KILLS = 4
PROCESSES = 4
SHARED = "shared"
BETWEEN = 6
"""Saves of each writer from one restart to the next kill."""
NOBODY_ELSE_WRITES_THE_LOG = {
    "autovacuum": "off",
    "bgwriter_lru_maxpages": 0,
    "checkpoint_timeout": "1d",
    "wal_buffers": "16MB",
}
"""All that would write the server's log to the disk of its own accord, but for the log writer. A full buffer would."""


def save_own(store, name, say, stops):
    """Save to a session of its own: the writer knows what was there last."""
    session = store.session(name)
    n = 0
    while not stops():
        n += 1
        saved = session.save({"n": n, "log": [f"{name} {each}" for each in range(n % 50)]}, step=n)
        say(f"{name} {name} {n} {saved.id} {saved.seq}")


def save_document(store, name, say, stops):
    """The same with a Document, whose states stand on each other."""
    document = store.session(name).document(default={"n": 0, "log": []})
    n = 0
    while not stops():
        n += 1
        document["n"] = n
        document["log"].append(f"{name} {n}")
        del document["log"][:-50]
        saved = document.save(step=n)
        say(f"{name} {name} {n} {saved.id} {saved.seq}")


def append_to_shared(store, name, say, stops):
    """Append to a branch that others append to as well."""
    n = 0
    while not stops():
        n += 1
        saved = saved_at_last(
            lambda n=n: store.session(SHARED).save({"n": n, "by": name}, step=n, message=name)
        )
        say(f"{name} {SHARED} {n} {saved.id} {saved.seq}")


def saved_at_last(save):
    """A save that has to read first may say that the server was gone. Then nothing of it was written: do it again."""
    while True:
        try:
            return save()
        except BackendError as error:
            if error.code is not ErrorCode.SERVER_GONE:
                raise


KINDS = (save_own, save_document, append_to_shared)


def work(url, durability, process, say, stops):
    with holdfast.open(url, durability=durability, timeout=120) as store:
        works = [partial(kind, store, f"{kind.__name__}-{process}", say, stops) for kind in KINDS]
        in_threads(*works, say=say)


def run(server, url, durability, kills, record):
    """Writers, and a server that is killed and started again so many times; what they acknowledged."""
    crew = Crew()
    names = {f"{kind.__name__}-{process}" for kind in KINDS for process in range(PROCESSES)}
    source = random.Random()
    went_on = []
    try:
        for process in range(PROCESSES):
            crew.start(partial(work, url, durability, process))
        crew.listen()
        for _ in range(kills):
            crew.wait_for(names, BETWEEN)
            time.sleep(source.random() * 0.01)  # so that the kill falls anywhere in a save
            server.kill()
            server.restart()
            began = time.monotonic()
            went_on.append(crew.wait_for(names, 1) - began)
            print(f"the last writer went on after {went_on[-1]:.2f} s")
    finally:
        said = crew.stop()
    # No limit: a machine may be as slow as it likes. A person who reads the report sees it.
    record("seconds until the last writer went on", f"{max(went_on):.2f}")
    return [line.split() for line in said]


def check(url, acknowledged):
    """Whether exactly what was acknowledged is there: by id, by number, by seq, and readable."""
    expected = defaultdict(list)
    for name, session, n, identity, seq in acknowledged:
        expected[session].append((int(seq), identity, int(n), name))
    with holdfast.open(url, create=False, timeout=120) as store:
        assert {each.id for each in store.sessions()} == set(expected)
        for name, said in expected.items():
            session = store.session(name)
            log = session.log()
            there = [(one.seq, one.id, one.step, one.message or name) for one in reversed(log)]
            assert there == sorted(said), f"session {name}"
            assert [one[0] for one in there] == list(range(1, len(there) + 1))
            assert [one.parent for one in log] == [*(one.id for one in log[1:]), None]
            assert all(session.load(one)["n"] == one.step for one in log[::7])
        assert store.verify().ok


@pytest.fixture
def durable_server(require):
    """A server that may be killed."""
    require("postgres")
    from tests.services.postgres import Server

    with Server(fsync=True) as server:
        yield server


def test_kills_of_the_server_lose_nothing_that_was_acknowledged(durable_server, record_property):
    url = durable_server.fresh_database()
    holdfast.open(url).close()
    acknowledged = run(durable_server, url, "power", KILLS, record_property)
    assert len(acknowledged) >= KILLS * PROCESSES * len(KINDS) * BETWEEN
    check(url, acknowledged)


@pytest.mark.parametrize(("durability", "survives"), [("power", True), ("process", False)])
def test_what_a_kill_of_the_server_leaves_depends_on_waiting_for_the_disk(require, durability, survives):
    require("postgres")
    from tests.services.postgres import Server

    with Server(fsync=True, settings=NOBODY_ELSE_WRITES_THE_LOG) as server:
        url = server.fresh_database()
        with holdfast.open(url) as store:
            first = store.session("work").save({"n": 0})
        server.execute("CHECKPOINT")
        # Without waiting, the server's own writer would bring it to the disk after a moment: before the kill, or not.
        server.halt_log_writer()
        with holdfast.open(url, durability=durability, timeout=120) as store:
            session = store.session("work")
            saved = [session.save({"n": n}).id for n in range(1, 21)]
            server.kill()
            server.restart()
            there = [each.id for each in store.find(session="work")]
            # What is left is whole all the same.
            assert store.verify().ok
    assert there == [*(reversed(saved) if survives else ()), first.id]
