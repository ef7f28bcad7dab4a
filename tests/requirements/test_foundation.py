"""What the source documents ask of saving, listing and loading; public API only."""

from __future__ import annotations

import time

import pytest

import holdfast


@pytest.fixture
def store(place):
    with holdfast.open(place, durability="process") as opened:
        yield opened


@pytest.mark.requirement("T1")
def test_a_checkpoint_has_id_time_number_message_tags_state_and_trigger(store):
    s = store.session("debug")
    before = time.time()
    first = s.save({"hypotheses": ["h1"]}, "before the fix", tags=["risky", "verified"])
    second = s.save({"hypotheses": ["h1", "h2"]}, trigger="auto:hypothesis.confirmed", tags=["verified"])
    third = s.save({"hypotheses": []}, trigger="scheduled")
    assert len({first.id, second.id, third.id}) == 3
    assert before - 1 <= first.created_at.timestamp() <= time.time() + 1
    assert [first.seq, second.seq, third.seq] == [1, 2, 3]
    assert (first.message, first.tags) == ("before the fix", ("risky", "verified"))
    assert [cp.trigger for cp in (first, second, third)] == [
        "manual",
        "auto:hypothesis.confirmed",
        "scheduled",
    ]
    assert {cp.seq for cp in store.find(tag="verified")} == {1, 2}
    assert s.load(second) == {"hypotheses": ["h1", "h2"]}


@pytest.mark.requirement("T11")
def test_checkpoints_are_found_by_tag_and_listed_without_reading_state(store, monkeypatch):
    s = store.session("debug")
    for n in range(6):
        s.save({"n": n}, f"step {n}", tags=["even"] if n % 2 == 0 else ["odd"])

    def unreadable(*_args):
        raise AssertionError("a listing read state")

    with store._backend.reader() as reader:
        # Whatever decodes a state, and wherever: its bytes come from here.
        monkeypatch.setattr(type(reader), "chunks", unreadable)
    assert [cp.message for cp in store.find(tag="even")] == ["step 4", "step 2", "step 0"]
    assert [cp.message for cp in s.log(limit=2)] == ["step 5", "step 4"]
    assert s.log()[0].size_bytes > 0
    with pytest.raises(AssertionError, match="a listing read state"):
        s.load()


@pytest.mark.requirement("P7")
def test_trigger_duration_and_tokens_are_on_each_checkpoint(store):
    s = store.session("plan")
    s.save({}, trigger="auto:step", duration_ms=120.5, tokens=900)
    s.save({}, trigger="manual", duration_ms=240.0, tokens=1800)
    s.save({}, trigger="error", duration_ms=250.0, tokens=1800)
    recorded = [(cp.trigger, cp.duration_ms, cp.tokens) for cp in reversed(s.log())]
    assert recorded == [("auto:step", 120.5, 900), ("manual", 240.0, 1800), ("error", 250.0, 1800)]
    assert [cp.seq for cp in store.find(trigger="auto")] == [1]
    assert [cp.seq for cp in store.find(trigger="error")] == [3]


@pytest.mark.requirement("P8")
def test_projects_and_sessions_are_listed_and_searched(store):
    for project, session in (("acme", "a1"), ("acme", "a2"), ("zeta", "z1")):
        s = store.session(session, project=project)
        for step in range(3):
            s.save({"step": step}, step=step)
    assert store.projects() == ["acme", "zeta"]
    assert [info.id for info in store.sessions(project="acme")] == ["a1", "a2"]
    (found,) = store.find(session="a2", step=1)
    assert (found.session, found.step) == ("a2", 1)
    since = store.session("a2").checkpoint("#2").created_at
    assert [(cp.session, cp.step) for cp in store.find(project="acme", since=since)] == [("a2", 2), ("a2", 1)]


@pytest.mark.requirement("K3")
def test_save_load_list_delete_exists(store):
    s = store.session("agent-7", agent="scout")
    cps = [s.save({"step": n}, step=n, metadata={"n": n}) for n in range(3)]
    assert s.load() == {"step": 2}
    assert s.load(cps[0].id) == {"step": 0}
    newest = s.log()[0]
    assert (newest.id, newest.agent, newest.step, newest.status) == (cps[2].id, "scout", 2, "running")
    assert (newest.parent, newest.metadata) == (cps[1].id, {"n": 2})
    assert newest.size_bytes > 0
    assert [cp.step for cp in s.log()] == [2, 1, 0]
    assert s.exists(cps[1].id)
    s.delete(cps[1].id)
    assert not s.exists(cps[1].id)
    assert [cp.step for cp in s.log()] == [2, 0]


@pytest.mark.requirement("K9")
@pytest.mark.parametrize("status", ["running", "completed", "failed", "interrupted", "paused"])
def test_status_is_kept_and_searched(store, status):
    s = store.session("agent-7")
    s.save({}, status=status)
    assert s.checkpoint().status == status
    assert len(store.find(status=status)) == 1
    with pytest.raises(holdfast.InvalidInputError):
        s.save({}, status="finished")
