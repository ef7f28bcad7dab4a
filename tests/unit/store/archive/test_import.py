"""What an import does to a store: everything or nothing, the same ids, and no head moves."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import pytest
from tests.memory import peak
from tests.unit.store.archive.archive_samples import described, filled, forged
from tests.values import identical

import holdfast
from holdfast import (
    ArchiveLimits,
    BackendError,
    ConflictError,
    ErrorCode,
    HoldfastWarning,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    Store,
    UnsupportedError,
)
from holdfast.backends.chunk_codec import RecentChunks
from holdfast.objects.tree import chunk_cache
from holdfast.reports.transfer import BranchAdvance
from holdfast.store import load_many as loading
from holdfast.store.archive import import_
from holdfast.testing.faults import Fault, FaultyBackend, failing, io_failed

NAME = "research/42"


@pytest.fixture
def store():
    with holdfast.open("memory:") as made:
        yield made


@pytest.fixture
def archive(store, tmp_path):
    path = tmp_path / "all.jsonl"
    filled(store).export(path=path, session=True)
    return path


@pytest.mark.parametrize("name", ["all.jsonl", "all.jsonl.gz"])
def test_a_whole_session_comes_out_as_it_was(store, other, tmp_path, name):
    session = filled(store)
    session.switch("idea", remember=True)
    session.export(path=tmp_path / name, session=True)
    report = other.import_(tmp_path / name)
    assert report.sessions[0].status == "new"
    assert report.checkpoints == len(store.find())
    assert described(other) == described(store)
    assert other.current_branch(NAME) == "idea"
    assert identical(other.session(NAME).load("#4"), store.session(NAME).load("#4"))
    heads = {each.name: each.head.id for each in other.session(NAME).branches()}
    assert heads == {each.name: each.head.id for each in session.branches()}
    assert other.verify().ok
    assert other.sessions()[0].agent == "scout"


def test_the_same_import_again_changes_nothing(other, archive):
    other.import_(archive)
    before = [*other.find(), *other.session(NAME).branches()]
    report = other.import_(archive)
    assert report.sessions[0].status == "unchanged"
    assert (report.checkpoints, report.unchanged) == (0, len(other.find()))
    assert [*other.find(), *other.session(NAME).branches()] == before


def test_no_head_moves_and_what_is_new_gets_a_branch_of_its_own(store, other, archive, tmp_path):
    other.import_(archive)
    theirs = other.session(NAME)
    theirs.load()
    mine = theirs.save({"mine": 1})
    session = store.session(NAME)
    session.save({"theirs": 1}, "newer")
    session.export("@", tmp_path / "newer.json")
    report = other.import_(tmp_path / "newer.json")
    assert report.sessions[0].branches == ("main-1",)
    assert other.session(NAME).checkpoint("main").id == mine.id
    assert other.session(NAME, branch="main-1").load() == {"theirs": 1}
    assert other.session(NAME).checkpoint("main-1").prev == session.checkpoint("@~1").id
    assert other.verify().ok


def test_what_was_removed_here_stays_removed_and_is_told(other, archive):
    other.import_(archive)
    other.session(NAME).delete("#5")
    report = other.import_(archive)
    assert report.sessions[0].removed == 1
    assert not other.session(NAME).exists("key:k4")


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("root", "0" * 64, "root-differs"),
        ("state", {"a": 2}, "root-differs"),
        ("message", "other", "id-differs"),
        ("metadata", {"n": 2}, "id-differs"),
        ("parents", ["0" * 64], "id-differs"),
        ("id", "0" * 64, "id-differs"),
        ("created_at", "2026-01-01T00:00:00.000000+00:00", "id-differs"),
        ("session", "other", "id-differs"),
        ("tags", ["other"], "seal-differs"),
        ("key", "other", "seal-differs"),
        ("pinned", True, "seal-differs"),
        ("agent", "other", "seal-differs"),
    ],
)
def test_the_error_names_what_does_not_fit(store, other, tmp_path, field, value, reason):
    store.session("s").save({"a": 1}, "m", tags=["t"], key="k", metadata={"n": 1})
    store.session("s").export("@", tmp_path / "c.json")
    data = json.loads((tmp_path / "c.json").read_text()) | {field: value}
    (tmp_path / "c.json").write_text(json.dumps(data))
    with pytest.raises(IntegrityError) as caught:
        other.import_(tmp_path / "c.json")
    assert caught.value.code is ErrorCode.ARCHIVE_DAMAGED
    assert caught.value.details["reason"] == reason
    assert "c.json" in str(caught.value)
    assert other.sessions() == []


def test_a_session_that_was_cut_short_is_refused(other, archive):
    lines = archive.read_text().splitlines(keepends=True)
    archive.write_text("".join(lines[:-2]))
    with pytest.raises(IntegrityError, match=r"all\.jsonl .* it has 5 of 7 checkpoints"):
        other.import_(archive)
    assert other.sessions() == []


def test_a_key_that_names_another_checkpoint_here_refuses_everything(other, archive):
    other.session("else").save(1)
    other.session(NAME).save({"other": 1}, key="k3")
    before = other.find()
    with pytest.raises(ConflictError) as caught:
        other.import_(archive)
    assert caught.value.code is ErrorCode.KEY_TAKEN
    assert other.find() == before


def test_a_session_of_somebody_else_is_refused(other, archive):
    other.session(NAME, agent="another").save(1)
    with pytest.raises(InvalidInputError) as caught:
        other.import_(archive)
    assert caught.value.code is ErrorCode.SESSION_MISMATCH


def test_a_newer_format_is_refused_with_a_word_about_it(store, other, tmp_path):
    filled(store).export("@", tmp_path / "c.json")
    text = (tmp_path / "c.json").read_text()
    for version, code in (("2", ErrorCode.FORMAT_TOO_NEW), ("0", ErrorCode.FORMAT_TOO_OLD)):
        (tmp_path / "n.json").write_text(re.sub(r'"version": 1\b', f'"version": {version}', text))
        with pytest.raises(UnsupportedError) as caught:
            other.import_(tmp_path / "n.json")
        assert caught.value.code is code


def test_forged_files_with_hashes_that_fit_are_just_checkpoints(store, other, tmp_path):
    store.session("s").save({"a": 1})
    store.session("s").export("@", tmp_path / "c.json")
    forged(tmp_path / "c.json", tmp_path / "f.json", message="said by somebody else")
    assert other.import_(tmp_path / "f.json").checkpoints == 1
    assert other.session("s").checkpoint().message == "said by somebody else"


def test_limits_can_be_lowered_and_raised(store, other, tmp_path):
    store.session("s").save({"a": list(range(1000))})
    store.session("s").export("@", tmp_path / "c.json")
    with pytest.raises(InvalidInputError) as caught:
        other.import_(tmp_path / "c.json", limits=ArchiveLimits(values=100))
    assert caught.value.code is ErrorCode.ARCHIVE_TOO_LARGE
    assert "values=" in caught.value.hint
    assert other.import_(tmp_path / "c.json", limits=ArchiveLimits(values=2000)).checkpoints == 1
    with pytest.raises(InvalidInputError):
        other.import_(tmp_path / "c.json", limits={"values": 3})


def test_what_is_not_there_is_said_so(other, tmp_path):
    with pytest.raises(NotFoundError) as caught:
        other.import_(tmp_path / "nothing.json")
    assert caught.value.code is ErrorCode.SOURCE_MISSING
    with pytest.raises(NotFoundError) as caught:
        other.import_(tmp_path)
    assert caught.value.code is ErrorCode.SOURCE_EMPTY
    with pytest.raises(InvalidInputError):
        other.import_(7)


def test_the_session_that_is_given_must_be_that_of_the_archive(other, archive):
    with pytest.raises(InvalidInputError, match="part of its id"):
        other.import_(archive, session="another")


FILE: dict[str, Any] = {
    "version": "0.0.1",
    "id": "ckpt_abc123",
    "timestamp": 1738790400000,
    "execution_id": "exec_xyz",
    "agent_id": "my-agent",
    "snapshot": {
        "thought_chain": [
            {
                "id": "thought_001",
                "type": "reasoning",
                "content": "I need to analyze the codebase structure",
                "confidence": 0.85,
                "created_at": 1738790300000,
            }
        ],
        "context": {"variables": {"task": "code analysis"}, "state": {}, "history": []},
        "tool_state": {"calls": [], "results": {}},
        "progress": {"step_number": 1, "total_thoughts": 1, "total_tool_calls": 0},
    },
    "metadata": {
        "step_number": 1,
        "tokens_used": 250,
        "duration_ms": 1200,
        "checkpoint_reason": "thought_completed",
    },
}


def written(folder, name="ckpt_abc123.json", **changes):
    path = folder / name
    path.write_text(json.dumps(FILE | changes))
    return path


def test_again_it_is_known_by_its_key_and_another_state_is_a_conflict(store, tmp_path):
    store.import_(written(tmp_path))
    assert store.import_(written(tmp_path)).unchanged == 1
    with pytest.raises(ConflictError) as caught:
        store.import_(written(tmp_path, snapshot={"other": 1}))
    assert caught.value.code is ErrorCode.KEY_TAKEN
    assert len(store.find()) == 1


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"version": "1.0.0"}, UnsupportedError),
        ({"version": 3}, UnsupportedError),
        ({"version": None}, InvalidInputError),
        ({"id": None}, InvalidInputError),
        ({"id": "a\nb"}, InvalidInputError),
        ({"snapshot": None}, InvalidInputError),
        ({"timestamp": "yesterday"}, InvalidInputError),
        ({"timestamp": 10**18}, InvalidInputError),
        ({"timestamp": True}, InvalidInputError),
        ({"metadata": []}, InvalidInputError),
        ({"metadata": {"tokens_used": -1}}, InvalidInputError),
        ({"execution_id": ""}, InvalidInputError),
        ({"agent_id": 7}, InvalidInputError),
    ],
)
def test_a_file_of_another_program_that_cannot_be_kept_is_refused(store, tmp_path, changes, error):
    with pytest.raises(error):
        store.import_(written(tmp_path, **changes))
    assert store.sessions() == []


def out(store, folder, *refs: str) -> list:
    files = [folder / f"{number}.json" for number in range(len(refs))]
    for ref, file in zip(refs, files, strict=True):
        store.session("s").export(ref, file)
    return files


def log(store, ref: str) -> list[str]:
    return [each.id for each in store.session("s").log(ref)]


def heads(store) -> dict[str, str]:
    return {each.name: each.head.message for each in store.session("s").branches()}


def test_history_leads_past_what_was_removed_here(store, other, tmp_path):
    session = store.session("s")
    for step in range(3):
        session.save({"n": step})
    first, second, third = out(store, tmp_path, "#1", "#2", "#3")
    other.import_(first)
    other.import_(second)
    other.session("s").delete("main-1")
    other.import_(third)
    last = other.session("s").checkpoint(session.checkpoint("#3").id)
    assert (last.prev, last.skipped) == (session.checkpoint("#1").id, 1)
    assert other.verify().ok


@pytest.fixture
def days(tmp_path):
    """Five days of one session: the file of each day's only checkpoint."""
    with holdfast.open("memory:") as source:
        session = source.session("s")
        for day in range(5):
            session.save({"day": day}, f"day {day}")
            session.export("@", tmp_path / f"g{day}.json")
    return [tmp_path / f"g{day}.json" for day in range(5)]


def test_with_advance_files_that_come_day_by_day_move_the_branch_along(anywhere, days):
    assert anywhere.import_(days[0], advance=True).sessions[0].advanced == ()
    before = anywhere.session("s").checkpoint().id
    for day in (1, 2, 3):
        [told] = anywhere.import_(days[day], advance=True).sessions
        after = anywhere.session("s").checkpoint().id
        assert told.advanced == (BranchAdvance("main", before, after),)
        assert (told.branches, told.status) == ((), "updated")
        assert heads(anywhere) == {"main": f"day {day}"}
        before = after
    # An older file moves nothing back.
    assert anywhere.import_(days[1], advance=True).sessions[0].advanced == ()
    assert heads(anywhere) == {"main": "day 3"}
    session = anywhere.session("s")
    undone = session.undo()
    assert (undone.kind, session.checkpoint().message) == ("import", "day 2")
    session.redo()
    assert heads(anywhere) == {"main": "day 3"}
    assert anywhere.verify().ok


def test_without_advance_the_report_says_that_a_branch_could_and_the_same_import_moves_it(other, days):
    other.import_(days[0])
    [told] = other.import_(days[1]).sessions
    assert heads(other) == {"main": "day 0", "main-1": "day 1"}
    assert (told.could_advance, told.advanced) == (("main",), ())
    assert other.session("s").operations() == []
    [would] = other.import_(days[1], advance=True, dry_run=True).sessions
    assert [each.branch for each in would.advanced] == ["main"]
    assert heads(other)["main"] == "day 0"
    assert other.import_(days[1], advance=True).sessions[0].advanced == would.advanced
    assert heads(other)["main"] == "day 1"


def test_whole_sessions_move_all_their_branches_and_make_the_new_ones(store, other, tmp_path):
    session = store.session("s")
    session.save({"n": 0}, "zero")
    idea = session.fork("@", "idea")
    session.export(path=tmp_path / "1.jsonl", session=True)
    session.save({"n": 1}, "one")
    idea.save({"n": 2}, "two")
    session.fork("@", "later").save({"n": 3}, "three")
    session.export(path=tmp_path / "2.jsonl", session=True)
    other.import_(tmp_path / "1.jsonl", advance=True)
    [told] = other.import_(tmp_path / "2.jsonl", advance=True).sessions
    assert heads(other) == heads(store) == {"main": "one", "idea": "two", "later": "three"}
    assert sorted(each.branch for each in told.advanced) == ["idea", "main"]
    assert told.branches == ("later",)


class Between:
    """A backend to which somebody writes just before something is adopted."""

    def __init__(self, backend, write) -> None:
        self._backend = backend
        self._write = write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def adopt(self, batch) -> None:
        write, self._write = self._write, lambda: None
        write()
        self._backend.adopt(batch)


@pytest.mark.parametrize("advance", [False, True])
def test_somebody_who_writes_meanwhile_is_not_written_over(anywhere, days, advance):
    anywhere.import_(days[0])

    def write():
        anywhere.session("s").save({"came": "between"}, "between")

    between = Store(Between(anywhere._backend, write))
    [told] = between.import_(days[1], advance=advance).sessions
    assert heads(anywhere) == {"main": "between", "main-1": "day 1"}
    assert told.advanced == ()
    assert anywhere.verify().ok


def test_large_sessions_go_ahead_in_parts_and_come_out_the_same(store, anywhere, tmp_path, monkeypatch):
    monkeypatch.setattr(import_, "_AT_ONCE", 500)
    monkeypatch.setattr(import_, "_PART", 500)
    filled(store).export(path=tmp_path / "a.jsonl", session=True)
    anywhere.import_(tmp_path / "a.jsonl")
    assert described(anywhere) == described(store)
    assert anywhere.verify().ok
    anywhere.session(NAME).export(path=tmp_path / "b.jsonl", session=True)
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


@pytest.mark.parametrize("hook", ["before", "after"])
def test_a_store_that_fails_at_any_write_has_whole_sessions_and_the_next_import_finishes(
    anywhere, tmp_path, monkeypatch, hook
):
    monkeypatch.setattr(import_, "_AT_ONCE", 2000)
    monkeypatch.setattr(import_, "_PART", 2000)
    (tmp_path / "folder").mkdir()
    with holdfast.open("memory:") as source:
        for name in "ab":
            for step in range(4):
                source.session(name).save({"step": step, "noise": [f"{name}{each}" for each in range(300)]})
            source.session(name).export(path=tmp_path / "folder" / f"{name}.jsonl", session=True)
    failures = 0
    for number in range(1, 100):
        broken = {hook: failing(io_failed())}
        faulty = Store(FaultyBackend(anywhere._backend, [Fault("adopt", number, **broken)]))
        try:
            faulty.import_(tmp_path / "folder")
        except BackendError as error:
            failures += 1
            told = error.details["imported"]
        else:
            break
        assert told == [name for name in "ab" if anywhere.find(session=name)]
        assert all(len(anywhere.find(session=name)) == 4 for name in told)
        assert anywhere.verify().ok
    # Where only the reply was lost, the rows are found to be there.
    assert failures >= (2 if hook == "before" else 0)
    assert anywhere.import_(tmp_path / "folder").checkpoints == 0
    assert [len(anywhere.find(session=name)) for name in "ab"] == [4, 4]


def test_memory_is_that_of_the_largest_checkpoint_however_many_there_are(tmp_path, monkeypatch):
    # What is read and sent together has fixed sizes; with small ones, fewer states show that nothing else grows.
    for name in ("_AT_ONCE", "_PART", "_IN_MEMORY"):
        monkeypatch.setattr(import_, name, 500_000)
    monkeypatch.setattr(loading, "_PAGE_BYTES", 500_000)
    monkeypatch.setattr(chunk_cache, "KEPT_BYTES", 500_000)
    monkeypatch.setattr(RecentChunks.__init__, "__defaults__", (500_000,))
    with holdfast.open(tmp_path / "a.db", durability="process") as store:
        for count, name in ((20, "few"), (120, "many")):
            session = store.session(name)
            for _ in range(count):
                session.save({"noise": os.urandom(75_000)})

        def export(name, look):
            store.session(name).export(path=tmp_path / f"{name}{look}.jsonl", session=True)

        enough = 1.5 * peak(lambda look: export("few", look))
        assert peak(lambda look: export("many", look), below=enough) < enough

    def bring(name, look):
        with holdfast.open(tmp_path / f"{name}{look}.db", durability="process") as store:
            store.import_(tmp_path / f"{name}0.jsonl")

    enough = 1.5 * peak(lambda look: bring("few", look))
    # Of 9 MB; what grows is a hash and a place for each chunk.
    assert peak(lambda look: bring("many", look), below=enough) < enough


def test_a_torn_last_line_costs_that_line_alone(store, other, tmp_path):
    path = tmp_path / "log.jsonl"
    session = filled(store)
    session.export("#1..#4", path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.warns(HoldfastWarning, match="line 3 is cut short"):
        assert other.import_(path).checkpoints == 2
    # Nowhere else: a line that is not whole was changed.
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(InvalidInputError, match="line 3"):
        other.import_(path)
