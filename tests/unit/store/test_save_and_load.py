"""Saving and loading: what comes back, what a checkpoint says, and who may move a branch."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest

import holdfast
from holdfast import ConflictError, ErrorCode, InvalidInputError, NotFoundError
from holdfast.history import refs
from holdfast.testing.faults import Fault, FaultyBackend, failing, io_failed


def test_a_checkpoint_says_who_when_and_why(session, clock):
    before = clock.now
    cp = session.save(
        {"x": 1},
        "found it",
        tags=["verified", "golden", "verified"],
        step=7,
        status="paused",
        trigger="auto:tool.completed",
        metadata={"model": "m1", "cost": {"in": 3}},
        tokens=812,
        cost_usd=0.5,
        duration_ms=12,
        key="run-7",
    )
    assert (cp.session, cp.branch, cp.seq, cp.agent, cp.project) == ("s", "main", 1, "scout", "acme")
    assert (cp.message, cp.tags, cp.step, cp.status) == ("found it", ("golden", "verified"), 7, "paused")
    assert (cp.trigger, cp.tokens, cp.cost_usd, cp.duration_ms) == ("auto:tool.completed", 812, 0.5, 12.0)
    assert (cp.key, cp.metadata) == ("run-7", {"model": "m1", "cost": {"in": 3}})
    assert len(cp.id) == 64
    assert cp.parent is None
    assert cp.created_at.timestamp() * 1e6 > before
    assert session.checkpoint(cp.id) == cp
    assert session.checkpoint("@") == cp


def test_an_unchanged_state_has_the_same_root_and_adds_no_chunk(session, store):
    first = session.save({"n": 1})
    before = store.stats()
    second = session.save({"n": 1})
    assert second.root == first.root
    assert second.id != first.id
    assert second.stored_bytes == 0
    assert store.stats().chunks == before.chunks


def test_loading_nothing_is_an_error_or_the_default(session):
    with pytest.raises(NotFoundError) as caught:
        session.load()
    assert caught.value.code is ErrorCode.SESSION_MISSING
    assert session.load(default={"fresh": True}) == {"fresh": True}
    assert session.log() == []


def test_an_ambiguous_prefix_lists_candidates(session, monkeypatch):
    # Two ids that share four digits are rare, so let one digit be enough.
    monkeypatch.setattr(refs, "_HEX", re.compile("[0-9a-f]{1,64}"))
    ids = {session.save({"n": n}).id for n in range(40)}
    prefix = next(digit for digit in "abcdef" if 1 < sum(each[0] == digit for each in ids) <= 10)
    with pytest.raises(NotFoundError) as caught:
        session.load(prefix)
    assert caught.value.code is ErrorCode.REF_AMBIGUOUS
    assert set(caught.value.details["candidates"]) == {each for each in ids if each[0] == prefix}
    with pytest.raises(NotFoundError):
        session.exists(prefix)


def test_a_writer_that_saw_an_older_head_is_refused(session, store):
    session.save({"n": 0})
    other = store.session("s")
    other.load()
    session.save({"n": 1})
    with pytest.raises(ConflictError) as caught:
        other.save({"n": 2})
    assert caught.value.code is ErrorCode.BRANCH_MOVED
    assert session.load() == {"n": 1}
    other.load()
    other.save({"n": 2})


@pytest.mark.parametrize(
    "options",
    [
        {"message": 3},
        {"message": "\x00"},
        {"message": "\ud800"},
        {"message": "x" * 70_000},
        {"tags": "abc"},
        {"tags": ["a,b"]},
        {"tags": ["a~b"]},
        {"tags": ["a\nb"]},
        {"tags": [""]},
        {"tags": [3]},
        {"step": "1"},
        {"step": True},
        {"step": 2**63},
        {"status": "done"},
        {"trigger": "cron"},
        {"trigger": "auto:"},
        {"trigger": 3},
        {"tokens": -1},
        {"tokens": 1.5},
        {"cost_usd": float("nan")},
        {"duration_ms": "fast"},
        {"key": ""},
        {"key": 5},
        {"key": "x" * 1025},
        {"key": "\U0001f600" * 257},
        {"key": "a "},
        {"metadata": ["a"]},
        {"metadata": {1: 2}},
        {"metadata": {"a": (1, 2)}},
        {"metadata": {"a": float("inf")}},
        {"metadata": {"a": {"b": {1, 2}}}},
        {"metadata": {"a": 2**70}},
        {"metadata": {"a": "\ud800"}},
        {"on_conflict": "merge"},
    ],
)
def test_what_cannot_be_kept_is_refused_and_nothing_is_written(store, options):
    with pytest.raises(InvalidInputError) as caught:
        store.session("s").save({}, **options)
    assert caught.value.hint
    assert store.sessions() == []


@pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "\x1b[31m", "x" * 257, 3, None])
def test_session_ids_that_cannot_be_kept(store, name):
    with pytest.raises(InvalidInputError):
        store.session(name)


@pytest.mark.parametrize("name", ["", "a b", "-x", "../x", "a..b", "a/", "@", "#1", "a~1", "tag:x", "a\x00"])
def test_branch_names_that_cannot_be_kept(store, name):
    with pytest.raises(InvalidInputError):
        store.session("s", branch=name)


def test_a_branch_that_does_not_exist_is_not_started_by_accident(session, store):
    session.save({})
    with pytest.raises(NotFoundError) as caught:
        store.session("s", branch="maim").save({})
    assert caught.value.code is ErrorCode.BRANCH_MISSING
    assert "main" in caught.value.hint
    assert store.session("t", branch="idea").save({}).branch == "idea"


def test_a_part_of_a_state_is_loaded_by_its_path(session):
    session.save({"messages": [{"n": n, "text": "x" * 200} for n in range(500)], "plan": {"steps": ["a"]}})
    assert [message["n"] for message in session.load(path="messages[-2:]")] == [498, 499]
    assert session.load("@", path="plan.steps[0]") == "a"
    assert session.load(path="plan.goal", default="none yet") == "none yet"
    with pytest.raises(NotFoundError) as caught:
        session.load(path="plan.goal")
    assert caught.value.code is ErrorCode.PATH_MISSING
    with pytest.raises(InvalidInputError):
        session.load(path="plan[")
    session.save({"after": "a part that was not there"})


def test_a_save_that_failed_leaves_nothing_out_of_the_next_one(session, store):
    """What a writer remembers of its last save must be in the store: chunks of a refused one are not."""
    state = {"log": [f"line {n} " * 30 for n in range(400)]}
    session.save(state)
    other = store.session("s")
    other.load()
    session.save({"n": 1})
    state["log"] += [f"new {n} " * 30 for n in range(400)]
    with pytest.raises(ConflictError):
        other.save(state)
    other.load()
    state["log"].append("last")
    other.save(state)
    assert other.load() == state


def test_only_the_change_is_stored(session):
    state: dict[str, Any] = {"log": [f"line {n} " * 30 for n in range(2000)], "n": 0}
    first = session.save(state)
    state["log"].append("one more")
    state["n"] = 1
    second = session.save(state)
    assert second.stored_bytes * 20 < first.stored_bytes
    assert session.load(first)["log"] == state["log"][:-1]
    again = session.save(state)
    assert again.stored_bytes == 0


def test_a_child_of_a_checkpoint_that_is_deleted_meanwhile_leads_past_it(session, store, backend):
    """The deletion comes between reading and writing: the second try sees it."""
    base = session.save({"n": 0})
    parent = session.save({"n": 1})
    session.save({"n": 2})
    commit = backend.commit
    calls: list[object] = []

    def racing(batch):
        if not calls:
            calls.append(batch)
            store.session("s").delete(parent)
        return commit(batch)

    backend.commit = racing
    other = store.session("s")
    other._writer.expected = parent._row.id
    child = other.save({"n": 3}, on_conflict="fork")
    assert (child.parent, child.prev, child.skipped) == (parent.id, base.id, 1)
    assert [cp.id for cp in other.log()] == [child.id, base.id]


def test_a_store_that_was_replaced_by_an_older_copy_gets_the_whole_state_again(tmp_path):
    big = {"m": [f"line {n} " * 20 for n in range(2000)]}
    store = holdfast.open(tmp_path / "store.db", durability="process")
    s = store.session("s")
    s.save({"m": []})
    store.backup(tmp_path / "copy.db")
    s.save(big)
    os.replace(tmp_path / "copy.db", tmp_path / "store.db")
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"store.db{suffix}").unlink(missing_ok=True)
    s.load()
    s.save({**big, "n": 1})
    assert s.load() == {**big, "n": 1}
    store.close()


@pytest.mark.parametrize("document", [False, True])
def test_saving_goes_on_after_gc_removed_what_the_last_save_left(tmp_path, document):
    state: dict[str, Any] = {"m": [f"line {n} " * 20 for n in range(2000)]}
    with holdfast.open(tmp_path / "store.db", durability="process") as store:
        s = store.session("s")
        first = s.save({"m": []})
        doc = s.document()
        doc["m"] += state["m"]
        saved = doc.save() if document else s.save(state)
        s.delete(saved)
        store.gc(keep_days=0)
        doc["n"] = state["n"] = 1
        again = doc.save(expect=first) if document else s.save(state)
        assert s.load() == state
        assert again.parent == first.id


@pytest.mark.parametrize("again", [True, False], ids=["the same again", "the next one"])
@pytest.mark.parametrize("way", ["commit", "settling"])
def test_a_writer_goes_on_after_a_save_that_ctrl_c_ended_when_the_store_had_it(backend, clock, way, again):
    faulty = FaultyBackend(backend)
    session = holdfast.Store(faulty, clock=clock).session("s")
    for n in range(3):
        session.save({"n": n})
    if way == "commit":
        faulty.plan(Fault("commit", after=failing(KeyboardInterrupt())))
    else:
        faulty.plan(
            Fault("commit", after=failing(io_failed())), Fault("reader", before=failing(KeyboardInterrupt()))
        )
    with pytest.raises(KeyboardInterrupt):
        session.save({"n": 3})
    faulty.plan()
    if again:
        assert session.save({"n": 3}).seq == 4
    assert session.save({"n": 4}).seq == 5
    assert [each.branch for each in session.log()] == ["main"] * 5
    assert session.load("#4") == {"n": 3}
