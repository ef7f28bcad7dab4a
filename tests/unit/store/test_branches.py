"""Branches: fork, list, switch, rename and delete, here and in another session; pins and clearing."""

from __future__ import annotations

import pytest
from tests.unit.store.journal import kinds_of

from holdfast import ErrorCode, InvalidInputError
from holdfast.history.checkpoint import moment
from holdfast.reports import BranchInfo


def test_a_fork_is_one_checkpoint_with_the_same_state_and_no_new_chunk(session, store):
    session.save({"n": 0}, "first")
    source = session.save({"n": 1, "big": list(range(5000))}, "second", step=7, tokens=11, status="paused")
    before = store.stats()
    risky = session.fork("@", "risky")
    made = risky.checkpoint()
    assert (risky.id, risky.branch, risky.agent, risky.project) == ("s", "risky", "scout", "acme")
    assert (made.parents, made.prev, made.skipped) == ((source.id,), source.id, 0)
    assert (made.root, made.size_bytes, made.stored_bytes) == (source.root, source.size_bytes, 0)
    assert (made.trigger, made.message, made.branch, made.seq) == ("fork", "fork of #2", "risky", 3)
    assert (made.step, made.tokens, made.status) == (7, 11, "paused")
    after = store.stats()
    assert (after.chunks, after.checkpoints) == (before.chunks, before.checkpoints + 1)
    assert risky.load() == session.load(source)
    assert session.branch == "main"
    assert session.checkpoint() == source


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a b",
        "../up",
        "a..b",
        "/abs",
        "a/",
        "-x",
        "a\x1b[31m",
        "a\n",
        "tag:x",
        "x~1",
        "@",
        "#3",
        "a" * 300,
    ],
)
def test_a_branch_name_with_control_characters_or_path_tricks_is_refused(session, name):
    session.save({})
    for call in (
        lambda: session.fork("@", name),
        lambda: session.switch(name),
        lambda: session.rename_branch("main", name),
        lambda: session.rename_branch(name, "x"),
        lambda: session.delete_branch(name),
    ):
        with pytest.raises(InvalidInputError) as caught:
            call()
        assert caught.value.code is ErrorCode.BAD_NAME
    assert [each.name for each in session.branches()] == ["main"]


def test_branches_lists_heads_by_name_and_marks_the_one_in_use(session, clock):
    assert session.branches() == []
    head = session.save({"n": 0})
    moved = moment(clock.now)
    idea = session.fork("@", "idea")
    first, second = session.branches()
    assert (first.name, first.head, first.current) == ("idea", idea.checkpoint(), False)
    assert second == BranchInfo("main", head, moved, current=True)
    assert [each.name for each in idea.branches() if each.current] == ["idea"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("main", "is in use"),
        ("plan", "is in use"),
        ("idea", "is the only one that leads to its newest checkpoint"),
    ],
)
def test_a_branch_in_use_or_that_alone_leads_to_its_tip_needs_force(session, name, why):
    session.save({"n": 0})
    session.fork("@", "idea").save({"n": 1})
    session.fork("@", "plan")
    # Other branches lead to the tips of main and plan too; this session is on main, and people are on plan.
    session.fork("plan", "further")
    session.switch("plan")
    session.switch("main", remember=False)
    with pytest.raises(InvalidInputError, match=why) as caught:
        session.delete_branch(name)
    assert caught.value.code is ErrorCode.PROTECTED
    assert "force=True" in caught.value.hint
    assert len(session.branches()) == 4
    session.delete_branch(name, force=True)
    assert len(session.branches()) == 3


def test_a_pin_protects_until_it_is_taken_off(session, store):
    cp = session.save({"n": 0})
    session.save({"n": 1})
    assert session.pin(cp).pinned
    assert session.pin(cp).pinned
    assert session.checkpoint(cp).pinned
    with pytest.raises(InvalidInputError) as caught:
        session.delete(cp)
    assert caught.value.code is ErrorCode.PROTECTED
    assert not session.unpin(cp).pinned
    session.delete(cp)
    assert kinds_of(store) == ["pin", "pin", "delete"]
