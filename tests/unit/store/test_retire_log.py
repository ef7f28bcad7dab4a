"""The operation log of a session that keeps few checkpoints stays small, and is as good as a long one."""

from __future__ import annotations

import pytest
from tests.unit.store.damage import spoil
from tests.unit.store.journal import check_links, kinds_of

import holdfast
from holdfast import ErrorCode, Keep, NotFoundError

FEW = Keep(at_most=3)


def saves(store, count, *, session="s", agent=None, keep=FEW):
    writer = store.session(session, agent=agent, keep=keep)
    for n in range(count):
        writer.save({"n": n})
    return writer


def numbers(store):
    with store._backend.reader() as reader:
        return [entry.number for entry in reader.operations("s")]


def said(store):
    return [each.summary for each in store.session("s").operations()]


def test_five_hundred_saves_leave_one_entry(store):
    saves(store, 500)
    assert kinds_of(store) == ["retire"]
    assert said(store) == ["retire old checkpoints"]
    assert numbers(store) == [1]
    report = store.verify()
    assert report.ok, report.problems
    assert (report.operations, report.checkpoints) == (1, 3)
    with store._backend.reader() as reader:
        (entry,) = reader.operations("s")
    assert len(entry.data) < 100
    with pytest.raises(NotFoundError) as caught:
        store.session("s").undo()
    assert caught.value.code is ErrorCode.NOTHING_TO_UNDO


def test_what_people_did_ends_a_run_and_can_be_undone_across_it(store):
    session = store.session("s", keep=FEW)
    session.save({"n": "first"})
    session.pin("@")
    session.tag("@", "before")
    saves(store, 40)
    session.tag("#1", "between")
    saves(store, 40)
    assert kinds_of(store) == ["pin", "tag", "retire", "tag", "retire"]
    assert [each.kind for each in session.operations(limit=3)] == ["retire", "tag", "retire"]
    assert said(store) == [
        "retire old checkpoints",
        "tag #1 +between",
        "retire old checkpoints",
        "tag #1 +before",
        "pin #1",
    ]
    assert [each.undoable for each in session.operations()] == [False, True, False, True, True]
    assert store.verify().ok

    assert session.undo().kind == "tag"
    assert session.checkpoint("#1").tags == ("before",)
    assert session.undo().kind == "tag"
    assert session.checkpoint("#1").tags == ()
    saves(store, 20)
    assert session.redo().kind == "tag"
    assert session.checkpoint("#1").tags == ("before",)
    saves(store, 20)
    assert session.redo().kind == "tag"
    assert session.checkpoint("#1").tags == ("before", "between")
    assert kinds_of(store)[5:] == ["undo", "undo", "retire", "redo", "retire", "redo"]
    assert store.verify().ok
    check_links(store)


@pytest.fixture
def path(tmp_path):
    """A store with a run of retires between two tags."""
    path = tmp_path / "damaged.db"
    with holdfast.open(path, durability="process") as store:
        session = store.session("s", keep=FEW)
        session.save({})
        session.pin("@")
        saves(store, 30)
        session.tag("#1", "a")
        saves(store, 30)
        assert numbers(store) == [1, 2, 3, 4]
    return path


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_an_entry_that_is_missing_shows_and_is_repaired(path, number):
    spoil(path, "DELETE FROM operations WHERE number = ?", number)
    with holdfast.open(path, durability="process") as store:
        # More of the same does not cover it up.
        saves(store, 5)
        assert [each.kind for each in store.verify().problems] == ["log"]
        assert store.repair().logs_cut == ("s",)
        saves(store, 5)
        assert kinds_of(store) == ["repair", "retire"]
        assert store.verify().ok
