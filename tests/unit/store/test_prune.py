"""prune: a policy carried out on what is there, undone like a delete."""

from __future__ import annotations

import pytest
from tests.unit.store.journal import check_links, kinds_of

import holdfast
from holdfast import BackendError, InvalidInputError, Keep
from holdfast.backends.memory import MemoryBackend
from holdfast.testing.faults import Fault, FaultyBackend, failing, io_failed

HOUR = 3_600_000_000
DAY = 24 * HOUR


def seqs(session):
    return [each.seq for each in session.log()]


def verdicts(report):
    return {each.checkpoint.seq: (each.kept, each.reasons) for each in report.decisions}


@pytest.fixture
def ten(session):
    """Ten checkpoints, a day apart."""
    for n in range(10):
        session.save({"n": n}, f"number {n}", step=n)
        session._writer.parts.clock.now += DAY
    return session


def test_what_goes_is_hidden_and_the_report_says_why(ten, store):
    report = ten.prune(Keep(last=3, days=2, tags=["golden"]), only=True)

    assert (report.total, report.kept, report.deleted, report.dry_run) == (10, 3, 7, False)
    assert [each.checkpoint.seq for each in report.decisions] == list(range(10, 0, -1))
    assert verdicts(report)[10] == (True, ("tip of main", "last 3", "younger than 2 days"))
    assert verdicts(report)[8] == (True, ("last 3",))
    assert verdicts(report)[1] == (False, ("no rule keeps it",))
    assert seqs(ten) == [10, 9, 8]
    assert ten.checkpoint("#8").prev is None
    assert kinds_of(store) == ["prune"]
    check_links(store)


def test_a_dry_run_says_the_same_and_changes_nothing(ten, store):
    before = ten.log()
    planned = ten.prune(Keep(last=4), dry_run=True, only=True)

    assert planned.dry_run
    assert ten.log() == before
    assert kinds_of(store) == []
    assert ten.prune(Keep(last=4), only=True) == planned.replace(dry_run=False)


def test_per_agent_counts_over_all_sessions_of_the_agent_and_each_can_be_undone(store):
    for n in range(9):
        store.session(f"s{n % 3}", agent="scout").save({"n": n}, step=n)
        store.session("other", agent="ranger").save({"n": n}, step=n)
    report = store.session("s1", agent="scout").prune(Keep(at_most=4, per="agent"), only=True)

    assert (report.total, report.kept) == (9, 4)
    assert sorted(each.step for each in store.find(agent="scout")) == [5, 6, 7, 8]
    assert len(store.find(agent="ranger")) == 9
    for name in ("s0", "s1", "s2"):
        assert kinds_of(store, name) == ["prune"]
        store.session(name).undo()
    assert len(store.find(agent="scout")) == 9


def test_a_policy_that_says_nothing_or_is_none_is_refused(ten):
    with pytest.raises(InvalidInputError) as caught:
        Keep()
    assert caught.value.code == "empty-policy"
    with pytest.raises(InvalidInputError, match="must be a Keep"):
        ten.prune({"last": 3})


def test_what_is_saved_between_reading_and_writing_is_decided_about_too(ten, store, monkeypatch):
    """The plan is made anew when the session moved meanwhile: a save is never lost to it."""
    from holdfast.store import operations as changing

    batch = changing._batch
    late: list[object] = []

    def slow(claim, session, plan, entry):
        if not late and plan.kind == "prune":
            late.append(store.session("s").save({"n": "late"}, step=99))
        return batch(claim, session, plan, entry)

    monkeypatch.setattr(changing, "_batch", slow)
    report = ten.prune(Keep(last=2), only=True)

    assert [each.step for each in store.session("s").log()] == [99, 9]
    assert verdicts(report)[11] == (True, ("tip of main", "last 2"))
    assert report.deleted == 9
    assert kinds_of(store) == ["prune"]


@pytest.mark.parametrize("per", ["session", "agent"])
def test_a_prune_whose_reply_is_lost_is_settled_by_looking_into_the_log(clock, per):
    lost = Fault("commit", nth=13, after=failing(io_failed()))
    store = holdfast.Store(FaultyBackend(MemoryBackend(), [lost]), clock=clock)
    for n in range(12):
        store.session(f"s{n % 2}", agent="scout").save({"n": n}, step=n)
    report = store.session("s0", agent="scout").prune(Keep(last=2, per=per), only=True)

    assert report.deleted == (4 if per == "session" else 10)
    assert seqs(store.session("s0")) == ([6, 5] if per == "session" else [6])
    assert kinds_of(store, "s0") == ["prune"]


def test_a_prune_that_did_not_take_place_says_so(clock):
    lost = Fault("commit", nth=4, before=failing(io_failed()))
    store = holdfast.Store(FaultyBackend(MemoryBackend(), [lost]), clock=clock)
    session = store.session("s")
    for n in range(3):
        session.save({"n": n})
    with pytest.raises(BackendError):
        session.prune(Keep(last=1), only=True)

    assert seqs(session) == [3, 2, 1]
    assert kinds_of(store) == []
