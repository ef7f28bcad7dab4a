"""Undo and redo: each operation there and back, what it says, and where it leaves the session."""

from __future__ import annotations

import pytest
from tests.unit.store.journal import check_links, current_of, kinds_of

import holdfast
from holdfast import ConflictError, ErrorCode, Keep, NotFoundError


def picture(store, name="s"):
    """All that people can see of a session."""
    rows = {cp.id: cp.to_dict() for cp in store.find(session=name)}
    heads = {each.name: each.head.id for each in store.session(name).branches()}
    return rows, heads, current_of(store, name)


@pytest.fixture
def lines(session, store):
    """Two branches, a tag and a pin, four checkpoints on main."""
    for n in range(4):
        session.save({"n": n}, f"step {n}")
    session.fork("#2", "idea").save({"n": 100})
    session.tag("#1", "golden")
    session.pin("#3")
    return session


OPERATIONS = {
    "delete the tip": (lambda s: s.delete("@"), "delete"),
    "delete in the middle": (lambda s: s.delete("#3", force=True), "delete"),
    "delete a fork point": (lambda s: s.delete("#2", force=True), "delete"),
    "delete the first": (lambda s: s.delete("#1"), "delete"),
    "restore": (lambda s: s.restore("#1"), "restore"),
    "fork": (lambda s: s.fork("@", "new"), "fork"),
    "tag": (lambda s: s.tag("@", "b", "a"), "tag"),
    "untag": (lambda s: s.untag("#1", "golden"), "tag"),
    "pin": (lambda s: s.pin("@"), "pin"),
    "unpin": (lambda s: s.unpin("#3"), "pin"),
    "message": (lambda s: s.annotate("@", message="said better"), "annotate"),
    "metadata": (lambda s: s.annotate("@", metadata={"a": {"b": [1]}}), "annotate"),
    "prune": (lambda s: s.prune(Keep(last=2), only=True), "prune"),
    "clear": (lambda s: s.clear(force=True), "clear"),
    "switch": (lambda s: s.switch("idea", remember=True), "switch"),
    "rename": (lambda s: s.rename_branch("main", "trunk"), "rename"),
    "rename another": (lambda s: s.rename_branch("idea", "plan"), "rename"),
    "drop": (lambda s: s.delete_branch("idea", force=True), "drop"),
    "drop the one in use": (lambda s: s.delete_branch("main", force=True), "drop"),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_can_be_undone_and_redone_any_number_of_times(lines, store, name):
    operate, kind = OPERATIONS[name]
    before = picture(store)
    operate(lines)
    after = picture(store)
    assert after != before
    for _ in range(3):
        undone = lines.undo()
        assert undone.kind == kind
        assert picture(store) == before
        check_links(store)
        assert lines.redo().replace(head=undone.head) == undone
        assert picture(store) == after
        check_links(store)
    lines.undo()
    assert picture(store) == before
    assert kinds_of(store)[3:] == [kind, *["undo", "redo"] * 3, "undo"]


def test_all_of_it_can_be_undone_in_turn_and_redone_in_turn(lines, store):
    pictures = [picture(store)]
    for operate, _ in OPERATIONS.values():
        try:
            operate(lines)
        except holdfast.HoldfastError:
            continue
        pictures.append(picture(store))
    assert len(pictures) > 10
    for wanted in pictures[-2::-1]:
        lines.undo()
        assert picture(store) == wanted
        check_links(store)
    for wanted in pictures[1:]:
        lines.redo()
        assert picture(store) == wanted
        check_links(store)
    with pytest.raises(NotFoundError) as caught:
        lines.redo()
    assert caught.value.code is ErrorCode.NOTHING_TO_REDO


def test_saves_are_not_undone(session, store):
    session.save({"n": 0})
    session.save({"n": 1})
    with pytest.raises(NotFoundError) as caught:
        session.undo()
    assert caught.value.code is ErrorCode.NOTHING_TO_UNDO
    assert "restore('@-')" in caught.value.hint
    with pytest.raises(NotFoundError) as caught:
        session.redo()
    assert caught.value.code is ErrorCode.NOTHING_TO_REDO
    with pytest.raises(NotFoundError) as caught:
        store.session("nobody").undo()
    assert caught.value.code is ErrorCode.SESSION_MISSING
    assert [each.id for each in store.sessions()] == ["s"]


def test_undoing_something_else_does_not_make_a_session_expect_what_it_has_not_seen(session, store):
    session.save({"n": 0})
    session.tag("@", "a")
    store.session("s").save({"n": 1})
    session.undo()
    with pytest.raises(ConflictError):
        session.save({"n": 2})


def test_operations_lists_what_was_done_newest_first(lines, clock):
    lines.restore("#1")
    lines.rename_branch("idea", "plan")
    lines.delete_branch("plan", force=True)
    lines.undo()
    lines.undo()
    lines.redo()
    lines.fork("#1", session="t")
    lines.delete("#2", force=True)
    lines.annotate("@", message="x")
    lines.unpin("#3")
    lines.switch("plan", remember=True)
    lines.clear(force=True)
    listed = lines.operations(limit=None)
    assert [(each.number, each.summary, each.undoable) for each in reversed(listed)] == [
        (1, "fork #2 on branch 'idea' as #5", True),
        (2, "tag #1 +golden", True),
        (3, "pin #3", True),
        (4, "restore #1 on branch 'main' as #7", True),
        (5, "rename branch 'idea' to 'plan'", False),
        (6, "delete branch 'plan'", False),
        (7, "undo of delete branch 'plan'", False),
        (8, "undo of rename branch 'idea' to 'plan'", False),
        (9, "redo of rename branch 'idea' to 'plan'", True),
        (10, "delete #2", True),
        (11, "annotate #7", True),
        (12, "unpin #3", True),
        (13, "switch from 'main' to 'plan'", True),
        (14, "clear 6 checkpoints", True),
    ]
    assert lines.operations(limit=2) == listed[:2]
    assert len(lines.operations()) == 14
    assert listed[0].at > listed[1].at
    assert [each.undoable for each in lines.operations(limit=6)] == [True] * 6


def test_a_session_that_does_not_exist_has_no_operations(store):
    assert store.session("nobody").operations() == []
    with pytest.raises(holdfast.InvalidInputError):
        store.session("nobody").operations(limit=0)
