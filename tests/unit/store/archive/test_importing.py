"""What an import does to a store: everything or nothing, the same ids, and no head moves."""

from __future__ import annotations

import io
import json
import re

import pytest
from tests.unit.store.archive.archive_samples import STATE, described, filled, forged, ids
from tests.values import identical

import holdfast
from holdfast import (
    ArchiveLimits,
    ConflictError,
    ErrorCode,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)

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


@pytest.mark.parametrize("kind", ["json", "json.gz"])
def test_a_folder_of_files_comes_out_with_the_same_ids(store, other, tmp_path, kind):
    session = filled(store)
    session.export(["#1", "#2", "#3", "#4", "#5", "#6", "#7"], f"{tmp_path}/out/", format=kind)
    report = other.import_(tmp_path / "out")
    assert described(other) == described(store)
    assert set(report.sessions[0].branches) == {"main", "idea"}
    assert [each.id for each in other.session(NAME).log()] == [each.id for each in session.log()]
    assert other.verify().ok


def test_every_type_of_a_state_comes_back(store, other, tmp_path):
    store.session("s").save(STATE)
    store.session("s").export("@", tmp_path / "c.json")
    other.import_(tmp_path / "c.json")
    assert identical(other.session("s").load(), STATE)


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


def test_a_checkpoint_whose_ancestors_are_not_here_begins_a_line(store, other, tmp_path):
    filled(store).export("#5", tmp_path / "c.json")
    other.import_(tmp_path / "c.json")
    made = other.session(NAME).checkpoint()
    assert made.parent == store.session(NAME).checkpoint("#4").id
    assert made.prev is None
    assert other.verify().ok
    assert other.session(NAME).save({"goes": "on"}).parent == made.id


def test_history_leads_past_what_was_pruned_before_the_export(store, other, tmp_path):
    session = filled(store)
    session.delete("#4")
    session.export(path=tmp_path / "all.jsonl", session=True)
    other.import_(tmp_path / "all.jsonl")
    made = other.session(NAME).checkpoint("key:k4")
    assert (made.prev, made.skipped) == (session.checkpoint("#3").id, 1)
    assert other.verify().ok


def test_what_was_removed_here_stays_removed_and_is_told(other, archive):
    other.import_(archive)
    other.session(NAME).delete("#5")
    report = other.import_(archive)
    assert report.sessions[0].removed == 1
    assert not other.session(NAME).exists("key:k4")


def test_a_dry_run_writes_nothing(other, archive):
    report = other.import_(archive, dry_run=True)
    assert report.checkpoints == 7
    assert other.sessions() == []


def test_an_open_stream_is_read_whatever_its_form(store, other, archive):
    other.import_(io.BytesIO(archive.read_bytes()))
    assert ids(other) == ids(store)
    one = io.BytesIO()
    store.session(NAME).export("#1", one)
    one.seek(0)
    assert other.import_(one).unchanged == 1
    assert not one.closed


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


def test_one_bad_line_refuses_the_whole_file(other, archive):
    lines = archive.read_text().splitlines(keepends=True)
    archive.write_text("".join(lines).replace('"step 4"', '"step 5"'))
    with pytest.raises(IntegrityError, match=r"all\.jsonl line 6"):
        other.import_(archive)
    assert other.sessions() == []


def test_a_session_that_was_cut_short_is_refused(other, archive):
    lines = archive.read_text().splitlines(keepends=True)
    archive.write_text("".join(lines[:-2]))
    with pytest.raises(
        IntegrityError, match=r"all\.jsonl .* 2 of 7 checkpoints of session 'research/42' are"
    ):
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


def test_a_cycle_in_the_lineage_is_refused_as_such(store, other, tmp_path):
    filled(store).export(["#1", "#2"], f"{tmp_path}/out/", format="json")
    one, two = sorted((tmp_path / "out").iterdir())
    first, second = (json.loads(each.read_text()) for each in (one, two))
    if second["parents"] != [first["id"]]:
        first, second, one, two = second, first, two, one
    one.write_text(json.dumps(first | {"parents": [second["id"]]}))
    with pytest.raises(InvalidInputError) as caught:
        other.import_(tmp_path / "out")
    assert caught.value.details["reason"] == "lineage-cycle"


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


def test_a_state_as_deep_as_a_state_can_be_goes_out_and_in(store, other, tmp_path):
    deep: list = []
    for _ in range(9_000):
        deep = [deep]
    store.session("s").save(deep)
    store.session("s").export("@", tmp_path / "c.json")
    other.import_(tmp_path / "c.json")
    assert other.session("s").checkpoint().root == store.session("s").checkpoint().root


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


async def _imported(archive, target):
    async with holdfast.aopen("memory:") as store:
        await store.import_(archive)
        await store.session(NAME).export("#1", target)
        return ids(store._store)


def test_the_async_twins_do_the_same(store, archive, tmp_path):
    import anyio

    assert anyio.run(_imported, archive, tmp_path / "c.json") == ids(store)
    assert json.loads((tmp_path / "c.json").read_text())["key"] == "k0"
