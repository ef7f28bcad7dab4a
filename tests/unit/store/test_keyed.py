"""Keys: checkpoints in the order of their keys, and what a save under a key costs."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import ConflictError, ErrorCode, InvalidInputError
from holdfast.testing.faults import Fault, FaultyBackend, failing, io_failed


def keys(found):
    return [each.key for each in found]


@pytest.fixture
def faulty(backend):
    return FaultyBackend(backend)


@pytest.fixture
def writer(faulty, clock):
    """A session that has saved once, with its calls counted from then on."""
    session = holdfast.Store(faulty, clock=clock).session("s")
    session.save({"n": 0}, key="k0")
    faulty.plan()
    return session


def test_checkpoints_come_in_the_order_of_their_keys_whatever_branch_they_are_on(session, store):
    for key in ("b", None, "a", "d", "\N{GRINNING FACE}", "\uffee"):
        session.save({"key": key}, key=key)
    side = session.fork("#1", "side")
    side.save({"key": "c"}, key="c")
    store.session("other").save({}, key="bb")

    assert keys(session.keyed()) == ["a", "b", "c", "d", "\uffee", "\N{GRINNING FACE}"]
    assert keys(session.keyed(reverse=True)) == ["\N{GRINNING FACE}", "\uffee", "d", "c", "b", "a"]
    assert keys(session.keyed("b", "d")) == ["b", "c"]
    assert keys(session.keyed("b", "d", reverse=True, limit=1)) == ["c"]
    assert keys(session.keyed("bb", limit=2)) == ["c", "d"]
    assert keys(session.keyed(stop="b")) == ["a"]
    assert session.keyed("d", "b") == session.keyed(stop="") == []
    (found,) = side.keyed("a", "b")
    assert found == session.checkpoint("#3")
    assert (found.agent, found.project, session.load(found)) == ("scout", "acme", {"key": "a"})


@pytest.mark.parametrize(
    "arguments",
    [
        {"start": None},
        {"start": 3},
        {"start": b"a"},
        {"start": "\x00"},
        {"start": "\ud800"},
        {"stop": 3},
        {"stop": "a\x00"},
        {"stop": "\udfff"},
        {"limit": 0},
        {"limit": "9"},
        {"limit": True},
    ],
)
def test_a_range_that_cannot_be_is_refused(session, arguments):
    session.save({}, key="a")
    with pytest.raises(InvalidInputError) as caught:
        session.keyed(**arguments)
    assert caught.value.code is ErrorCode.BAD_ARGUMENT
    assert next(iter(arguments)) in str(caught.value)
    assert caught.value.hint


def test_the_same_key_and_state_again_is_the_one_that_is_there(writer, faulty, store):
    first = writer.save({"n": 1}, key="k1")
    again = writer.save({"n": 1}, "another message", key="k1")
    assert (again, faulty.calls["reader"]) == (first, 1)
    # Nothing was written, and the writer stands where it stood.
    assert writer.save({"n": 0}, key="k0").seq == 1
    assert writer.save({"n": 2}, key="k2").parents == (first.id,)
    assert [each.seq for each in store.find()] == [3, 2, 1]


def test_the_same_key_with_another_state_is_taken(writer, store):
    first = writer.save({"n": 1}, key="k1")
    with pytest.raises(ConflictError) as caught:
        writer.save({"n": 2}, key="k1")
    assert caught.value.code is ErrorCode.KEY_TAKEN
    assert caught.value.details["existing"] == first.id
    assert writer.save({"n": 2}, key="k2").parents == (first.id,)
    assert len(store.find()) == 3


def test_a_keyed_save_whose_reply_was_lost_is_there_once(writer, faulty):
    faulty.plan(
        Fault("commit", after=failing(io_failed())), Fault("reader", nth=1, before=failing(io_failed()))
    )
    with pytest.raises(holdfast.BackendError):
        writer.save({"n": 1}, key="k1")
    again = writer.save({"n": 1}, key="k1")
    assert writer.save({"n": 2}, key="k2").parents == (again.id,)
    assert [each.seq for each in writer.log()] == [3, 2, 1]
