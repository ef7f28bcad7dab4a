"""Thousands of saves race collections that never stop: no checkpoint that is there loses a chunk.

Two processes with two threads each save plain states and Documents, while this process removes rows for good, marks,
waits until others have committed, sweeps a little, waits again, sweeps the rest, and begins anew. So each has
commits at its weakest points, and does not depend on luck. The same race is run with two guards taken away, one at a
time, and has to lose something then.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections import Counter

import pytest

import holdfast
from holdfast.backends.sqlite import SqliteBackend, chunks, gc
from holdfast.errors import HoldfastError, IntegrityError
from holdfast.objects.codec.registry import GLOBAL
from holdfast.objects.tree.read import links
from holdfast.objects.tree.state import decode_state
from holdfast.storage.records import Batch, Claim, Query
from holdfast.testing.rows import edit

PROCESSES, THREADS = 2, 2
SAVES = 4_000
SABOTAGED_SAVES = 1_200
NEWEST = 6
"""So many checkpoints of each session are left alone: writers build on them."""


def lines(writer: str, n: int) -> list[str]:
    """What a state says, so that it can be told from its number: much like the one before, as states are."""
    return [f"{writer} said {each} and {each * 7919 % 1009}" for each in range(max(0, n - 40), n + 1)]


def save_plain(store: holdfast.Store, writer: str, saves: int) -> None:
    session = store.session(writer)
    for n in range(saves):
        # Every fifth state is one that was saved before: its chunks are found again, some of them just being swept.
        session.save({"by": writer, "n": n, "log": lines(writer, n - n % 5)}, step=n)


def save_document(store: holdfast.Store, writer: str, saves: int) -> None:
    document = store.session(writer).document(default={"by": writer, "n": -1, "log": []})
    for n in range(saves):
        document["n"] = n
        document["log"].append(lines(writer, n)[-1])
        del document["log"][:-41]
        document.save(step=n)


def write(path: str, process: int, saves: int) -> None:
    """All threads of one process, with one store."""
    errors: list[BaseException] = []

    def run(thread: int) -> None:
        try:
            work = save_document if thread else save_plain
            work(store, f"{process}-{thread}", saves)
        except BaseException as error:
            errors.append(error)

    with holdfast.open(path, durability="process", timeout=60) as store:
        threads = [threading.Thread(target=run, args=(each,)) for each in range(THREADS)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    if errors:
        raise errors[0]


def start(path: str, process: int, saves: int) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            write(path, process, saves)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return child


def rows_of(backend, after=0):
    with backend.reader() as reader:
        return reader.checkpoints(
            Query(after_position=after, include_hidden=True, oldest_first=True, limit=500)
        )


def remove_rows(backend) -> int:
    """Remove most of what is not among the newest, for good."""
    with backend.reader() as reader:
        names = [each.id for each in reader.sessions()]
        rows = {name: reader.checkpoints(Query(session=name))[NEWEST:] for name in names}
    removed = 0
    for name, old in rows.items():
        gone = [each for each in old if each.seq % 9]
        hidden = tuple(edit(each, hidden=1) for each in gone)
        backend.commit(Batch(Claim(name), at=1, edits=hidden, removals=tuple(each.id for each in gone)))
        removed += len(gone)
    return removed


def mark_everything(backend, collection) -> int:
    """Mark what every row needs until there are no more rows; the position of the last."""
    position = 0
    while rows := rows_of(backend, position):
        with backend.reader() as reader:
            to_do = [name for each in rows for name in collection.mark([each.root])]
            while to_do:
                name = to_do.pop()
                to_do += collection.mark(links(name, reader.chunks([name])[name]))
        position = rows[-1].position
    return position


class Collector:
    """Collections one after the other, with pauses in which writers commit."""

    def __init__(self, backend, busy):
        self.backend, self.busy = backend, busy
        self.done: Counter[str] = Counter()

    def run(self) -> None:
        while self.busy():
            self.done["rows"] += remove_rows(self.backend)
            with self.backend.collection() as collection:
                position = mark_everything(self.backend, collection)
                position = self.let_others_commit(position + 8)
                swept = collection.sweep(8)
                self.done["chunks"] += swept.chunks
                self.let_others_commit(position + 8)
                while not swept.done:
                    swept = collection.sweep(32)
                    self.done["chunks"] += swept.chunks
            self.done["collections"] += 1

    def let_others_commit(self, position: int) -> int:
        newest = 0
        while newest < position and self.busy():
            newest = self.backend.wait_for_checkpoint(position - 1, 0.2)
        self.done["raced"] += newest >= position
        return newest


def race(path, saves: int) -> tuple[Counter[str], list[int]]:
    """Run it all; what the collector did, and how the writers ended."""
    backend = SqliteBackend.open(path, durability="process", create=True, timeout=60.0)
    each = saves // (PROCESSES * THREADS)
    children = {start(str(path), number, each) for number in range(PROCESSES)}
    ends: list[int] = []

    def busy() -> bool:
        for child in list(children):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                children.discard(child)
                ends.append(os.waitstatus_to_exitcode(status))
        return bool(children)

    collector = Collector(backend, busy)
    try:
        collector.run()
    finally:
        for child in children:
            ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        backend.close()
    return collector.done, ends


def lost(path) -> tuple[int, list[str]]:
    """How many checkpoints there are, and which of them do not load, or load something else."""
    bad, count = [], 0
    backend = SqliteBackend.open(path, durability="process", create=False, timeout=60.0)
    try:
        with backend.reader() as reader:
            for row in reader.checkpoints(Query()):
                count += 1
                n = row.step or 0
                said = lines(row.session, n if row.session.endswith("1") else n - n % 5)
                try:
                    state = decode_state(row.root, reader.chunks, GLOBAL)
                    sound = state == {"by": row.session, "n": n, "log": said}
                except HoldfastError:
                    sound = False
                bad += [] if sound else [f"#{row.seq} of {row.session}"]
    finally:
        backend.close()
    return count, bad


def test_no_save_loses_a_chunk_to_a_collection(tmp_path):
    path = tmp_path / "store.db"
    done, ends = race(path, SAVES)
    assert ends == [0] * PROCESSES, "a writer failed; its error is above"
    count, bad = lost(path)
    assert bad == []
    assert count >= NEWEST * PROCESSES * THREADS
    assert count + done["rows"] == SAVES
    # Otherwise nothing was shown.
    assert done["collections"] >= 5
    assert done["raced"] >= 5
    assert done["chunks"] >= 1000
    with holdfast.open(path, create=False) as store:
        store.gc(keep_days=0)
    assert lost(path) == (count, [])


def without_epochs(monkeypatch):
    """Sweep what is not marked, though it was committed after the marking."""
    guarded = gc._GONE
    monkeypatch.setattr(gc, "_GONE", guarded.replace("c.epoch < ?", "? IS NOT NULL"))
    assert guarded != gc._GONE


def without_stamps_below(monkeypatch):
    """Stamp a chunk that is found or built on, and nothing of what it stands on."""
    stamp = chunks._stamp

    def only_itself(connection, place, epoch):
        number, depth, _, stamped = place
        stamp(connection, (number, depth, None, stamped), epoch)

    monkeypatch.setattr(chunks, "_stamp", only_itself)


@pytest.mark.parametrize("sabotage", [without_epochs, without_stamps_below], ids=lambda each: each.__name__)
def test_without_a_guard_the_same_race_loses_something(tmp_path, monkeypatch, sabotage):
    sabotage(monkeypatch)
    # On a busy machine the writers may be done before the collector had its turn: then they race again.
    assert any(loses_something(tmp_path / f"{attempt}.db") for attempt in range(5))


def loses_something(path) -> bool:
    try:
        race(path, SABOTAGED_SAVES)
    except (IntegrityError, KeyError):
        # The collector met what it broke itself, and stopped there: that is a loss too.
        return True
    return lost(path)[1] != []
