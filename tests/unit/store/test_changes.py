"""Tags, annotations, deletion: what changes, what stays, and that each change is in the log."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import ErrorCode, InvalidInputError
from holdfast.history.oplog import check_chain


def log_of(store, name="s"):
    with store._backend.reader() as reader:
        entries = reader.operations(name)
        check_chain(reader.session(name), entries)
        return [entry.kind for entry in entries]


def test_a_change_that_changes_nothing_is_not_logged(session, store):
    session.save({}, tags=["a"])
    session.tag("@", "a")
    session.untag("@", "b")
    assert log_of(store) == []


def test_where_branches_part_is_protected(session, store):
    fork = session.save({"n": 0})
    session.save({"n": 1})
    store.session("s").save({"n": 2}, parent=fork)
    with pytest.raises(InvalidInputError) as caught:
        session.delete(fork)
    assert caught.value.code is ErrorCode.PROTECTED
    session.delete(fork, force=True)
    assert session.checkpoint().prev is None
    assert session.checkpoint("main-1").prev is None


def test_find_filters_combine(session, store):
    session.save({}, step=1, status="running", trigger="auto:tool", metadata={"m": {"n": 1}})
    b = session.save({}, step=2, status="failed", trigger="error", metadata={"m": {"n": 2}})
    store.session("t", project="other").save({}, step=2)
    assert [cp.seq for cp in store.find(session="s")] == [2, 1]
    assert [cp.id for cp in store.find(step=2, project="acme")] == [b.id]
    assert [cp.id for cp in store.find(metadata={"m": {"n": 2}})] == [b.id]
    assert [cp.seq for cp in store.find(trigger="auto")] == [1]
    assert [cp.id for cp in store.find(status="failed", agent="scout")] == [b.id]
    assert len(store.find(limit=2)) == 2
    page = store.find(limit=2)
    assert [cp.position for cp in store.find(before=page[-1])] == [1]
    assert store.find(since=b.created_at, until=b.created_at, session="s") == [b]
    assert [cp.id for cp in store.find(since=b.created_at.isoformat(), session="s")] == [b.id]
    assert store.projects() == ["acme", "other"]
    assert [info.id for info in store.sessions()] == ["s", "t"]
    assert [info.id for info in store.sessions(project="other")] == ["t"]


@pytest.mark.parametrize(
    "bad", [{"since": "soon"}, {"until": 3}, {"limit": 0}, {"limit": True}, {"metadata": {"a": {1}}}]
)
def test_find_refuses_what_it_cannot_ask(store, bad):
    with pytest.raises(InvalidInputError):
        store.find(**bad)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tag": 5},
        {"session": ["s"]},
        {"step": "1"},
        {"status": "runing"},
        {"trigger": "cron"},
        {"metadata": 5},
        {"before": "x"},
        {"key": b"k"},
    ],
)
def test_filters_of_the_wrong_kind_are_refused_rather_than_matching_nothing(store, wrong):
    with pytest.raises(InvalidInputError) as caught:
        store.find(**wrong)
    assert caught.value.hint


@pytest.mark.parametrize("target", [5, b"x", ["a"], object()])
def test_what_cannot_be_a_store_is_refused(target):
    with pytest.raises(InvalidInputError):
        holdfast.open(target)
