"""gc: what was removed goes for good once its time of grace is over, and then the chunks that nothing needs."""

from __future__ import annotations

import pytest
from tests.unit.store.journal import check_links, kinds_of

import holdfast
from holdfast import IntegrityError, InvalidInputError, Keep, NotFoundError
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


def test_nothing_goes_within_the_time_of_grace(ten, store):
    ten.prune(Keep(last=2), only=True)
    before = store.stats().chunks
    report = store.gc()

    assert (report.checkpoints, report.sessions, report.waiting) == (0, (), 8)
    assert (report.chunks, report.freed_bytes) == (0, 0)
    assert store.stats().chunks == before
    ten.undo()
    assert [ten.load(each)["n"] for each in ten.log()] == list(range(9, -1, -1))


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


def test_undo_ends_there_and_says_so(ten, store):
    ten.tag("#9", "golden")
    ten.prune(Keep(last=2), only=True)
    store.gc(keep_days=0)

    with pytest.raises(NotFoundError) as caught:
        ten.undo()
    assert caught.value.code == "undo-gone"
    assert "gc removed it" in caught.value.hint


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


def test_what_others_hold_too_stays_with_them(ten, store):
    twin = store.session("twin")
    twin.save(state(3))
    other = ten.fork("#6", "side")
    ten.prune(Keep(last=1), only=True)
    store.gc(keep_days=0)

    assert twin.load() == state(3)
    assert other.load() == state(5)
    assert other.load("#6") == state(5)


def test_a_document_goes_on_after_its_history_was_collected(store):
    session = store.session("s")
    document = session.document(default={"log": []})
    for n in range(30):
        document["log"].append(state(n)["text"][:20])
        document.save()
        if n % 7 == 0:
            session.prune(Keep(last=1), only=True)
            store.gc(keep_days=0)

    assert session.load() == {"log": [state(n)["text"][:20] for n in range(30)]}


def test_a_session_goes_on_although_what_it_saved_last_was_collected(store):
    session = store.session("s")
    session.save(state(0))
    session.save(state(1))
    store.session("s").delete("@")
    store.gc(keep_days=0)
    session.save(state(1), expect="@")

    assert session.load() == state(1)


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


def test_a_whole_session_that_was_cleared_goes(ten, store):
    store.session("other").save(state(77))
    ten.clear()
    report = store.gc(keep_days=0)

    assert report.checkpoints == 10
    assert len(rows_of(store)) == 0
    assert store.session("other").load() == state(77)
    # Its name and its numbers go on.
    assert store.session("s").save(state(0)).seq == 11


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
