"""How a thread stands at the source and in the store: what is new, and whether the two are the same thread at all.

What the store has under a key must be what the source has there; states are compared by their roots, which are equal
only for equal states. All of it is compared before anything of the thread is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from holdfast import Checkpoint as Saved
from holdfast import StateError, Store
from holdfast.integrations.langgraph import keys
from holdfast.integrations.langgraph.importing.likeness import alike
from holdfast.integrations.langgraph.importing.refusing import Spot, located, thread_differs
from holdfast.integrations.langgraph.importing.source import Listed, Source, Write
from holdfast.integrations.langgraph.tuples import Entry, entry_of
from holdfast.objects.state import encode_state
from holdfast.record import Record
from holdfast.store.taken import deleted_keys

_PAGE = 500


class Standing(Record):
    """A thread at both ends."""

    entries: list[Listed]
    """The checkpoints at the source, parents first."""
    missing: set[str]
    """The keys of those that the store does not have."""
    known: dict[str, bytes]
    """What the store has of the thread, by key: a digest of it, because there may be very many."""
    ahead: bool
    """Whether the store has checkpoints that the source has not."""


class Comparing:
    """Tells whether states are the same."""

    def __init__(self, store: Store) -> None:
        self._parts = store._parts  # noqa: SLF001 - what a session of it would encode with
        self._memo: Any = None

    def root(self, state: Any) -> str:
        """The root that a state has when it is saved."""
        encoded = encode_state(state, self._parts.types, self._memo, cuts=self._parts.cuts)
        # States of one thread are much alike: what is the same as in the last one is not encoded again.
        self._memo = encoded.memo
        return encoded.root.hex()

    def same(self, one: Any, other: Any) -> bool:
        """Whether two values are equal, with their types and order."""
        return encode_state(one, self._parts.types).root == encode_state(other, self._parts.types).root

    def alike(self, one: Any, other: Any) -> bool:
        """Whether they are equal but for what is known of their classes (`likeness.py`)."""
        return self.same(one, other) or alike(one, other, self.same)


def compare(source: Source, store: Store, thread: str, target: str, entries: list[Listed]) -> Standing:
    """See what the store has of a thread, in the session `target`.

    Raises:
        ConflictError: It has a session of that id with other content (`history-differs`).
    """
    known = dict(_known(store, target))
    wanted = {keys.checkpoint_key(each.namespace, each.id) for each in entries}
    stored = {key for key in known if _is_checkpoint(key)}
    standing = Standing(entries, wanted - stored, known, ahead=bool(stored - wanted))
    if standing.missing and standing.ahead:
        raise thread_differs(target, store.url, "each of the two has checkpoints that the other has not")
    # What was deleted here is not brought back: its keys are taken until it is gone for good.
    deleted = standing.missing.intersection(deleted_keys(store._backend, target)) if standing.missing else ()  # noqa: SLF001
    for each in (each for each in entries if keys.checkpoint_key(each.namespace, each.id) in deleted):
        raise thread_differs(target, store.url, f"checkpoint {each.id} is there otherwise, or was deleted")
    comparing, strangely = Comparing(store), Comparing(store)
    for each in entries:
        content = known.get(keys.checkpoint_key(each.namespace, each.id))
        if content is None or _content(source, thread, each, comparing) == content:
            continue
        # A class may have become known since it was imported, or be known no more.
        with source.decoder.as_stranger():
            was_unknown = _content(source, thread, each, strangely) == content
        if not was_unknown and not _is_alike(store, target, to_save(source, thread, each), comparing):
            raise thread_differs(target, store.url, f"checkpoint {each.id} has another content there")
    return standing


def _content(source: Source, thread: str, listed: Listed, comparing: Comparing) -> bytes:
    entry = to_save(source, thread, listed)
    with located(Spot(thread, listed.namespace, listed.id)):
        return _digest(comparing.root(entry.state), entry.metadata)


def _is_alike(store: Store, target: str, entry: Entry, comparing: Comparing) -> bool:
    """Whether the store has this checkpoint, with objects of classes that nobody knows here."""
    found = [each for each in store.session(target).keyed(entry.key, limit=1) if each.key == entry.key]
    if not found or found[0].metadata != entry.metadata:
        return False
    try:
        return comparing.alike(next(iter(store.load_each(found))), entry.state)
    except StateError:
        # What it has does not even fit the classes that are known.
        return False


def to_save(source: Source, thread: str, listed: Listed) -> Entry:
    """A checkpoint of the source as the saver would save it."""
    stored = source.checkpoint(thread, listed)
    with located(Spot(thread, listed.namespace, listed.id)):
        entry = entry_of(
            listed.namespace, listed.parent, {**stored.checkpoint, "id": listed.id}, stored.metadata
        )
    return entry._replace(created_at=_moment(stored.checkpoint.get("ts")))


def _moment(text: Any) -> datetime | None:
    """The time that a checkpoint says it was made at. LangGraph writes it in UTC; in other hands it may be anything."""
    try:
        when = datetime.fromisoformat(text)
        return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None


def calls(writes: list[Write]) -> Iterator[dict[str, Any]]:
    """The writes of a checkpoint as calls of put_writes: one for each task, and for each path of a task."""
    grouped: dict[tuple[str, str], list[list[Any]]] = {}
    for each in writes:
        grouped.setdefault((each.task, each.path), []).append([each.place, each.channel, each.value])
    for (task, path), numbered in grouped.items():
        yield {"task_id": task, "task_path": path, "writes": numbered}


def _known(store: Store, thread: str) -> Iterator[tuple[str, bytes]]:
    before: Saved | None = None
    while True:
        page = store.find(session=thread, before=before, limit=_PAGE)
        for saved in page:
            if keys.parse(saved.key) is None:
                raise thread_differs(thread, store.url, f"its checkpoint #{saved.seq} is none of LangGraph's")
            yield saved.key or "", _digest(saved.root, saved.metadata)
        if len(page) < _PAGE:
            return
        before = page[-1]


def _is_checkpoint(key: str) -> bool:
    parsed = keys.parse(key)
    return parsed is not None and parsed.task_id is None


def _digest(root: str, metadata: dict[str, Any]) -> bytes:
    text = json.dumps([root, metadata], sort_keys=True)
    return blake2b(text.encode(), digest_size=16).digest()
