"""What keeps an undo or redo from happening: branches that moved, rows that are gone, others who come between."""

from __future__ import annotations

import pytest
from tests.unit.store.journal import check_links, entries_of, kinds_of

import holdfast
from holdfast import ConflictError, ErrorCode, NotFoundError
from holdfast.errors import IntegrityError
from holdfast.history.oplog import operation
from holdfast.history.removal import plan_removal
from holdfast.storage.records import Batch, CheckpointId, Claim, Query
from holdfast.testing.faults import Fault, FaultyBackend


@pytest.fixture
def faulty(backend):
    return FaultyBackend(backend)


@pytest.fixture
def faulty_store(faulty, clock):
    return holdfast.Store(faulty, clock=clock)


def test_a_restore_cannot_be_undone_once_the_branch_moved_on(session, store):
    session.save({"n": 0})
    session.save({"n": 1})
    session.restore("#1")
    newest = session.save({"n": 2})
    with pytest.raises(ConflictError) as caught:
        session.undo()
    assert caught.value.code is ErrorCode.UNDO_BLOCKED
    assert str(caught.value) == (
        "restore #1 on branch 'main' as #3 cannot be undone: branch 'main' is at #4 now, and was left at #3"
    )
    assert "holdfast restore '#2'" in caught.value.hint
    assert caught.value.details["branch"] == "main"
    assert session.checkpoint() == newest
    assert kinds_of(store) == ["restore"]
    # What the hint says works, and is an operation of its own.
    session.restore("#2")
    assert session.load() == {"n": 1}
    session.undo()
    assert session.load() == {"n": 2}


def test_a_fork_cannot_be_undone_once_somebody_saved_on_it(session, store):
    session.save({"n": 0})
    idea = session.fork("@", "idea")
    idea.save({"n": 1})
    with pytest.raises(ConflictError) as caught:
        session.undo()
    assert caught.value.code is ErrorCode.UNDO_BLOCKED
    assert "delete_branch('idea', force=True)" in caught.value.hint
    assert "is at #3 now" in str(caught.value)
    assert idea.load() == {"n": 1}


def test_a_head_to_go_back_to_that_was_removed_blocks(session, store):
    session.save({"n": 0})
    session.save({"n": 1})
    session.restore("#1")
    hide(store, 2)
    with pytest.raises(ConflictError) as caught:
        session.undo()
    assert caught.value.code is ErrorCode.UNDO_BLOCKED
    assert "#2 was removed since" in str(caught.value)
    check_links(store)


def test_a_row_that_is_not_as_the_operation_left_it_blocks(session, store):
    cp = session.save({})
    session.tag("@", "a")
    with store._backend.reader() as reader:
        row = reader.checkpoint(CheckpointId(bytes.fromhex(cp.id)))
        owner = reader.session("s")
    changed = holdfast.history.oplog.edit(row, tags=("b",))
    entry = operation(owner, "retire", 1, edits=[(row, changed)])
    store._backend.commit(Batch(claim=Claim("s"), at=1, edits=(changed,), operations=(entry,)))
    with pytest.raises(ConflictError) as caught:
        session.undo()
    assert caught.value.code is ErrorCode.UNDO_BLOCKED
    assert "#1 was changed since" in str(caught.value)


def hide(store, number):
    """Remove a checkpoint by an operation that undo passes over."""
    with store._backend.reader() as reader:
        owner = reader.session("s")
        (row,) = reader.checkpoints(Query(session="s", seq=number))
        change = plan_removal(reader, owner, row, force=True)
    entry = operation(owner, "retire", 1, edits=change.edits, moves=change.moves)
    edits = tuple(new for _, new in change.edits)
    store._backend.commit(
        Batch(claim=Claim("s"), at=1, edits=edits, moves=tuple(change.moves), operations=(entry,))
    )


def test_gc_and_forget_end_undo_and_say_so(session, store):
    session.save({"n": 0})
    session.save({"n": 1})
    session.delete("@")
    store.gc(keep_days=0)
    with pytest.raises(NotFoundError, match="gc removed it") as caught:
        session.undo()
    assert caught.value.code is ErrorCode.UNDO_GONE
    store.session("s").save({"n": 2})
    session.tag("@", "a")
    store.forget("s", "#1")
    with pytest.raises(NotFoundError, match="forget at ") as caught:
        session.undo()
    assert caught.value.code is ErrorCode.UNDO_GONE
    assert [each.kind for each in session.operations()] == ["forget"]
    session.untag("@", "a")
    assert session.undo().kind == "tag"
    check_links(store)


def test_an_undo_beside_a_save_is_worked_out_again(faulty, faulty_store):
    store = faulty_store
    session = store.session("s")
    session.save({"n": 0})
    session.save({"n": 1})
    session.save({"n": 2})
    session.delete("#2")
    faulty.plan(Fault("commit", before=lambda: store.session("s").save({"n": 3}, parent="#1")))
    session.undo()
    assert [cp.seq for cp in session.log()] == [3, 2, 1]
    check_links(store)
    session.restore("#1")
    faulty.plan(Fault("commit", before=lambda: store.session("s").save({"n": 4})))
    with pytest.raises(ConflictError) as caught:
        session.undo()
    assert caught.value.code is ErrorCode.UNDO_BLOCKED
    assert store.session("s").load() == {"n": 4}


def test_an_undo_beside_a_save_onto_what_it_hides_is_blocked(faulty, faulty_store):
    session = faulty_store.session("s")
    session.save({"n": 0})
    session.fork("@", "idea")
    # The save moves no branch that the undo looks at: only the number of checkpoints tells.
    faulty.plan(Fault("commit", before=lambda: faulty_store.session("s").save({"n": 1}, parent="idea")))
    with pytest.raises(ConflictError) as caught:
        session.undo()
    assert caught.value.code is ErrorCode.UNDO_BLOCKED
    check_links(faulty_store)


def test_an_undo_beside_an_undo_takes_back_the_one_before(faulty, faulty_store):
    store = faulty_store
    session = store.session("s")
    session.save({})
    session.tag("@", "a")
    session.tag("@", "b")
    faulty.plan(Fault("commit", before=lambda: store.session("s").undo()))
    assert session.undo().number == 1
    assert session.checkpoint().tags == ()
    assert [entry.of for entry in entries_of(store)] == [None, None, 2, 1]


def test_a_damaged_entry_is_not_reversed(session, store, monkeypatch):
    """The store's own checksum covers it; this is what stands behind that."""
    session.save({})
    session.tag("@", "a")
    with store._backend.reader() as reader:
        (entry,) = reader.operations("s")
        reader_type = type(reader)
    damaged = entry._replace(data=entry.data.replace('"tags":[]', '"tags":["x"]'))
    assert damaged != entry
    monkeypatch.setattr(reader_type, "operations", lambda *_, **__: [damaged])
    with pytest.raises(IntegrityError):
        session.undo()
