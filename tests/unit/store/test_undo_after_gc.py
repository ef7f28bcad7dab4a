"""An undo between a gc and its grace: what comes back finds its place although a neighbour is gone for good."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.backends.memory import MemoryBackend
from holdfast.backends.sqlite import SqliteBackend

DAY = 86_400_000_000


@pytest.fixture(params=["memory", "sqlite"])
def backend(request, tmp_path):
    if request.param == "memory":
        return MemoryBackend()
    return SqliteBackend.open(tmp_path / "store.db", durability="process", create=True, timeout=10.0)


def test_what_comes_back_is_linked_past_a_parent_that_is_gone(backend):
    now = [1_700_000_000_000_000]
    with holdfast.Store(backend, clock=lambda: now[0]) as store:
        session = store.session("work")
        for n in range(1, 6):
            session.save(n)
        session.delete("#4")
        now[0] += 10 * DAY
        session.delete("#3")
        now[0] += 10 * DAY
        # The grace of #4 is over, that of #3 is not.
        report = store.gc()
        assert (report.checkpoints, report.sessions, report.waiting) == (1, ("work",), 1)
        past_both = [(5, 2), (2, 0), (1, 0)]
        assert walked(session) == past_both
        session.undo()
        # The parent of #5 was #4: only the log of the deletion knows that #3 lay before it.
        assert walked(session) == [(5, 1), (3, 0), (2, 0), (1, 0)]
        session.redo()
        assert walked(session) == past_both
        assert store.verify().ok


def test_a_redo_does_not_lead_to_what_was_retired_since(backend):
    now = [1_700_000_000_000_000]
    with holdfast.Store(backend, clock=lambda: now[0]) as store:
        session = store.session("work")
        for n in range(1, 6):
            session.save(n, trigger="scheduled" if n == 2 else "manual")
        session.delete("#4")
        now[0] += 15 * DAY
        session.delete("#3")
        store.gc()
        session.undo()
        store.session("work", keep=holdfast.Keep(manual=True)).save(6)
        assert [each.seq for each in session.log()] == [6, 5, 3, 1]
        with pytest.raises(holdfast.NotFoundError) as caught:
            session.redo()
        assert caught.value.code is holdfast.ErrorCode.UNDO_GONE
        assert [each.seq for each in session.log()] == [6, 5, 3, 1]
        assert store.verify().ok


def walked(session):
    return [(each.seq, each.skipped) for each in session.log()]
