"""What a session does not keep goes in the commit of the save itself, and never in the way of the save."""

from __future__ import annotations

import warnings
from contextlib import contextmanager

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
from holdfast.store import policies, pruning, retiring, upkeep


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


def test_a_document_is_kept_in_bounds_in_the_same_way(store, batches):
    document = store.session("s", keep=Keep(last=3)).document(default={"n": 0})
    for n in range(8):
        document["n"] = n
        document.save(step=n)
    assert len(batches) == 8
    assert max(found for _, found in batches) == 3
    assert store.session("s").load() == {"n": 7}


def test_what_follows_something_that_goes_with_it_leads_past_it(store):
    session = store.session("s", keep=Keep(at_most=1))
    first, second = session.save({"n": 1}), session.save({"n": 2})
    assert (second.parents, second.prev, second.skipped) == ((first.id,), None, 1)
    assert session.save({"n": 3}).skipped == 2
    check_links(store)


def test_a_branch_that_begins_beside_the_head_counts_too(store, batches):
    plain = store.session("s")
    for n in range(4):
        plain.save({"n": n}, step=n)
    batches.clear()
    session = store.session("s", keep=Keep(last=2))
    session.save({"n": "beside"}, parent="#2", step=100)
    (batch, found) = batches.pop()
    assert not batches
    # The newest two, the tip of main among them, and where the two lines part.
    assert found == 3
    assert len(batch.removals) == 2
    assert steps(store.session("s")) == [3, 1]
    check_links(store)


def test_somebody_who_saves_in_between_is_counted(store, monkeypatch):
    session = store.session("s", keep=Keep(at_most=3))
    for n in range(3):
        session.save({"n": n}, step=n)
    decide, others = retiring.retirement_with, [50, 51]

    def and_then(*arguments):
        decided = decide(*arguments)
        if others:
            # On another branch: the head that the save expects stays where it is.
            store.session("s").save({"n": "other"}, parent="#2", step=others.pop())
        return decided

    monkeypatch.setattr("holdfast.store.upkeep.retirement_with", and_then)
    session.save({"n": 3}, step=3)
    assert not others
    session.save({"n": 4}, step=4)
    # The newest three, and tips of branches.
    assert sorted(each.step for each in store.find(session="s")) == [1, 3, 4, 50, 51]
    check_links(store)


def test_a_save_that_found_room_looks_again_where_others_took_it(store, monkeypatch):
    session = store.session("s", keep=Keep(at_most=3))
    for n in range(2):
        session.save({"n": n}, step=n)
    decide, others = retiring.retirement_with, store.session("s", branch="other")

    def and_then(*arguments):
        decided = decide(*arguments)
        if len(store.find(session="s")) == 2:
            # A line of its own, so that the head that the save expects stays where it is.
            others.save({"n": "other"}, expect=None, step=10)
            others.save({"n": "another"}, step=11)
        return decided

    monkeypatch.setattr("holdfast.store.upkeep.retirement_with", and_then)
    session.save({"n": 2}, step=2)
    # Room was found for one, and three came.
    assert sorted(each.step for each in store.find(session="s")) == [2, 10, 11]


def test_a_parent_that_is_deleted_in_between_gets_no_child(store, monkeypatch):
    for n in range(5):
        store.session("s").save({"n": n}, step=n)
    session = store.session("s", keep=Keep(at_most=2))
    decide, doomed = retiring.retirement_with, ["#2"]

    def after_that(*arguments):
        while doomed:
            store.session("s").delete(doomed.pop())
        return decide(*arguments)

    monkeypatch.setattr("holdfast.store.upkeep.retirement_with", after_that)
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
        # Others save all the time. It is tried a few times, and left to the next save.
        assert refused == [1, 1, *[0] * 8]
        assert not told
    else:
        assert refused == [1, 0]
        assert [each.category for each in told] == [HoldfastWarning]
        assert "old checkpoints of session 's' stay for now" in str(told[0].message)
    assert steps(session) == [2, 1, 0]
    monkeypatch.setattr(backend, "commit", commit)
    session.save({"n": 3}, step=3)
    assert steps(session) == [3, 2]


def test_where_there_are_many_the_save_is_done_first(store, batches, monkeypatch):
    monkeypatch.setattr(retiring, "MOST_ALONG", 6)
    monkeypatch.setattr(upkeep, "MOST_ALONG", 6)
    plain = store.session("s")
    for n in range(9):
        plain.save({"n": n}, step=n)
    batches.clear()
    session = store.session("s", keep=Keep(at_most=4))
    session.save({"n": 9}, step=9)
    assert [(len(batch.checkpoints), len(batch.removals)) for batch, _ in batches] == [(1, 0), (0, 6)]
    batches.clear()
    session.save({"n": 10}, step=10)
    assert [(len(batch.checkpoints), len(batch.removals)) for batch, _ in batches] == [(1, 1)]
    batches.clear()
    # One that keeps many is not even looked through before a save.
    many = store.session("s", keep=Keep(at_most=7))
    looked: list[object] = []
    monkeypatch.setattr("holdfast.store.upkeep.retirement_with", lambda *all_: looked.append(all_))
    for n in range(6):
        many.save({"n": n}, step=n)
    assert 0 < len(looked) < 6
    assert len(steps(many)) == 7


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


def test_what_others_removed_is_not_told_again(store, monkeypatch):
    told = removals_of(store)
    plain = store.session("s", agent="scout")
    saved = [plain.save({"n": n}).id for n in range(4)]
    read, others = policies.read, [1]

    def and_then(*arguments, **options):
        found = read(*arguments, **options)
        while others:
            others.pop()
            plain.prune(Keep(last=3))
            # Not through this process: nobody is told.
            told.clear()
        return found

    monkeypatch.setattr(retiring, "read", and_then)
    session = store.session("s", agent="scout", keep=Keep(last=2, per="agent"))
    session.save({"n": 4})
    assert not others
    assert sorted(told) == sorted(saved[2:3])


def test_a_writer_does_not_hold_on_to_what_went(store):
    session = store.session("s", keep=Keep(at_most=2))
    for n in range(3):
        session.save({"n": n})
    assert session._writer._last.went is None


def test_a_key_that_names_the_state_already_removes_nothing(store, batches):
    session = store.session("s", keep=Keep(at_most=2))
    for n in range(3):
        session.save({"n": n}, key=f"k{n}")
    batches.clear()
    session.save({"n": 2}, key="k2")
    assert batches == []


def test_a_prune_does_not_report_what_others_removed(store, monkeypatch):
    session = store.session("s")
    saved = [session.save({"n": n}).id for n in range(5)]
    read, others = policies.read, [1]

    def and_then(*arguments, **options):
        found = read(*arguments, **options)
        while others:
            others.pop()
            store.session("s").prune(Keep(last=3))
        return found

    monkeypatch.setattr(pruning, "read", and_then)
    report = session.prune(Keep(last=2))
    assert (report.total, report.kept, report.deleted) == (3, 2, 1)
    assert [each.checkpoint.id for each in report.decisions if not each.kept] == [saved[2]]


def test_what_is_there_is_read_once(store, monkeypatch):
    session = store.session("s", keep=Keep(at_most=4))
    for n in range(5):
        session.save({"n": n})
    backend, read = store._backend, []
    usual = backend.reader

    class Counting:
        def __init__(self, reader):
            self._reader = reader

        def __getattr__(self, asked):
            return getattr(self._reader, asked)

        def checkpoints(self, query):
            found = self._reader.checkpoints(query)
            read.append((query.include_hidden, len(found)))
            return found

    @contextmanager
    def reader():
        with usual() as view:
            yield Counting(view)

    monkeypatch.setattr(backend, "reader", reader)
    session.save({"n": 5})
    # Those that are there, and then what follows the one that goes, hidden or not.
    assert read == [(False, 4), (True, 4)]
