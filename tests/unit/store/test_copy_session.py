"""`store.copy_session`: a session once more under another name; nothing of its states is read or written."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.store.journal import check_links, current_of, kinds_of
from tests.unit.store.test_copying import rich

import holdfast
from holdfast import BackendError, ConflictError, ErrorCode, InvalidInputError, NotFoundError
from holdfast.storage.records import Query
from holdfast.store.gc import collect_chunks
from holdfast.testing.faults import Fault, FaultyBackend, failing, io_failed
from holdfast.testing.rows import contents

SAME = [
    "branch",
    "root",
    "created_at",
    "trigger",
    "status",
    "step",
    "message",
    "metadata",
    "tokens",
    "cost_usd",
    "duration_ms",
    "app_version",
    "nonce",
    "key",
    "size_bytes",
    "skipped",
    "tags",
    "pinned",
    "edited_message",
    "added_metadata",
    "hidden",
]


def rows_of(store: Any, name: str) -> list[Any]:
    with store._backend.reader() as reader:
        return list(reader.checkpoints(Query(session=name, oldest_first=True)))


def test_a_copy_has_everything_but_its_ids_and_numbers(store):
    s = rich(store)
    before = contents(store._backend)
    assert store.copy_session("work", "again") == len(rows_of(store, "work"))
    old, new = rows_of(store, "work"), rows_of(store, "again")
    assert [[getattr(row, name) for name in SAME] for row in new] == [
        [getattr(row, name) for name in SAME] for row in old
    ]
    assert [row.seq for row in new] == list(range(1, len(old) + 1))
    ids = {mine.id: its.id for mine, its in zip(old, new, strict=True)}
    assert not set(ids) & set(ids.values())
    assert [row.prev for row in new] == [row.prev and ids[row.prev] for row in old]
    assert [row.parents for row in new] == [tuple(ids.get(each, each) for each in row.parents) for row in old]
    again = store.session("again")
    assert {each.name: each.head.id for each in again.branches()} == {
        each.name: ids[bytes.fromhex(each.head.id)].hex() for each in s.branches()
    }
    assert current_of(store, "again") == current_of(store, "work") == "idea"
    assert [(each.agent, each.project) for each in store.sessions()] == [("scout", "acme")] * 2
    assert kinds_of(store, "again") == []
    check_links(store, "again")
    after = contents(store._backend)
    assert (after.stats.chunks, after.stats.stored_bytes) == (before.stats.chunks, before.stats.stored_bytes)
    assert [row for row in after.checkpoints if row.session == "work"] == list(before.checkpoints)
    assert store.verify().problems == ()


def test_a_target_with_checkpoints_is_refused_and_left_alone(store):
    rich(store)
    store.session("there").save({"mine": 1})
    before = contents(store._backend)
    with pytest.raises(ConflictError) as caught:
        store.copy_session("work", "there")
    assert caught.value.code is ErrorCode.SESSION_EXISTS
    assert contents(store._backend) == before
    # What undo can bring back is something too.
    store.session("there").clear()
    with pytest.raises(ConflictError):
        store.copy_session("work", "there")
    store.session("there").undo()
    assert store.session("there").load() == {"mine": 1}


def test_what_cannot_be_copied_is_named(store):
    with pytest.raises(NotFoundError) as missing:
        store.copy_session("none", "b")
    assert missing.value.code is ErrorCode.SESSION_MISSING
    store.session("a").save({})
    for source, target in (("a", "a"), ("a", ""), ("", "b"), ("a", 1)):
        with pytest.raises(InvalidInputError):
            store.copy_session(source, target)
    store.session("a").clear()
    assert store.copy_session("a", "b") == 0
    assert [each.id for each in store.sessions()] == ["a"]


def test_a_lost_reply_is_settled_and_a_failure_is_not_hidden(store):
    rich(store)
    lost = FaultyBackend(store._backend, [Fault("commit", after=failing(io_failed()))])
    assert holdfast.Store(lost).copy_session("work", "again") == len(rows_of(store, "again")) == 13
    failed = FaultyBackend(store._backend, [Fault("commit", before=failing(io_failed()))])
    with pytest.raises(BackendError):
        holdfast.Store(failed).copy_session("work", "third")
    assert rows_of(store, "third") == []


def test_what_is_forgotten_between_reading_and_writing_is_not_copied(store):
    """And with it go its chunks: a copy that was written all the same would have no state."""
    s = rich(store)

    def forget_and_collect() -> None:
        store.forget("work", s.checkpoint("#3"), clean=False)
        collect_chunks(store._backend)

    racing = FaultyBackend(store._backend, [Fault("commit", before=forget_and_collect)])
    assert holdfast.Store(racing).copy_session("work", "again") == 12
    assert racing.calls["commit"] == 2
    assert store.verify().problems == ()
    assert [each.key for each in store.find(session="again", tag="golden")] == []
