"""Restore: one new checkpoint with an old state, and nothing taken away."""

from __future__ import annotations

import pytest
from tests.unit.store.journal import check_links, entries_of, kinds_of

import holdfast
from holdfast import ConflictError, ErrorCode, NotFoundError
from holdfast.storage.records import Batch, CheckpointId, Claim
from holdfast.testing.faults import Fault, FaultyBackend, failing, io_failed


@pytest.fixture
def faulty(backend):
    return FaultyBackend(backend)


@pytest.fixture
def store(faulty, clock):
    return holdfast.Store(faulty, clock=clock, app_version="7")


def test_restoring_puts_an_old_state_at_the_tip_and_keeps_what_was_there(session, store):
    old = session.save({"n": 0, "big": list(range(5000))}, "good", step=3, cost_usd=0.5)
    head = session.save({"n": 1}, "bad")
    before = store.stats()
    made = session.restore(old)
    assert session.load() == {"n": 0, "big": list(range(5000))}
    assert [cp.id for cp in session.log()] == [made.id, head.id, old.id]
    assert (made.root, made.parents, made.prev) == (old.root, (head.id,), head.id)
    assert (made.trigger, made.message, made.app_version) == ("restore", "restore of #1: good", "7")
    assert made.metadata == {"restored_from": old.id}
    assert (made.step, made.cost_usd, made.tags, made.key) == (3, 0.5, (), None)
    assert (made.stored_bytes, made.size_bytes) == (0, old.size_bytes)
    assert store.stats().chunks == before.chunks
    assert session.load("@-") == {"n": 1}
    assert kinds_of(store) == ["restore"]
    (entry,) = entries_of(store)
    assert [each.hex() for each in entry.made] == [made.id]
    assert entry.seq == 2


def test_a_restore_is_refused_when_the_branch_moved_since_it_was_seen(session, store):
    first = session.save({"n": 0})
    store.session("s").save({"n": 1})
    with pytest.raises(ConflictError) as caught:
        session.restore(first)
    assert caught.value.code is ErrorCode.BRANCH_MOVED
    assert kinds_of(store) == []
    # One that has seen nothing takes the head there is.
    assert store.session("s").restore(first).prev == store.session("s").checkpoint("#2").id


def test_a_checkpoint_of_another_session_is_refused_by_name(session, store):
    session.save({"n": 0})
    theirs = store.session("t").save({"n": 1})
    for ref in (theirs, theirs.id, theirs.id[:12]):
        with pytest.raises(NotFoundError, match="session 't'") as caught:
            session.restore(ref)
        assert "store.session('t')" in caught.value.hint
    assert session.log()[0].seq == 1


def test_a_restore_that_saw_nothing_goes_on_when_another_writer_is_faster(session, store, faulty):
    first = session.save({"n": 0})
    faulty.plan(Fault("commit", before=lambda: store.session("s").save({"n": 1})))
    made = store.session("s").restore("@")
    assert faulty.calls["commit"] == 3
    assert (made.seq, made.root, made.prev) == (3, first.root, session.checkpoint("#2").id)
    assert made.message == "restore of #1"
    check_links(store)


def test_a_fork_beside_a_deletion_of_its_source_is_refused(session, store, faulty):
    session.save({"n": 0})
    session.save({"n": 1})
    faulty.plan(Fault("commit", before=lambda: store.session("s").delete("#1")))
    with pytest.raises(NotFoundError):
        session.fork("#1")
    assert [each.name for each in session.branches()] == ["main"]
    check_links(store)


@pytest.mark.parametrize("operation", ["restore", "fork", "undo", "clear", "rename"])
def test_a_lost_reply_is_settled_by_looking_into_the_log(session, store, faulty, operation):
    session.save({"n": 0})
    session.save({"n": 1})
    session.tag("@", "golden")
    calls = {
        "restore": lambda: session.restore("#1").seq,
        "fork": lambda: session.fork("#1").checkpoint().seq,
        "undo": lambda: session.undo().kind,
        "clear": session.clear,
        "rename": lambda: session.rename_branch("main", "trunk").name,
    }
    wanted = {"restore": 3, "fork": 3, "undo": "tag", "clear": 2, "rename": "trunk"}
    faulty.plan(Fault("commit", after=failing(io_failed())))
    assert calls[operation]() == wanted[operation]
    assert kinds_of(store) == ["tag", operation]
    check_links(store)


def test_a_fork_whose_source_goes_for_good_meanwhile_writes_nothing(session, store, faulty, backend):
    """Nothing about the other session changes, so only the source itself can tell."""
    first = session.save({"n": 0})
    session.save({"n": 1})
    session.delete(first)
    session.undo()

    def lose():
        store.session("s").delete(first)
        backend.commit(Batch(claim=Claim("s"), at=1, removals=(CheckpointId(bytes.fromhex(first.id)),)))

    faulty.plan(Fault("commit", before=lose))
    with pytest.raises(NotFoundError):
        session.fork(first, session="t")
    assert [info.id for info in store.sessions()] == ["s"]
