"""What a session does not keep goes in the commit of the save itself, and never in the way of the save."""

from __future__ import annotations

import warnings

import pytest
from tests.unit.store.journal import check_links

from holdfast import Keep
from holdfast.errors import (
    BackendError,
    ConflictError,
    ErrorCode,
    HoldfastWarning,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
)
from holdfast.storage.records import Query
from holdfast.store.keep import Retention


@pytest.fixture
def batches(store, monkeypatch):
    """The batches that are committed, and what others find after each: how many checkpoints session s has."""
    backend, seen = store._backend, []
    commit = backend.commit

    def watched(batch):
        receipt = commit(batch)
        with backend.reader() as reader:
            seen.append((batch, len(reader.checkpoints(Query(session="s")))))
        return receipt

    monkeypatch.setattr(backend, "commit", watched)
    return seen


def steps(session):
    return [each.step for each in session.log()]


@pytest.mark.parametrize("most", [1, 2, 10])
def test_each_save_is_one_commit_and_nobody_ever_finds_more_than_is_kept(store, batches, most):
    session = store.session("s", keep=Keep(at_most=most))
    for n in range(most + 5):
        session.save({"n": n}, step=n)
    assert [len(batch.checkpoints) for batch, _ in batches] == [1] * (most + 5)
    assert max(found for _, found in batches) == most
    assert [len(batch.removals) for batch, _ in batches] == [0] * most + [1] * 5
    check_links(store)
    assert store.verify().ok


def test_somebody_who_saves_in_between_is_counted(store, monkeypatch):
    session = store.session("s", keep=Keep(at_most=3))
    for n in range(3):
        session.save({"n": n}, step=n)
    plan, others = Retention.plan, [50, 51]

    def and_then(*arguments):
        decided = plan(*arguments)
        if others:
            # On another branch: the head that the save expects stays where it is.
            store.session("s").save({"n": "other"}, parent="#2", step=others.pop())
        return decided

    monkeypatch.setattr(Retention, "plan", and_then)
    session.save({"n": 3}, step=3)
    assert not others
    session.save({"n": 4}, step=4)
    # The newest three, and tips of branches.
    assert sorted(each.step for each in store.find(session="s")) == [1, 3, 4, 50, 51]
    check_links(store)


def test_a_parent_that_is_deleted_in_between_gets_no_child(store, monkeypatch):
    for n in range(5):
        store.session("s").save({"n": n}, step=n)
    session = store.session("s", keep=Keep(at_most=2))
    plan, doomed = Retention.plan, ["#2"]

    def after_that(*arguments):
        while doomed:
            store.session("s").delete(doomed.pop())
        return plan(*arguments)

    monkeypatch.setattr(Retention, "plan", after_that)
    with pytest.raises(NotFoundError):
        session.save({"n": "beside"}, parent="#2", step=100)
    assert steps(session) == [4, 3, 2, 0]


TROUBLES = {
    "damaged": IntegrityError.row_damaged("checkpoint", why="for a test"),
    "no room": BackendError("the disk is full", code=ErrorCode.IO_FAILED, hint="make room"),
    "too large": InvalidInputError("too much at once", code=ErrorCode.VALUE_TOO_LARGE, hint="less of it"),
    "changed": ConflictError.session_changed("s"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_old_checkpoints_that_cannot_go_do_not_keep_a_new_one_out(store, monkeypatch, trouble):
    session = store.session("s", keep=Keep(at_most=2))
    for n in range(2):
        session.save({"n": n}, step=n)
    backend, refused = store._backend, []
    commit = backend.commit

    def refusing(batch):
        if batch.removals:
            refused.append(len(batch.checkpoints))
            raise TROUBLES[trouble]
        return commit(batch)

    monkeypatch.setattr(backend, "commit", refusing)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        session.save({"n": 2}, step=2)
    if trouble == "changed":
        # Others save all the time. It is tried twice, and left to the next save.
        assert refused == [1, 1]
        assert not told
    else:
        assert refused == [1]
        assert [each.category for each in told] == [HoldfastWarning]
        assert "old checkpoints of session 's' stay for now" in str(told[0].message)
    assert steps(session) == [2, 1, 0]
    monkeypatch.setattr(backend, "commit", commit)
    session.save({"n": 3}, step=3)
    assert steps(session) == [3, 2]


def removals_of(store):
    told = []
    store._parts.metrics.observe_removals(lambda session, reason, count, ids: told.extend(ids))
    return told


@pytest.mark.parametrize(
    "ends_in", [BackendError("lost", code=ErrorCode.IO_FAILED, hint=""), KeyboardInterrupt()]
)
def test_a_save_that_took_place_though_it_ended_in_an_error_tells_what_went(store, monkeypatch, ends_in):
    told = removals_of(store)
    session = store.session("s", keep=Keep(at_most=2))
    saved = [session.save({"n": n}) for n in range(2)]
    commit = store._backend.commit

    def lost(batch):
        commit(batch)
        raise ends_in

    monkeypatch.setattr(store._backend, "commit", lost)
    if isinstance(ends_in, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            session.save({"n": 2})
        monkeypatch.setattr(store._backend, "commit", commit)
    session.save({"n": 2})
    assert told == [saved[0].id]


def test_a_key_that_names_the_state_already_removes_nothing(store, batches):
    session = store.session("s", keep=Keep(at_most=2))
    for n in range(3):
        session.save({"n": n}, key=f"k{n}")
    batches.clear()
    session.save({"n": 2}, key="k2")
    assert batches == []
