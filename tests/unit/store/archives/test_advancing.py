"""Imports that move branches forward: only where a line goes on from a head, and never past what somebody saved."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast import BackendError, ConflictError, Session, Store
from holdfast.backends.memory import MemoryBackend
from holdfast.store.archives import importing, planning
from holdfast.store.archives.report import BranchAdvance, ImportReport
from holdfast.testing.faults import Fault, FaultyBackend, failing, io_failed


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


def test_what_was_left_beside_before_is_caught_up_with(store, files):
    for each in files[:4]:
        store.import_(each)
    report = store.import_(files[3], advance=True)
    assert heads(store)["main"] == "day 3"
    assert (report.checkpoints, report.sessions[0].status) == (0, "updated")
    again = store.import_(files[3], advance=True)
    assert (only(again), again.sessions[0].status) == ((), "unchanged")
    assert store.verify().ok


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


def test_the_branch_that_an_import_made_beside_goes_forward(store, files):
    store.import_(files[0], advance=True)
    # Day 1 never comes: it was pruned before it was pulled.
    missed = store.import_(files[2], advance=True).sessions[0]
    assert (missed.branches, missed.parted, missed.parents_missing) == (("main-1",), ("main",), 1)
    told = store.import_(files[3]).sessions[0]
    assert (told.could_advance, told.parted, told.branches) == (("main-1",), ("main",), ("main-2",))
    store.session("s").delete_branch("main-2", force=True)
    report = store.import_(files[4], advance=True)
    assert heads(store) == {"main": "day 0", "main-1": "day 2", "main-2": "day 4"}
    assert report.sessions[0].branches == ("main-2",)
    assert store.verify().ok


def test_each_import_after_one_that_was_missed_moves_the_same_branch(store, files):
    store.import_(files[0], advance=True)
    store.import_(files[2], advance=True)
    for day in (3, 4):
        before = store.session("s").checkpoint("main-1").id
        report = store.import_(files[day], advance=True)
        after = store.session("s").checkpoint("main-1").id
        assert only(report) == (BranchAdvance("main-1", before, after),)
        assert (report.sessions[0].branches, report.sessions[0].parted) == ((), ("main",))
        assert heads(store) == {"main": "day 0", "main-1": f"day {day}"}
    assert store.import_(files[4], advance=True).sessions[0].status == "unchanged"
    store.session("s").undo()
    assert heads(store) == {"main": "day 0", "main-1": "day 3"}
    assert store.verify().ok


def test_a_branch_beside_that_somebody_works_on_stays(store, files):
    store.import_(files[0], advance=True)
    store.import_(files[2], advance=True)
    store.session("s", branch="main-1").save({"mine": 1}, "mine")
    report = store.import_(files[3], advance=True)
    assert heads(store) == {"main": "day 0", "main-1": "mine", "main-2": "day 3"}
    assert only(report) == ()


def test_a_branch_with_a_number_that_a_person_made_stays(store, files):
    store.import_(files[0], advance=True)
    store.session("s").fork("@", "main-1")
    store.session("s").save({"mine": 1}, "mine")
    report = store.import_(files[1], advance=True)
    assert heads(store) == {"main": "mine", "main-1": "fork of #1", "main-2": "day 1"}
    assert only(report) == ()
    # One that has the head of another name is none that an import made for this name.
    store.session("s").rename_branch("main-2", "idea-1")
    store.import_(files[2], advance=True)
    assert heads(store)["idea-1"] == "day 1"


def test_a_branch_that_was_renamed_to_one_with_a_number_goes_forward_with_its_line(store, files):
    """It is as one that an import made beside: called so, and saved under the name. It loses nothing, and goes back."""
    store.import_(files[0], advance=True)
    session = store.session("s")
    session.rename_branch("main", "main-1")
    session.fork("#1", "main").save({"mine": 1}, "mine")
    before = session.checkpoint("main-1").id
    report = store.import_(files[1], advance=True)
    after = session.checkpoint("main-1")
    assert only(report) == (BranchAdvance("main-1", before, after.id),)
    assert (after.prev, report.sessions[0].parted, report.sessions[0].branches) == (before, ("main",), ())
    assert heads(store) == {"main": "mine", "main-1": "day 1"}
    session.undo()
    assert heads(store) == {"main": "mine", "main-1": "day 0"}


def test_what_goes_on_from_a_persons_own_branch_under_another_name_does_not_move_it(store, files, tmp_path):
    store.import_(files[0], advance=True)
    store.session("s").fork("@", "main-1").export("@", tmp_path / "fork.json")
    with holdfast.open("memory:") as other:
        other.import_(tmp_path / "fork.json")
        session = other.session("s", branch="main-1")
        session.rename_branch("main-1", "main")
        session.save({"theirs": 1}, "theirs")
        session.export("@", tmp_path / "theirs.json")
    store.session("s").save({"mine": 1}, "mine")
    store.import_(tmp_path / "theirs.json", advance=True)
    assert heads(store) == {"main": "mine", "main-1": "fork of #1", "main-2": "theirs"}


def test_two_lines_that_go_on_from_a_branch_beside_move_nothing(store, files, tmp_path):
    store.import_(files[0], advance=True)
    store.import_(files[2], advance=True)
    for n in (1, 2):
        with holdfast.open("memory:") as other:
            other.import_(files[2])
            other.session("s").save({"n": n}, f"one of two, {n}")
            other.session("s").export("@", tmp_path / "both.jsonl")
    assert only(store.import_(tmp_path / "both.jsonl", advance=True)) == ()
    assert heads(store)["main-1"] == "day 2"


def test_a_branch_goes_where_the_line_of_its_own_name_goes(store, tmp_path):
    with holdfast.open("memory:") as source:
        session = source.session("s")
        for day in range(3):
            session.save({"day": day}, f"day {day}")
        for day in (0, 2):
            session.export(f"#{day + 1}", tmp_path / "some.json", force=True)
            store.import_(tmp_path / "some.json", advance=True)
        assert heads(store) == {"main": "day 0", "main-1": "day 2"}
        # Where they come from, there is a branch of that name too, and both go on from the head that it has here.
        session.fork("@", "main-1")
        session.save({"day": 3}, "day 3")
        session.export(["#4", "#5"], tmp_path / "both.jsonl")
    report = store.import_(tmp_path / "both.jsonl", advance=True)
    assert [each.branch for each in only(report)] == ["main-1"]
    assert heads(store) == {"main": "day 0", "main-1": "fork of #3", "main-2": "day 3"}
    assert store.verify().ok


def test_two_lines_of_one_name_that_go_on_from_a_head_move_nothing(store, tmp_path):
    with holdfast.open("memory:") as source:
        session = source.session("s")
        session.save({"n": 0}, "zero")
        session.export("@", tmp_path / "base.jsonl")
        for n in (1, 2):
            with holdfast.open("memory:") as other:
                other.import_(tmp_path / "base.jsonl")
                other.session("s").save({"n": n}, f"one of two, {n}")
                other.session("s").export("@", tmp_path / "both.jsonl")
    store.import_(tmp_path / "base.jsonl")
    assert only(store.import_(tmp_path / "both.jsonl", advance=True)) == ()
    assert heads(store)["main"] == "zero"
    assert len(heads(store)) == 3


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


def test_who_had_seen_the_old_head_gets_a_conflict(store, files):
    store.import_(files[0])
    session = store.session("s")
    assert session.load() == {"day": 0}
    store.import_(files[1], advance=True)
    with pytest.raises(ConflictError) as caught:
        session.save({"mine": 1})
    assert caught.value.code == "branch-moved"


def test_a_dry_run_says_what_would_move_and_moves_nothing(store, files):
    store.import_(files[0])
    report = store.import_(files[1], advance=True, dry_run=True)
    assert [each.branch for each in only(report)] == ["main"]
    assert heads(store) == {"main": "day 0"}
    assert store.session("s").operations() == []
    moved = store.import_(files[1], advance=True)
    assert only(moved) == only(report)


def test_what_was_removed_here_is_not_gone_on_to(store, files):
    store.import_(files[0], advance=True)
    store.import_(files[1], advance=True)
    store.session("s").delete("@")
    assert heads(store) == {"main": "day 0"}
    report = store.import_(files[1], advance=True)
    assert (only(report), report.sessions[0].removed) == ((), 1)
    assert only(store.import_(files[2], advance=True))
    assert [each.message for each in store.session("s").log()] == ["day 2", "day 0"]
    assert store.verify().ok


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


def test_a_branch_that_was_deleted_here_does_not_come_again(store, tmp_path):
    with holdfast.open("memory:") as source:
        session = source.session("s")
        session.save({"n": 0}, "zero")
        session.fork("@", "idea").save({"n": 1}, "one")
        session.export(["#1", "#2", "#3"], tmp_path / "all.jsonl")
        session.save({"n": 2}, "two")
        session.export(["#1", "#2", "#3", "#4"], tmp_path / "more.jsonl")
    store.import_(tmp_path / "all.jsonl", advance=True)
    assert heads(store) == {"main": "zero", "idea": "one"}
    store.session("s").delete_branch("idea", force=True)
    assert store.import_(tmp_path / "all.jsonl", advance=True).sessions[0].branches == ()
    store.import_(tmp_path / "more.jsonl", advance=True)
    assert heads(store) == {"main": "two"}


def two_sessions(store: Store, tmp_path) -> list[Session]:
    sessions = [store.session(name) for name in ("s", "t")]
    for each in sessions:
        each.save({"n": 0}, "zero")
        each.export("@", tmp_path / "0.jsonl")
    for each in sessions:
        each.save({"n": 1}, "one")
        each.export("@", tmp_path / "1.jsonl")
    return sessions


def test_a_head_goes_back_where_a_later_session_cannot_be_written(here, tmp_path):
    two_sessions(here, tmp_path)
    backend = FaultyBackend(MemoryBackend(), [Fault("adopt", 4, before=failing(io_failed()))])
    with Store(backend) as store:
        store.import_(tmp_path / "0.jsonl")
        with backend.reader() as reader:
            before = reader.session("s"), reader.branches("s")
        with pytest.raises(BackendError):
            store.import_(tmp_path / "1.jsonl", advance=True)
        with backend.reader() as reader:
            assert (reader.session("s"), reader.branches("s")) == before
            assert list(reader.operations("s")) == []
        assert store.verify().ok
        store.import_(tmp_path / "1.jsonl", advance=True)
        assert heads(store) == {"main": "one"}


@pytest.mark.parametrize("known", [False, True])
def test_a_reply_that_was_lost_does_not_move_a_head_twice(files, known):
    fault = Fault("adopt", 3 if known else 2, after=failing(io_failed()))
    with Store(FaultyBackend(MemoryBackend(), [fault])) as store:
        store.import_(files[0])
        if known:
            store.import_(files[1])
        assert only(store.import_(files[1], advance=True))
        assert heads(store)["main"] == "day 1"
        assert len(store.session("s").operations()) == 1
        assert store.verify().ok


def test_the_async_store_has_it_too(files):
    async def work() -> None:
        async with holdfast.aopen("memory:") as store:
            await store.import_(files[0])
            report = await store.import_(files[1], advance=True)
            assert [each.branch for each in only(report)] == ["main"]

    asyncio.run(work())
