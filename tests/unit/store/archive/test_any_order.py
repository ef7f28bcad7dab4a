"""Files of one history in any order: joined where they come at once; otherwise no number that is there ever changes."""

from __future__ import annotations

import pytest
from tests.unit.store.archive.archive_samples import forged

import holdfast
from holdfast import Store


@pytest.fixture
def store():
    with holdfast.open("memory:") as made:
        yield made


@pytest.fixture
def other(anywhere):
    return anywhere


def out(store: Store, folder, *refs: str) -> list:
    files = [folder / f"{number}.json" for number in range(len(refs))]
    for ref, file in zip(refs, files, strict=True):
        store.session("s").export(ref, file)
    return files


def log(store: Store, ref: str) -> list[str]:
    return [each.id for each in store.session("s").log(ref)]


def test_files_that_come_at_once_are_joined_whatever_their_order(store, other, tmp_path):
    session = store.session("s")
    made = [session.save({"n": step}) for step in range(4)]
    out(store, tmp_path, "#4", "#2", "#1", "#3")
    told = other.import_(tmp_path).sessions[0]
    assert (told.checkpoints, told.cut_off, told.branches) == (4, 0, ("main",))
    assert log(other, "main") == [each.id for each in reversed(made)]
    assert other.verify().ok


def test_a_child_that_came_before_its_parent_stays_the_beginning_of_its_line_and_that_is_said(
    store, other, tmp_path
):
    session = store.session("s")
    made = [session.save({"n": step}) for step in range(3)]
    first, second, third = out(store, tmp_path, "#1", "#2", "#3")
    alone = other.import_(third).sessions[0]
    assert (alone.cut_off, alone.parents_missing) == (1, 1)
    assert other.import_(first).sessions[0].cut_off == 0
    before = [(each.id, each.seq, each.prev) for each in other.find()]
    told = other.import_(second).sessions[0]
    assert (told.status, told.checkpoints, told.cut_off, told.branches) == ("updated", 1, 1, ("main-2",))
    assert [(each.id, each.seq, each.prev) for each in other.find()][1:] == before
    assert log(other, "main") == [made[2].id]
    assert log(other, "main-2") == [made[1].id, made[0].id]
    assert other.session("s").checkpoint("main").parents == (made[1].id,)
    assert other.verify().ok
    assert other.import_(second).sessions[0].status == "unchanged"


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


def test_a_parent_that_is_not_older_than_what_was_made_from_it_here_is_refused(store, other, tmp_path):
    store.session("s").save({"n": 0})
    store.session("s").save({"n": 1})
    parent, child = out(store, tmp_path, "#1", "#2")
    # Nobody can tell while the parent is not there.
    other.import_(forged(child, child, created_at="1990-01-01T00:00:00.000000+00:00"))
    with pytest.raises(holdfast.InvalidInputError) as refused:
        other.import_(parent)
    assert refused.value.details["file"] == str(parent)
    assert refused.value.code is holdfast.ErrorCode.ARCHIVE_MALFORMED
    assert len(list(other.find())) == 1
    other.session("s").export(path=tmp_path / "again.jsonl", session=True)
