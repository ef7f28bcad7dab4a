"""Retention that looks after itself: `store.session(keep=...)`."""

from __future__ import annotations

import os
import threading
import warnings

import pytest
from tests.unit.store.journal import check_links, kinds_of

import holdfast
from holdfast import Keep
from holdfast.backends.sqlite import SqliteBackend
from holdfast.errors import HoldfastWarning
from holdfast.storage.records import Query
from holdfast.store import gc as collecting
from holdfast.store import keep as upkeep


def rows_of(store, name="s"):
    """Every row there is, hidden ones too."""
    with store._backend.reader() as reader:
        return reader.checkpoints(Query(session=name, include_hidden=True))


def steps(session):
    return [each.step for each in session.log()]


def state(n):
    """Big enough for chunks of its own, and unlike all others."""
    return {"n": n, "text": [f"{n} {each} {each * 7919 * (n + 1) % 100_003}" for each in range(400)]}


@pytest.mark.parametrize("most", [1, 3, 10])
def test_a_cap_is_exact_after_each_save(store, most):
    session = store.session("s", keep=Keep(at_most=most))
    for n in range(25):
        session.save({"n": n}, step=n)
        assert steps(session) == list(range(n, max(-1, n - most), -1))
        # For good, not hidden: nobody asked for it, so nobody will ask for it back.
        assert len(rows_of(store)) == min(n + 1, most)
    check_links(store)
    assert [session.load(each)["n"] for each in session.log()] == list(range(24, 24 - most, -1))
    assert set(kinds_of(store)) == {"retire"}


def test_a_cap_per_agent_counts_over_all_sessions_of_the_agent(store):
    keep = Keep(at_most=4, per="agent")
    for n in range(9):
        store.session(f"s{n % 3}", agent="scout", keep=keep).save({"n": n}, step=n)
        store.session("other", agent="ranger").save({"n": n}, step=n)

    # The newest four, and the tips: every session has one.
    assert sorted(each.step for each in store.find(agent="scout")) == [5, 6, 7, 8]
    assert len(store.find(agent="ranger")) == 9


def test_undo_passes_over_what_retention_did(store):
    session = store.session("s", keep=Keep(at_most=3))
    session.save({"n": 0})
    session.pin("@")
    for n in range(1, 6):
        session.save({"n": n})
    assert session.undo().kind == "pin"

    assert not session.checkpoint("#1").pinned
    session.save({"n": 6})
    assert [each.seq for each in session.log()] == [7, 6, 5]


def test_chunks_go_after_a_while_and_the_store_stays_small(store):
    session = store.session("s", keep=Keep(at_most=5))
    sizes = []
    for n in range(400):
        session.save(state(n), step=n)
        sizes.append(store.stats().chunks)

    # As many as 400 states have would be 80 times those of 5; the figure no longer grows.
    assert max(sizes[200:]) <= max(sizes[:200])
    assert sizes[-1] < sizes[-1] / 5 * 200
    assert max(sizes) < 5 * sizes[4] + (upkeep._WORTH_COLLECTING * 4) * sizes[0]
    assert [session.load(each) for each in session.log()] == [state(n) for n in range(399, 394, -1)]
    before = store.stats().chunks
    store.close()
    assert before < 400 * sizes[0] / 2


def is_collecting(store):
    return store._parts.retention._collecting is not None


def slowly(monkeypatch):
    """Begin a collection soon, and take many saves for it."""
    monkeypatch.setattr(upkeep, "_WORTH_COLLECTING", 4)
    monkeypatch.setattr(collecting, "_STEP", 1)


def test_trouble_is_a_warning_at_the_line_that_saved_and_the_save_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(upkeep, "_WORTH_COLLECTING", 1)
    with holdfast.open(tmp_path / "store", durability="process") as store:
        session = store.session("s")
        pinned = session.save(state(0))
        session.pin("@")
        backend = store._backend
        assert isinstance(backend, SqliteBackend)
        with backend._looking() as connection:
            # What the pinned one needs is lost, behind the back of everything.
            connection.execute("DELETE FROM chunks")
        session = store.session("s", keep=Keep(at_most=2))

        def save_all():
            for n in range(1, 20):
                session.save(state(n))

        with pytest.warns(HoldfastWarning, match="old checkpoints of session 's' stay.*damaged") as seen:
            save_all()

        assert {warning.filename for warning in seen} == {__file__}
        assert session.load() == state(19)
        assert [each.seq for each in session.log()] == [20, 19, pinned.seq]


def test_several_threads_keep_to_the_cap_together(store):
    errors = []

    def work(name, thread):
        try:
            session = store.session(name, branch=f"b{thread}", keep=Keep(at_most=6))
            session.checkpoint()
            for n in range(60):
                session.save(state(n), step=n)
        except BaseException as error:
            errors.append(error)

    for each in range(4):
        started = store.session(f"t{each % 2}")
        if each < 2:
            started.save({"n": -1})
        started.fork(name=f"b{each}")
    threads = [threading.Thread(target=work, args=(f"t{each % 2}", each)) for each in range(4)]
    with warnings.catch_warnings():
        # Warnings of other threads would be lost otherwise.
        warnings.simplefilter("error")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert errors == []
    for name in ("t0", "t1"):
        # Tips may lie beyond the cap: nothing else does.
        assert store.session(name).prune(Keep(at_most=6), dry_run=True, only=True).deleted == 0
        assert 6 <= len(rows_of(store, name)) <= 9
        check_links(store, name)
        # However they took turns, the entries of one took the place of those of the other.
        assert kinds_of(store, name) == ["fork", "fork", "retire"]
        for branch in store.session(name).branches():
            there = store.session(name, branch=branch.name)
            assert there.load()["n"] == (-1 if branch.name == "main" else 59)
            assert all(there.load(each)["n"] >= -1 for each in there.log())


def test_a_fork_of_the_process_goes_on_on_both_sides(tmp_path, monkeypatch):
    slowly(monkeypatch)
    with holdfast.open(tmp_path / "store", durability="process") as store:
        session = store.session("parent", keep=Keep(at_most=3))
        for n in range(12):
            session.save(state(n), step=n)
        # A collection is under way, and has a connection.
        assert is_collecting(store)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                warnings.simplefilter("error")
                mine = store.session("child", keep=Keep(at_most=2))
                for n in range(30):
                    mine.save(state(n), step=n)
                status = 0 if len(mine.log()) == 2 and mine.load() == state(29) else 2
                store.close()
            finally:
                os._exit(status)
        for n in range(12, 40):
            session.save(state(n), step=n)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert [session.load(each)["n"] for each in session.log()] == [39, 38, 37]
        assert len(store.find(session="child")) == 2


def test_a_policy_that_is_none_is_refused_at_once(store):
    with pytest.raises(holdfast.InvalidInputError, match="a policy must be a Keep, not dict"):
        store.session("s", keep={"at_most": 3})


def test_stores_that_share_a_file_leave_a_collection_to_whoever_began_it(tmp_path, monkeypatch):
    """Each would otherwise open an epoch of its own, in which the others sweep nothing, and none get to the end."""
    slowly(monkeypatch)
    monkeypatch.setattr(collecting, "_STEP", 3)
    monkeypatch.setattr(upkeep, "_LINGERING", 2)
    path = tmp_path / "s.hf"
    stores = [holdfast.open(path) for _ in range(6)]
    sessions = [each.session(f"s{n}", keep=Keep(at_most=2)) for n, each in enumerate(stores)]
    busy = most = 0
    for n in range(100):
        for each in sessions:
            each.save({"n": n, "who": each.id, "text": [f"{each.id} {n} {line}" for line in range(50)]})
        busy = max(busy, sum(map(is_collecting, stores)))
        most = max(most, stores[0].stats().chunks)

    assert busy == 1
    # Each save leaves a chunk at least; a few more of them than are kept may wait, and not half of all.
    assert most < 6 * 100 / 2
    for store in stores:
        store.close()


def test_a_collection_whose_process_died_is_taken_over(tmp_path, monkeypatch):
    slowly(monkeypatch)
    with holdfast.open(tmp_path / "s.hf") as store, store._backend.collection():
        session = store.session("s", keep=Keep(at_most=2))
        for n in range(20):
            session.save(state(n))
        assert not is_collecting(store)
        # As if nothing had been seen of it for as long.
        monkeypatch.setattr(upkeep, "_STALE_AFTER", 0.0)
        for n in range(20, 60):
            session.save(state(n))
        assert is_collecting(store) or store.stats().chunks < 60
