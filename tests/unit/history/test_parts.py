"""The parts of history that need no store: ids, refs, names, metadata text, the operation chain."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import IntegrityError, InvalidInputError
from holdfast.history import jsontext
from holdfast.history.checkpoint import checkpoint_id
from holdfast.history.oplog import check_chain, operation
from holdfast.storage.records import CheckpointId, CheckpointRow, ChunkHash, SessionRow

ROW = CheckpointRow(
    id=CheckpointId(b""),
    session="s",
    branch="main",
    parents=(CheckpointId(b"p" * 32),),
    root=ChunkHash(b"r" * 32),
    created_at=5,
    trigger="manual",
    status="running",
    step=1,
    message="m",
    metadata="{}",
    tokens=1,
    cost_usd=1.5,
    duration_ms=2.5,
    app_version="1",
    nonce=b"n" * 16,
    key="k",
    size_bytes=9,
)
HASHED: dict[str, Any] = {
    "session": "t", "branch": "b", "parents": (), "root": b"q" * 32, "created_at": 6, "trigger": "error",
    "status": "failed", "step": None, "message": "n", "metadata": '{"a":1}', "tokens": 2, "cost_usd": None,
    "duration_ms": 0.0, "app_version": None, "nonce": b"o" * 16,
}  # fmt: skip


@pytest.mark.parametrize("name", HASHED)
def test_the_id_covers_everything_the_writer_said(name):
    assert checkpoint_id(ROW._replace(**{name: HASHED[name]})) != checkpoint_id(ROW)


@pytest.mark.parametrize("name", sorted(set(ROW._fields) - set(HASHED)))
def test_the_id_leaves_out_what_the_store_and_people_add(name):
    others: dict[str, Any] = {
        "key": None,
        "prev": b"x" * 32,
        "tags": ("a",),
        "pinned": True,
        "edited_message": "e",
    }
    assert checkpoint_id(ROW._replace(**{name: others.get(name, 77)})) == checkpoint_id(ROW)


def test_parents_and_root_cannot_be_confused():
    moved = ROW._replace(
        parents=(CheckpointId(b"p" * 32), CheckpointId(b"r" * 32)), root=ChunkHash(b"p" * 32)
    )
    assert checkpoint_id(moved) != checkpoint_id(ROW)


TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=8)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(TEXT, JSON, max_size=4))
def test_metadata_comes_back_as_it_was(metadata):
    assert jsontext.parse(jsontext.metadata_text(metadata)) == metadata


def test_metadata_that_is_too_deep_or_too_large_is_refused_with_its_path():
    deep: dict = {}
    for _ in range(100_000):
        deep = {"d": deep}
    with pytest.raises(InvalidInputError) as caught:
        jsontext.metadata_text(deep)
    assert caught.value.details["path"].startswith("metadata['d']['d']")
    with pytest.raises(InvalidInputError):
        jsontext.metadata_text({"a": "x" * (1 << 20)})
    with pytest.raises(InvalidInputError, match=r"metadata\['tools'\]\[1\]"):
        jsontext.metadata_text({"tools": [1, object()]})


def test_conditions_flatten_nested_dicts():
    assert jsontext.conditions({"a": {"b": 1, "c": {}}, "d.e": [1]}) == (
        (("a", "b"), "1"),
        (("a", "c"), "{}"),
        (("d.e",), "[1]"),
    )


def chain(length):
    session = SessionRow(id="s", agent=None, project=None, created_at=0)
    entries = []
    for n in range(length):
        entry = operation(session, "tag", n)
        entries.append(entry)
        session = session._replace(log_count=entry.number, log_tip=entry.hash)
    return session, entries


@pytest.mark.parametrize(
    "damage",
    [
        lambda log: log[:-1],
        lambda log: log[1:],
        lambda log: [log[1], log[0], log[2]],
        lambda log: [log[0], log[1]._replace(data='{"edits":[1]}'), log[2]],
        lambda log: [log[0], log[1]._replace(kind="delete"), log[2]],
        lambda log: [log[0], log[1]._replace(at=99), log[2]],
        lambda log: [*log[:2], log[2]._replace(hash=b"x" * 32)],
    ],
)
def test_a_changed_missing_or_reordered_operation_shows(damage):
    session, entries = chain(3)
    check_chain(session, entries)
    with pytest.raises(IntegrityError):
        check_chain(session, damage(entries))
