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
    assert said(store) == ["retire 497 checkpoints"]
    assert numbers(store) == [497]
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
        "retire 40 checkpoints",
        "tag #1 +between",
        "retire 37 checkpoints",
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


def test_entries_far_back_are_found_behind_a_long_run(store):
    session = store.session("s", keep=FEW)
    session.save({})
    session.pin("@")
    for n in range(50):
        session.tag("@", f"t{n}")
    saves(store, 300)
    for n in range(49, -1, -1):
        assert session.undo().summary == f"tag #1 +t{n}"
    assert session.undo().kind == "pin"
    assert not session.checkpoint("#1").pinned


def test_a_run_after_forget_begins_anew(store):
    session = saves(store, 20)
    store.forget("s", "@~1")
    saves(store, 20)
    assert kinds_of(store) == ["forget", "retire"]
    assert said(store)[0] == "retire 19 checkpoints"
    assert store.verify().ok
    with pytest.raises(NotFoundError) as caught:
        session.undo()
    assert caught.value.code is ErrorCode.UNDO_GONE


def test_gc_and_prune_by_hand_are_entries_of_their_own(store, clock):
    session = saves(store, 20)
    session.prune(Keep(last=1))
    saves(store, 5)
    clock.now += 30 * 86_400_000_000
    store.gc()
    saves(store, 5)
    assert kinds_of(store) == ["retire", "prune", "retire", "gc", "retire"]
    assert store.verify().ok


def test_each_session_of_an_agent_has_one_entry(store):
    for _ in range(10):
        for name in ("s", "t"):
            saves(store, 5, session=name, agent="scout", keep=Keep(at_most=4, per="agent"))
    assert kinds_of(store, "s") == kinds_of(store, "t") == ["retire"]
    assert store.verify().ok


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
        assert numbers(store) == [1, 28, 29, 59]
    return path


@pytest.mark.parametrize("number", [1, 28, 29, 59])
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


@pytest.mark.parametrize("number", [28, 59])
def test_a_damaged_entry_stays_for_verify_and_retention_goes_on(path, number):
    spoil(path, "UPDATE operations SET at = at + 1 WHERE number = ?", number)
    with holdfast.open(path, durability="process") as store:
        session = saves(store, 5)
        assert len(session.log()) == 4
        assert {each.kind for each in store.verify().problems} >= {"operation", "log"}
        store.repair()
        assert store.verify().ok


def test_a_whole_log_with_gaps_outlives_a_repair(path):
    spoil(path, "UPDATE chunks SET data = x'00' WHERE number = (SELECT max(number) FROM chunks)")
    with holdfast.open(path, durability="process") as store:
        assert not store.verify().ok
        report = store.repair()
        assert report.logs_cut == ()
        assert kinds_of(store) == ["pin", "retire", "tag", "retire", "repair"]
        assert numbers(store) == [1, 28, 29, 59, 60]
        saves(store, 5)
        assert numbers(store)[:5] == [1, 28, 29, 59, 60]
        assert [each.kind for each in store.session("s").operations()][1:] == [
            "repair",
            "retire",
            "tag",
            "retire",
            "pin",
        ]
        assert store.verify().ok
