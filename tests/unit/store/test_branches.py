"""Branches: fork, list, switch, rename and delete, here and in another session; pins and clearing."""

from __future__ import annotations

import pytest
from tests.unit.store.journal import current_of, entries_of, kinds_of

from holdfast import ConflictError, ErrorCode, InvalidInputError, NotFoundError
from holdfast.history.checkpoint import moment
from holdfast.history.oplog import operation
from holdfast.reports import BranchInfo
from holdfast.storage.records import Batch, Claim


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


def test_the_session_of_a_fork_expects_its_first_checkpoint(session, store):
    session.save({"n": 0})
    idea = session.fork("@", "idea")
    store.session("s", branch="idea").save({"n": 1})
    with pytest.raises(ConflictError) as caught:
        idea.save({"n": 2})
    assert caught.value.code is ErrorCode.BRANCH_MOVED


def test_forking_onto_a_name_that_is_taken_is_refused(session, store):
    session.save({})
    session.fork("@", "idea")
    log = kinds_of(store)
    for name in ("main", "idea"):
        with pytest.raises(ConflictError) as caught:
            session.fork("@", name)
        assert caught.value.code is ErrorCode.BRANCH_EXISTS
        assert caught.value.details == {"session": "s", "branch": name}
    assert kinds_of(store) == log == ["fork"]
    assert session.checkpoint().seq == 1


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


def test_a_fork_into_another_session_begins_there(session, store):
    session.save({"n": 0})
    source = session.save({"n": 1})
    before = store.stats().chunks
    copy = session.fork("@", session="t")
    made = copy.checkpoint()
    assert (copy.id, copy.branch, copy.agent, copy.project) == ("t", "main", "scout", "acme")
    assert (made.session, made.seq, made.parents, made.prev) == ("t", 1, (source.id,), None)
    assert copy.load() == {"n": 1}
    assert copy.log() == [made]
    copy.save({"n": 2})
    assert store.stats().chunks == before + 1
    assert [(info.id, info.agent, info.project) for info in store.sessions()] == [
        ("s", "scout", "acme"),
        ("t", "scout", "acme"),
    ]
    assert (kinds_of(store), kinds_of(store, "t")) == ([], ["fork"])
    assert session.log()[0].seq == 2


def test_a_fork_into_a_session_that_exists_asks_for_nothing_but_a_free_branch(session, store):
    session.save({"n": 0})
    other = store.session("t", agent="other")
    other.save({"n": 100})
    with pytest.raises(ConflictError) as caught:
        session.fork("@", session="t")
    assert (caught.value.code, caught.value.details["session"]) == (ErrorCode.BRANCH_EXISTS, "t")
    assert session.fork("@", "guest", session="t").load() == {"n": 0}
    assert [each.name for each in other.branches()] == ["guest", "main"]
    assert store.sessions()[1].agent == "other"


def test_a_ref_that_names_nothing_forks_nothing(session, store):
    with pytest.raises(NotFoundError):
        session.fork()
    with pytest.raises(NotFoundError):
        session.fork("@", session="t")
    session.save({})
    theirs = store.session("t").save({})
    with pytest.raises(NotFoundError, match="session 't'"):
        session.fork(theirs)
    assert kinds_of(store) == []


def test_branches_lists_heads_by_name_and_marks_the_one_in_use(session, clock):
    assert session.branches() == []
    head = session.save({"n": 0})
    moved = moment(clock.now)
    idea = session.fork("@", "idea")
    first, second = session.branches()
    assert (first.name, first.head, first.current) == ("idea", idea.checkpoint(), False)
    assert second == BranchInfo("main", head, moved, current=True)
    assert [each.name for each in idea.branches() if each.current] == ["idea"]


def test_switching_goes_on_from_the_head_of_the_other_branch(session, store):
    session.save({"n": 0})
    idea = session.fork("@", "idea")
    tip = idea.save({"n": 1})
    assert session.switch("idea", remember=False) == tip
    assert session.branch == "idea"
    assert session.save({"n": 2}).prev == tip.id
    session.switch("main", remember=False)
    idea.save({"n": 3}, expect="@")
    assert kinds_of(store) == ["fork"]
    assert current_of(store) == "main"


def test_a_switched_session_notices_that_the_branch_moved(session, store):
    session.save({"n": 0})
    session.fork("@", "idea")
    session.switch("idea")
    store.session("s", branch="idea").save({"n": 1})
    with pytest.raises(ConflictError):
        session.save({"n": 2})


def test_a_remembered_switch_is_in_the_store_and_in_the_log_once(session, store):
    session.save({})
    session.fork("@", "idea")
    session.switch("idea", remember=True)
    session.switch("idea", remember=True)
    assert current_of(store) == "idea"
    assert kinds_of(store) == ["fork", "switch"]
    assert entries_of(store)[-1].switch == ("main", "idea")


def test_renaming_takes_everything_along(session, store):
    head = session.save({"n": 0})
    info = session.rename_branch("main", "trunk")
    assert (info.name, info.head, info.current) == ("trunk", head, True)
    assert session.branches() == [info]
    assert session.branch == "trunk"
    assert current_of(store) == "trunk"
    assert session.save({"n": 1}).branch == "trunk"
    assert [each.name for each in session.branches()] == ["trunk"]
    assert kinds_of(store) == ["rename"]


def test_a_writer_on_the_old_name_notices_a_rename(session, store):
    session.save({"n": 0})
    other = store.session("s")
    other.load()
    session.rename_branch("main", "trunk")
    with pytest.raises(ConflictError):
        other.save({"n": 1})


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("main", "idea", ErrorCode.BRANCH_EXISTS),
        ("main", "main", ErrorCode.BRANCH_EXISTS),
        ("mian", "x", ErrorCode.BRANCH_MISSING),
    ],
)
def test_a_rename_that_cannot_be_is_refused(session, store, old, new, code):
    session.save({})
    session.fork("@", "idea")
    with pytest.raises((ConflictError, NotFoundError)) as caught:
        session.rename_branch(old, new)
    assert caught.value.code is code
    assert kinds_of(store) == ["fork"]


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


def test_the_last_branch_needs_force_and_its_checkpoints_stay(session, store):
    tip = session.save({"n": 0})
    with store._backend.reader() as reader:
        entry = operation(reader.session("s"), "retire", 1)
    # People are on a branch that is not there, as after a clear.
    store._backend.commit(Batch(claim=Claim("s"), at=1, operations=(entry,), switch_to="elsewhere"))
    idle = store.session("s", branch="elsewhere")
    with pytest.raises(InvalidInputError, match="is the last one") as caught:
        idle.delete_branch("main")
    assert caught.value.code is ErrorCode.PROTECTED
    idle.delete_branch("main", force=True)
    assert session.branches() == []
    assert session.load(tip) == {"n": 0}


def test_people_are_not_left_on_a_branch_that_was_deleted(session, store):
    session.save({})
    session.fork("@", "idea")
    session.fork("@", "plan")
    session.switch("idea", remember=True)
    session.delete_branch("idea", force=True)
    assert current_of(store) == "main"


def test_a_session_whose_branch_was_deleted_does_not_begin_a_new_line_unasked(session):
    session.save({"n": 0})
    idea = session.fork("@", "idea")
    idea.delete_branch("idea", force=True)
    with pytest.raises(ConflictError) as caught:
        idea.save({"n": 1})
    assert caught.value.code is ErrorCode.BRANCH_MOVED
    kept = idea.save({"n": 1}, on_conflict="fork")
    assert (kept.branch, kept.prev) == ("idea-1", session.checkpoint("#2").id)


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


def test_clear_removes_everything_and_a_save_begins_again(session, store):
    assert session.clear() == 0
    session.save({"n": 0})
    session.fork("@", "idea")
    session.save({"n": 1})
    assert session.clear() == 3
    assert (session.branches(), session.log(), store.find()) == ([], [], [])
    again = session.save({"n": 2})
    assert (again.seq, again.parents, again.branch) == (4, (), "main")
    assert kinds_of(store) == ["fork", "clear"]
    assert session.clear() == 1
    assert session.clear() == 0
    assert kinds_of(store) == ["fork", "clear", "clear"]


def test_clear_needs_force_where_something_is_pinned(session):
    session.save({"n": 0})
    session.pin("@")
    with pytest.raises(InvalidInputError) as caught:
        session.clear()
    assert caught.value.code is ErrorCode.PROTECTED
    assert session.clear(force=True) == 1
