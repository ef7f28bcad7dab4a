"""What a writer expects of a branch: an equal state is no conflict, and a session opens its current branch."""

from __future__ import annotations

import pytest

from holdfast import ConflictError, ErrorCode, Keep, NotFoundError, Recorder, functions

STATE = {"n": 1, "notes": ["a"]}


def test_a_head_with_the_same_state_is_no_conflict(session, store):
    session.save(STATE)
    # A person puts the same state there once more, with a message.
    noted = store.session("s").save(STATE, "looked at it")
    assert session.save({"n": 2}).prev == noted.id
    assert session.branch == "main"


def test_it_is_one_where_the_caller_says_what_is_expected(session, store):
    first = session.save(STATE)
    store.session("s").save(STATE, "the same")
    with pytest.raises(ConflictError) as caught:
        session.save({"n": 2}, expect=first)
    assert caught.value.code is ErrorCode.BRANCH_MOVED
    with pytest.raises(ConflictError):
        session.save({"n": 2}, expect=first.id)
    assert session.save({"n": 2}).seq == 3


def test_a_document_goes_on_from_the_same_state(session, store):
    session.save(STATE)
    document = session.document()
    noted = store.session("s").save(STATE, "the same")
    document["n"] = 2
    assert document.save().prev == noted.id


def test_a_recorder_does_not_fork_for_a_note(session, store):
    recorder = Recorder(session)
    recorder.connect("parts", functions(lambda: [1, 2], lambda value: None))
    first = recorder.save()
    store.session("s").save(store.session("s").load(), "a note")
    assert recorder.save().branch == first.branch == "main"


def test_a_session_opens_the_current_branch_and_a_name_opens_another(session, store):
    session.save(STATE)
    session.fork(name="idea").save({"n": 2})
    assert store.session("s").branch == "main"
    session.switch("idea")
    assert store.session("s").load() == {"n": 2}
    assert store.session("s", branch="main").load() == STATE
    assert store.session("s").save({"n": 3}).branch == "idea"
    # A Session that was opened before stays where it is.
    elsewhere = store.session("s", branch="main")
    elsewhere.switch("main", remember=False)
    assert store.current_branch("s") == "idea"
    session.undo()
    assert store.session("s").branch == "main"


def test_head_latest_and_bare_numbers_are_refs(session):
    for n in range(6):
        session.save({"n": n})
    assert session.load("HEAD") == session.load("latest") == {"n": 5}
    assert session.load("HEAD~2") == {"n": 3}
    assert session.load("5") == session.load("#5") == {"n": 4}
    assert session.load("5~1") == {"n": 3}
    session.fork("#1", "3")
    with pytest.raises(NotFoundError) as caught:
        session.load("3")
    assert caught.value.code is ErrorCode.REF_AMBIGUOUS
    assert "'#3'" in caught.value.hint
    session.fork("#2", "latest")
    assert session.load("latest") == {"n": 1}
    with pytest.raises(NotFoundError) as caught:
        session.load("77")
    assert caught.value.code is ErrorCode.CHECKPOINT_MISSING


def test_prune_spares_what_is_manual_or_significant(session):
    by_hand = session.save({"n": 0}, "by hand")
    merged = session.save({"n": 1}, trigger="auto:step", tags=["branch_merged"])
    for n in range(2, 8):
        session.save({"n": n}, trigger="auto:step")
    report = session.prune(Keep(at_most=2))
    assert {each.seq for each in session.log()} == {by_hand.seq, merged.seq, 7, 8}
    assert (report.total, report.kept, report.deleted) == (8, 4, 4)
    session.prune(Keep(at_most=2), only=True)
    assert [each.seq for each in session.log()] == [8, 7]
    # Without a policy everything of the last hour stays.
    assert session.prune().deleted == 0
