"""The two halves of a save, one after the other: `encode` and `save`."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast
from holdfast.errors import ConflictError, ErrorCode


def test_what_is_encoded_is_what_is_saved_whatever_happens_to_the_state(session):
    state: dict[str, Any] = {"messages": [{"n": n, "text": "x" * 100} for n in range(500)]}
    encoded = session.encode(state)
    state["messages"].append("later")
    saved = session.save(encoded, "first", key="k")
    assert (saved.message, saved.key, len(session.load()["messages"])) == ("first", "k", 500)
    assert session.save(session.encode(state)).seq == 2
    assert session.load()["messages"][-1] == "later"


def test_what_builds_on_a_state_that_is_gone_is_refused_and_the_whole_is_taken(session, store):
    base = {"messages": [{"n": n, "text": "x" * 100} for n in range(500)]}
    first = session.save(base)
    encoded = session.encode(base | {"more": 1})
    store.forget(session.id, clean=False)
    store.gc(keep_days=0)
    assert not store.find(session=session.id)
    with pytest.raises(ConflictError) as caught:
        session.save(encoded, expect=None)
    assert caught.value.code is ErrorCode.CHUNKS_GONE
    saved = session.save(session.encode(base | {"more": 1}), expect=None)
    assert (saved.seq, saved.root != first.root, session.load()["more"]) == (1, True, 1)


def test_what_another_session_encoded_is_refused_with_what_to_do(session, store):
    base = {"messages": [{"n": n, "text": "x" * 100} for n in range(300)]}
    session.save(base)
    encoded = session.encode(base | {"more": 1})
    assert encoded.relies_on is not None
    # It names the checkpoint that it builds on, so that any writer of this store can save it ...
    assert store.session("t").save(encoded).seq == 1
    # ... and one that has no name for it says so.
    with pytest.raises(ConflictError) as caught:
        store.session("u").save(encoded._replace(kept_by=None))
    assert caught.value.code is ErrorCode.CHUNKS_GONE
    assert "encode the state again" in caught.value.hint


def test_what_was_encoded_for_another_store_is_refused(session):
    base = {"messages": [{"n": n, "text": "x" * 100} for n in range(300)]}
    session.save(base)
    encoded = session.encode(base | {"more": 1})
    with holdfast.open("memory:") as other, pytest.raises(ConflictError) as caught:
        other.session("s").save(encoded)
    assert caught.value.code is ErrorCode.CHUNKS_GONE
