"""gc: what was removed goes for good once its time of grace is over, and then the chunks that nothing needs."""

from __future__ import annotations

import pytest
from tests.unit.store.journal import check_links, kinds_of

import holdfast
from holdfast import IntegrityError, InvalidInputError, Keep
from holdfast.backends.sqlite import SqliteBackend
from holdfast.storage.records import Query
from holdfast.store import gc as collecting

DAY = 86_400_000_000


def state(n):
    """Big enough for chunks of its own, and unlike all others."""
    return {"n": n, "text": [f"{n} {each} {each * 7919 * (n + 1) % 100_003}" for each in range(300)]}


def rows_of(store, name="s"):
    with store._backend.reader() as reader:
        return reader.checkpoints(Query(session=name, include_hidden=True))


@pytest.fixture
def ten(session):
    for n in range(10):
        session.save(state(n), f"number {n}", step=n)
    return session


def test_afterwards_rows_and_chunks_are_gone_and_the_rest_loads(ten, store, clock):
    before = store.stats()
    ten.prune(Keep(last=2), only=True)
    clock.now += 15 * DAY
    report = store.gc()

    assert (report.checkpoints, report.sessions, report.waiting) == (8, ("s",), 0)
    assert report.chunks > 0
    assert report.freed_bytes > 0
    after = store.stats()
    assert after.chunks == before.chunks - report.chunks
    assert (after.checkpoints, after.hidden) == (2, 0)
    assert len(rows_of(store)) == 2
    assert [ten.load(each) for each in ten.log()] == [state(9), state(8)]
    assert kinds_of(store) == ["prune", "gc"]
    check_links(store)


@pytest.mark.parametrize(
    ("passed", "days", "gone"), [(13, 14, 0), (15, 14, 8), (1, 0.5, 8), (1, 2, 0), (0, 0, 8)]
)
def test_the_time_of_grace_is_counted_from_the_removal(ten, store, clock, passed, days, gone):
    # However old the checkpoints are.
    clock.now += 100 * DAY
    ten.prune(Keep(last=2), only=True)
    clock.now += passed * DAY

    assert store.gc(keep_days=days).checkpoints == gone


def test_a_dry_run_counts_exactly_and_changes_nothing(ten, store):
    ten.prune(Keep(last=3), only=True)
    before, kinds = store.stats(), kinds_of(store)
    planned = store.gc(keep_days=0, dry_run=True)

    assert planned.dry_run
    assert planned.checkpoints == 7
    assert (store.stats(), kinds_of(store)) == (before, kinds)
    done = store.gc(keep_days=0)
    assert done.replace(dry_run=True) == planned
    assert store.gc(keep_days=0) == done.replace(checkpoints=0, sessions=(), chunks=0, freed_bytes=0)


def test_what_was_brought_back_meanwhile_is_not_removed(ten, store, monkeypatch):
    ten.delete("#5")
    remove = collecting._remove_rows
    undone: list[object] = []

    def late(*args):
        if not undone:
            undone.append(store.session("s").undo())
        return remove(*args)

    monkeypatch.setattr(collecting, "_remove_rows", late)
    store.gc(keep_days=0)

    assert ten.load("#5") == state(4)
    assert len(rows_of(store)) == 10


def test_what_is_brought_back_at_the_last_moment_is_not_removed(ten, store, monkeypatch):
    """Between the last look and the commit: the commit is refused, and what is still removed is looked for again."""
    ten.delete("#5")
    ten.delete("#6")
    commit = store._backend.commit
    undone: list[object] = []

    def late(batch):
        if batch.removals and not undone:
            undone.append(None)
            undone.append(store.session("s").undo())
        return commit(batch)

    monkeypatch.setattr(store._backend, "commit", late)
    store.gc(keep_days=0)

    assert undone
    assert ten.load("#6") == state(5)
    assert {row.seq for row in rows_of(store)} == set(range(1, 11)) - {5}
    check_links(store)


def test_nothing_is_swept_while_anything_is_damaged(tmp_path):
    with holdfast.open(tmp_path / "store", durability="process") as store:
        session = store.session("s")
        for n in range(6):
            session.save(state(n))
        with store._backend.reader() as reader:
            damaged = reader.checkpoints(Query(session="s"))[-1]
        session.delete("#3")
        backend = store._backend
        assert isinstance(backend, SqliteBackend)
        with backend._looking() as connection:
            connection.execute("DELETE FROM chunks WHERE hash = ?", (damaged.root,))
        before = store.stats().chunks
        with pytest.raises(
            IntegrityError, match=r"no chunk was removed, because checkpoint .*#1 of session 's'"
        ) as e:
            store.gc(keep_days=0)

        assert "holdfast verify" in e.value.hint
        assert store.stats().chunks == before
        assert session.load() == state(5)


@pytest.mark.parametrize("days", [-1, "14", True, float("nan"), None])
def test_a_time_of_grace_that_is_none_is_refused(store, days):
    with pytest.raises(InvalidInputError, match="keep_days"):
        store.gc(keep_days=days)


def test_a_dry_run_needs_no_right_to_write(tmp_path, monkeypatch):
    with holdfast.open(tmp_path / "s.db", durability="process") as store:
        session = store.session("s")
        for n in range(3):
            session.save({"n": n})
        session.delete("#1")
    (tmp_path / "s.db").chmod(0o400)
    with holdfast.open(tmp_path / "s.db", create=False) as store:
        monkeypatch.setattr(store._backend, "_writable", False)  # root may write everywhere
        assert store.gc(keep_days=0, dry_run=True).chunks == 1
        with pytest.raises(holdfast.BackendError):
            store.gc(keep_days=0)
