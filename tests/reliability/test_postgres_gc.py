"""Chunks are collected beside writers in a PostgreSQL store: what a commit needs stays, whoever comes first.

Each interleaving that could lose a chunk is played through with two connections, once as it is and once without the
guard that the case is about, which is then taken out of the functions of the store: so each guard is shown to matter.
After that eight writers save, prune and fork beside collections that never stop.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from functools import partial

import psycopg
import pytest
from tests.reliability.crews import Crew, in_threads

import holdfast
from holdfast import Keep
from holdfast.backends.chunk_codec import prepare
from holdfast.backends.postgres import PostgresBackend
from holdfast.backends.postgres import commit as commits
from holdfast.errors import IntegrityError
from holdfast.testing.kit.contract import commit_all
from holdfast.testing.kit.gc import mark_parts, mark_roots, saved_as_parts, sweep_all, versions, with_garbage
from holdfast.testing.rows import batch, chunk, removal, row, save, state_chunk

PROCESSES, THREADS = 4, 2
SAVES = 600
"""Of each thread."""


@pytest.fixture
def backend(postgres_url):
    backend = PostgresBackend.open(postgres_url, durability="process", create=True, timeout=60.0)
    yield backend
    backend.close()


def replace(url, function, old, new):
    """Change the text of a function of the store."""
    with psycopg.connect(url) as connection:
        name = f"holdfast.{function}"
        ((text,),) = connection.execute("SELECT pg_get_functiondef(%s::regproc)", [name]).fetchall()
        assert old in text
        connection.execute(text.replace(old, new).encode())


STAMP = "PERFORM stamp(names || bases, now);"
UPDATE = "DO UPDATE SET epoch = excluded.epoch"
SHARED_LOCK = "PERFORM pg_advisory_xact_lock_shared(l.class, l.object) FROM writers_lock() AS l;"
IS_THERE = "EXISTS (SELECT 1 FROM chunks AS c WHERE c.hash = g.name)"


def trusting_what_is_there(url):
    replace(url, "put_chunks", UPDATE, "DO NOTHING")
    replace(url, "put_chunks", STAMP, "")


def without_stamps(url):
    replace(url, "put_chunks", STAMP, "")


def without_stamps_of_bases(url):
    replace(url, "put_chunks", STAMP, "PERFORM stamp(names, now);")


def without_stamps_below(url):
    replace(url, "stamp", "WHILE below IS NOT NULL LOOP", "WHILE false LOOP")


def without_looking_again(url):
    replace(url, "put_chunks", IS_THERE, "true")


def without_the_lock_of_writers(url):
    replace(url, "enter", SHARED_LOCK, "")


@contextmanager
def under_way(backend, batch, chunks=None):
    """A commit that has written everything, and ends with the block."""
    chunks = chunks or prepare(batch, backend._recent, backend.reader)
    with backend._pool.dedicated() as connection, connection.transaction():
        commits.locked(connection, batch, chunks)
        yield


class Beside:
    """Work in a thread of its own that may have to wait for a lock of somebody else."""

    def __init__(self, url, work):
        self._url = url
        self._errors = []
        self._thread = threading.Thread(target=self._run, args=(work,))
        self._thread.start()

    def wait_until_it_waits(self, or_event=None, *, waiting=1):
        """Until it is over, so many wait for a lock, or it has set the event."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            while self._thread.is_alive() and not (or_event and or_event.is_set()):
                found = connection.execute(
                    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() "
                    "AND wait_event_type = 'Lock'"
                ).fetchall()
                if len(found) >= waiting:
                    return
                time.sleep(0.005)

    def join(self):
        self._thread.join()
        if self._errors:
            raise self._errors[0]

    def _run(self, work):
        try:
            work()
        except BaseException as error:
            self._errors.append(error)


def reads(backend, *pieces):
    """Whether all of them can be read, as they were given."""
    with backend.reader() as reader, suppress(IntegrityError):
        found = reader.chunks([each.hash for each in pieces])
        return all(found.get(each.hash) == each.data for each in pieces)
    return False


def found_again(backend, url):
    """A commit finds a chunk that no checkpoint needs any more; the sweep comes before the commit has ended."""
    _, (old, *_) = with_garbage(backend)
    with backend.collection() as collection:
        mark_roots(backend, collection)
        with under_way(backend, batch(row("again", root=old.hash), chunks=(old,))):
            sweep = Beside(url, lambda: sweep_all(collection))
            sweep.wait_until_it_waits()
        sweep.join()
    return reads(backend, old)


def built_on(backend, url):
    """A commit writes a chunk as the difference to one that no checkpoint needs any more, itself a difference."""
    *old, new = versions(5)
    rows = saved_as_parts(backend, old)
    backend.commit(removal(*rows))
    made = row("new", message=new.hash.hex())
    with backend.collection() as collection:
        mark_parts(backend, collection)
        with under_way(backend, batch(made, chunks=(state_chunk(made.id), new))):
            sweep = Beside(url, lambda: sweep_all(collection))
            sweep.wait_until_it_waits()
        sweep.join()
    with psycopg.connect(url) as connection:
        ((base,),) = connection.execute(
            "SELECT base FROM holdfast.chunks WHERE hash = %s", [new.hash]
        ).fetchall()
    assert base is not None, "it stands alone, so that nothing was shown"
    return reads(backend, new)


def begun_before_the_epoch(backend, url):
    """A commit is under way when the collection begins, and has ended when it sweeps."""
    with_garbage(backend)
    marked, ended = threading.Event(), threading.Event()

    def collect():
        with backend.collection() as collection:
            mark_roots(backend, collection)
            marked.set()
            ended.wait()
            sweep_all(collection)

    with under_way(backend, save("new", branch="new")):
        collection = Beside(url, collect)
        collection.wait_until_it_waits(or_event=marked)
    ended.set()
    collection.join()
    return reads(backend, state_chunk("new"))


def left_out(backend):
    """A batch of many chunks, of which one is there and need not be sent; the batch, and the chunk."""
    _, (old, *_) = with_garbage(backend)
    again = batch(row("again", root=old.hash), chunks=(old, *(chunk(b"%d" % n) for n in range(10))))
    chunks = prepare(again, backend._recent, backend.reader)
    assert chunks[0].data is None
    return again, chunks, old


def left_out_and_gone(backend, url):
    """A chunk was there when a commit was prepared, and is not any more."""
    again, chunks, old = left_out(backend)
    with backend.collection() as collection:
        mark_roots(backend, collection)
        sweep_all(collection)
    backend._commit(again, chunks)
    return reads(backend, old)


def left_out_and_going(backend, url):
    """A chunk is there when a commit looks, and is just being removed."""
    again, chunks, old = left_out(backend)
    with backend.collection() as collection:
        mark_roots(backend, collection)
        with collection._connection.transaction():
            assert collection._sweep(1000).chunks
            commit = Beside(url, lambda: backend._commit(again, chunks))
            commit.wait_until_it_waits()
        commit.join()
    return reads(backend, old)


CASES = [
    (found_again, trusting_what_is_there),
    (built_on, without_stamps_of_bases),
    (built_on, without_stamps_below),
    (begun_before_the_epoch, without_the_lock_of_writers),
    (left_out_and_gone, without_looking_again),
    (left_out_and_going, without_stamps),
]


@pytest.mark.parametrize("case", dict.fromkeys(case for case, _ in CASES), ids=lambda each: each.__name__)
def test_a_commit_beside_a_collection_loses_nothing(backend, postgres_url, case):
    assert case(backend, postgres_url)


@pytest.mark.parametrize(("case", "sabotage"), CASES, ids=lambda each: each.__name__)
def test_without_its_guard_the_same_commit_loses_a_chunk(backend, postgres_url, case, sabotage):
    sabotage(postgres_url)
    assert not case(backend, postgres_url)


def wait_in_a_circle(server, url, work, high, middle, low):
    """Have `work`, which locks the youngest chunk first, meet somebody who has the oldest and wants the youngest.

    The server looks for a circle once, a second after a wait began. So `work` is stopped on its way, at the chunk in
    the middle, until the other one waits: its wait for the oldest, however late it comes, closes the circle.
    """
    lock = "SELECT 1 FROM holdfast.chunks WHERE hash = %s FOR NO KEY UPDATE"
    before = len(server.log)
    with psycopg.connect(url) as other, psycopg.connect(url) as gate:
        # It waits for ever, so that the server ends the wait of the one whom the test is about.
        other.execute("SET deadlock_timeout = '1h'")
        other.execute(lock, [low.hash])
        gate.execute(lock, [middle.hash])
        beside = Beside(url, work)
        beside.wait_until_it_waits()
        meeting = Beside(url, lambda: other.execute(lock, [high.hash]))
        meeting.wait_until_it_waits(waiting=2)
        gate.rollback()
        meeting.join()
        other.rollback()
    beside.join()
    # Otherwise nothing was shown. More than once where `work` had its rows again before the other one woke up.
    assert "ERROR:  deadlock detected" in server.log[before:]


def test_a_sweep_and_a_commit_that_wait_for_each_other_both_get_through(backend, postgres, postgres_url):
    _, (low, middle, *_, high) = with_garbage(backend)
    with backend.collection() as collection:
        mark_roots(backend, collection)
        wait_in_a_circle(postgres, postgres_url, lambda: sweep_all(collection), high, middle, low)
    assert not reads(backend, low)
    assert not reads(backend, high)


def test_two_commits_that_wait_for_each_other_both_get_through(backend, postgres, postgres_url):
    _, (low, middle, *_, high) = with_garbage(backend)
    with backend.collection():
        again = batch(row("again", root=low.hash), chunks=(low, middle, high))
        wait_in_a_circle(postgres, postgres_url, lambda: commit_all(backend, again), high, middle, low)
    assert reads(backend, low, middle, high)


def state_of(number):
    """A state that other writers save too: most of its chunks are shared, or differences to shared ones."""
    lines = [f"line {each} of {each * 7919 % 1009}" for each in range(number % 40, number % 40 + 120)]
    return {"number": number, "parts": [lines, lines[::-1], {"tail": lines[-20:]}]}


def write_and_remove(store, name, say):
    """Saves, with what is older pruned again and again, and branches that are left behind."""
    session = store.session(name)
    for n in range(SAVES):
        session.save(state_of(n), step=n)
        if n % 20 == 19:
            session.prune(Keep(last=4), only=True)
        if n % 50 == 49:
            session.fork("@~1", f"fork-{n}").save(state_of(n + 7), step=n + 7)
        if n % 100 == 99:
            # Elsewhere, on chunks that only the fork keeps when this session is pruned.
            session.fork("@~2", session=f"{name} from {n}").save(state_of(n + 3), step=n + 3)
        if n % 10 == 0:
            say(name)


def write_document(store, name, say):
    document = store.session(name, keep=Keep(at_most=5)).document(default=state_of(0))
    for n in range(SAVES):
        changed = state_of(n)
        document["number"] = n
        document["parts"][n % 2] = changed["parts"][n % 2]
        document["parts"][2]["tail"].append(f"line {n}")
        document.save(step=n, metadata={"number": n})
        if n % 10 == 0:
            say(name)


def work(url, process, say, _stops):
    with holdfast.open(url, durability="process", timeout=120) as store:
        in_threads(
            partial(write_and_remove, store, f"{process}-plain", say),
            partial(write_document, store, f"{process}-document", say),
        )


def test_collections_that_never_stop_take_nothing_from_eight_writers(postgres_url):
    holdfast.open(postgres_url).close()
    crew = Crew()
    for process in range(PROCESSES):
        crew.start(partial(work, postgres_url, process))
    crew.listen()
    collections = removed = 0
    with holdfast.open(postgres_url, durability="process", timeout=120) as store:
        try:
            while crew.is_at_work():
                report = store.gc(keep_days=0)
                collections += 1
                removed += report.chunks
        finally:
            crew.wait()
        found = store.find()
        names = {each.session for each in found}
        assert len(names) == PROCESSES * (THREADS + SAVES // 100)
        for each in found:
            state = store.session(each.session).load(each)
            assert state["number"] == each.step
            if "document" not in each.session:
                assert state == state_of(each.step)
        assert store.verify().ok
        store.gc(keep_days=0)
        assert store.verify().ok
        assert len(store.find()) == len(found)
    print(f"{collections} collections removed {removed} chunks; {len(found)} checkpoints are left")
    # Otherwise nothing was shown.
    assert collections >= 3
    assert removed >= 300
