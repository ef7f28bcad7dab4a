"""Imports that move branches forward: only where a line goes on from a head, and never past what somebody saved."""

from __future__ import annotations

import pytest
from holdfast.store.archives import importing, planning

import holdfast
from holdfast import Session, Store
from holdfast.reports.transfer import BranchAdvance, ImportReport


@pytest.fixture
def store(anywhere):
    return anywhere


@pytest.fixture
def here():
    with holdfast.open("memory:") as made:
        yield made


@pytest.fixture
def files(tmp_path):
    """Five days of one session: the file of each day's only checkpoint."""
    with holdfast.open("memory:") as source:
        session = source.session("s")
        for day in range(5):
            session.save({"day": day}, f"day {day}")
            session.export("@", tmp_path / f"g{day}.json")
    return [tmp_path / f"g{day}.json" for day in range(5)]


def heads(store: Store) -> dict[str, str]:
    return {each.name: each.head.message for each in store.session("s").branches()}


def only(report: ImportReport) -> tuple[BranchAdvance, ...]:
    (session,) = report.sessions
    return session.advanced


def test_files_that_come_day_by_day_move_the_branch_along(store, files):
    assert only(store.import_(files[0], advance=True)) == ()
    before = store.session("s").checkpoint().id
    for day in (1, 2, 3):
        report = store.import_(files[day], advance=True)
        after = store.session("s").checkpoint().id
        assert only(report) == (BranchAdvance("main", before, after),)
        assert report.sessions[0].branches == ()
        assert report.sessions[0].status == "updated"
        assert heads(store) == {"main": f"day {day}"}
        before = after
    assert [each.message for each in store.session("s").log()] == ["day 3", "day 2", "day 1", "day 0"]
    assert store.verify().ok


def test_without_advance_no_head_moves_and_the_report_says_that_it_could(store, files):
    store.import_(files[0])
    report = store.import_(files[1])
    assert heads(store) == {"main": "day 0", "main-1": "day 1"}
    assert report.sessions[0].could_advance == ("main",)
    assert (report.sessions[0].advanced, report.sessions[0].parted) == ((), ())
    assert store.session("s").operations() == []


def test_an_older_file_moves_nothing_back(store, files):
    for each in files[:3]:
        store.import_(each, advance=True)
    assert only(store.import_(files[1], advance=True)) == ()
    assert heads(store) == {"main": "day 2"}


def test_lines_that_part_stay_apart(store, files):
    store.import_(files[0], advance=True)
    store.session("s").save({"mine": 1}, "mine")
    report = store.import_(files[1], advance=True)
    assert heads(store) == {"main": "mine", "main-1": "day 1"}
    assert only(report) == ()
    assert report.sessions[0].parted == ("main",)
    assert report.sessions[0].could_advance == ()


def test_a_writer_who_saves_meanwhile_wins(store, files, monkeypatch):
    store.import_(files[0], advance=True)
    planned = planning.plan_session
    came: list[str] = []

    def between(backend, read, **more):
        plan = planned(backend, read, **more)
        if not came:
            assert plan.moves
            came.append(store.session("s").save({"came": "between"}, "between").id)
        return plan

    monkeypatch.setattr(importing, "plan_session", between)
    report = store.import_(files[1], advance=True)
    assert heads(store) == {"main": "between", "main-1": "day 1"}
    assert only(report) == ()
    assert report.sessions[0].parted == ("main",)
    assert store.session("s").operations() == []
    assert store.verify().ok


def test_undo_brings_the_head_back_and_redo_brings_it_forward(store, files):
    store.import_(files[0], advance=True)
    for each in files[1:4]:
        store.import_(each, advance=True)
    session = store.session("s")
    undone = session.undo()
    assert undone.summary == "import that moved branch 'main' from #3 to #4"
    assert (undone.kind, session.checkpoint().message) == ("import", "day 2")
    session.undo()
    assert heads(store) == {"main": "day 1"}
    session.redo()
    session.redo()
    assert heads(store) == {"main": "day 3"}
    assert store.verify().ok
    session.undo()
    assert only(store.import_(files[3], advance=True)) != ()
    assert heads(store) == {"main": "day 3"}


def test_a_dry_run_says_what_would_move_and_moves_nothing(store, files):
    store.import_(files[0])
    report = store.import_(files[1], advance=True, dry_run=True)
    assert [each.branch for each in only(report)] == ["main"]
    assert heads(store) == {"main": "day 0"}
    assert store.session("s").operations() == []
    moved = store.import_(files[1], advance=True)
    assert only(moved) == only(report)


def test_whole_sessions_move_all_their_branches_and_make_the_new_ones(store, tmp_path):
    with holdfast.open("memory:") as source:
        session = source.session("s")
        session.save({"n": 0}, "zero")
        idea = session.fork("@", "idea")
        session.export(path=tmp_path / "1.jsonl", session=True)
        session.save({"n": 1}, "one")
        idea.save({"n": 2}, "two")
        session.fork("@", "later").save({"n": 3}, "three")
        session.export(path=tmp_path / "2.jsonl", session=True)
        wanted = heads(source)
    store.import_(tmp_path / "1.jsonl", advance=True)
    report = store.import_(tmp_path / "2.jsonl", advance=True)
    assert heads(store) == wanted == {"main": "one", "idea": "two", "later": "three"}
    assert sorted(each.branch for each in only(report)) == ["idea", "main"]
    assert report.sessions[0].branches == ("later",)


def two_sessions(store: Store, tmp_path) -> list[Session]:
    sessions = [store.session(name) for name in ("s", "t")]
    for each in sessions:
        each.save({"n": 0}, "zero")
        each.export("@", tmp_path / "0.jsonl")
    for each in sessions:
        each.save({"n": 1}, "one")
        each.export("@", tmp_path / "1.jsonl")
    return sessions
