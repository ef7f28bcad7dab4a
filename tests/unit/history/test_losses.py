"""What tells that lines may have met where rows are gone for good, each in a history that only it can tell from others.

In all of them one side took back what it had from the other (`x`), so that an older meeting would bring it again.
"""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Keep
from holdfast.backends.memory import MemoryBackend
from holdfast.history.meeting import find_meeting
from holdfast.storage.records import CheckpointRow, Claim
from holdfast.store.place import Place
from holdfast.store.retiring import retire
from holdfast.testing.rows import START, batch, checkpoint_id, operation, row

LAST = Keep(last=1, per="branch")


@pytest.fixture
def backend():
    return MemoryBackend()


@pytest.fixture
def store(backend):
    return holdfast.Store(backend)


@pytest.fixture
def s(store):
    session = store.session("s")
    session.save({"x": 1, "y": 0})
    session.pin("#1")
    return session


def prune(store, *sessions):
    for each in sessions:
        each.prune(LAST)
    store.gc(keep_days=0)


def asked(session, theirs, base):
    """Whether everything that differs is asked about, with that base in the place of a nearer one."""
    report = session.merge(theirs)
    assert report.base.seq == base
    return not report.base_exact and {each.path for each in report.conflicts} >= {"x", "y"}


def test_where_they_parted_was_deleted(store, s):
    s.save({"x": 2, "y": 0})
    beside = s.fork(name="beside")
    for y in (4, 5):
        beside.save({"x": 2, "y": y})
    for n in (1, 2):
        s.save({"x": 1, "y": 0, "n": n})
    s.delete("#2", force=True)
    assert s.merge("beside", dry_run=True).base_exact
    prune(store, s)
    assert asked(s, "beside", 1)


def test_a_fork_in_another_session_has_lost_where_it_began(store, s):
    beside = s.fork(name="beside")
    s.save({"x": 2, "y": 0})
    elsewhere = s.fork(session="elsewhere")
    elsewhere.merge(beside.checkpoint())
    elsewhere.pin("@")
    elsewhere.save({"x": 2, "y": 5})
    s.save({"x": 1, "y": 0})
    prune(store, elsewhere)
    assert asked(s, elsewhere.checkpoint(), 1)


def test_what_was_merged_from_another_session_went_there(store, s):
    elsewhere = s.fork(session="elsewhere")
    elsewhere.pin("@")
    elsewhere.save({"x": 2, "y": 0})
    s.merge(elsewhere.checkpoint())
    s.save({"x": 1, "y": 0})
    for y in (3, 4, 5):
        elsewhere.save({"x": 2, "y": y})
    prune(store, elsewhere)
    assert asked(s, elsewhere.checkpoint(), 1)


def test_a_merge_of_another_session_went_here(store, s):
    elsewhere = s.fork(session="elsewhere")
    elsewhere.save({"x": 2, "y": 0})
    s.merge(elsewhere.checkpoint())
    for n in (1, 2):
        s.save({"x": 1, "y": 0, "n": n})
    elsewhere.save({"x": 2, "y": 5})
    prune(store, s)
    assert asked(s, elsewhere.checkpoint(), 1)


def test_a_row_that_was_removed_and_is_still_there_may_lie_where_the_other_line_has_a_gap(store, backend, s):
    s.save({"x": 2, "y": 0})
    elsewhere = s.fork(session="elsewhere")
    elsewhere.save({"x": 2, "y": 5})
    for n in (1, 2):
        s.save({"x": 1, "y": 0, "n": n})
    s.delete("#2")
    retire(Place(backend, Claim("s"), "main", lambda: START, None), LAST)
    assert asked(s, elsewhere.checkpoint(), 1)


def test_what_was_brought_back_was_not_there_when_others_went(store, backend, s):
    beside = s.fork(name="beside")
    beside.save({"x": 2, "y": 0})
    s.merge("beside")
    s.undo()
    for y in (4, 5):
        beside.save({"x": 2, "y": y})
    retire(Place(backend, Claim("s"), "main", lambda: START, None), LAST)
    s = store.session("s")
    s.redo()
    s.save({"x": 1, "y": 0})
    assert asked(s, "beside", 1)


def meeting(backend, *made, ours="a", theirs="b"):
    """Where two rows meet in a history as an archive brings it: nothing about it is in the log."""
    rows: list[CheckpointRow] = []
    for number, (name, *parents) in enumerate(made, start=1):
        ids = tuple(checkpoint_id(each) for each in parents)
        is_gap = bool(ids) and ids[0] not in {each.id for each in rows}
        prev = rows[0].id if is_gap else ids[0] if ids else None
        rows.append(row(name, parents=ids, prev=prev, skipped=int(is_gap), created_at=START + number))
    backend.commit(batch(*rows))
    with backend.reader() as reader:
        found = find_meeting(reader, *(reader.checkpoint(checkpoint_id(name)) for name in (ours, theirs)))
    assert found is not None
    return found


def test_what_a_merge_of_an_archive_brought_in_may_never_have_been_here(backend):
    assert meeting(backend, ("y",), ("b", "y"), ("a", "y")).exact
    backend = MemoryBackend()
    assert not meeting(backend, ("y",), ("b", "y"), ("m", "y", "gone"), ("a", "m")).exact


def test_a_merge_that_is_older_than_all_of_the_other_line_does_not_matter(backend):
    found = meeting(backend, ("y",), ("m", "y", "gone"), ("a", "m"), ("b", "y"))
    assert (found.rows[0].id, found.exact) == (checkpoint_id("y"), True)


def test_what_both_lead_to_and_is_gone_is_where_they_met(backend):
    found = meeting(backend, ("y",), ("a", "gone"), ("b", "gone"))
    assert (found.rows[0].id, found.exact) == (checkpoint_id("y"), False)


def test_a_line_that_leads_to_the_other_has_all_of_it_whatever_is_gone(backend):
    found = meeting(backend, ("y",), ("b", "gone"), ("a", "b"))
    assert (found.rows[0].id, found.exact) == (checkpoint_id("b"), True)


def test_a_log_that_cannot_be_read_proves_nothing(backend):
    backend.commit(batch(row("y"), operations=(operation(1, data="{}"),)))
    rows = [
        row(name, parents=(checkpoint_id(parent),), prev=checkpoint_id("y"), skipped=1, created_at=START + 1)
        for name, parent in (("a", "gone"), ("b", "lost"))
    ]
    backend.commit(batch(*rows))
    with backend.reader() as reader:
        ours, theirs = (reader.checkpoint(checkpoint_id(name)) for name in "ab")
        found = find_meeting(reader, ours, theirs)
    assert found is not None
    assert not found.exact
