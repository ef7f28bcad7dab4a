"""How a thread stands at the source and in the store: what is new, and whether the two are the same thread at all.

What the store has under a key must be what the source has there; states are compared by their roots, which are equal
only for equal states. All of it is compared before anything of the thread is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

from holdfast import Checkpoint as Saved
from holdfast import Store
from holdfast.integrations.langgraph import keys
from holdfast.integrations.langgraph.importing.refusing import Spot, located, thread_differs
from holdfast.integrations.langgraph.importing.source import Listed, Source, Write
from holdfast.integrations.langgraph.tuples import Entry, entry_of
from holdfast.objects.state import encode_state
from holdfast.record import Record

_PAGE = 500


class Standing(Record):
    """A thread at both ends."""

    thread: str
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


def compare(source: Source, store: Store, thread: str, entries: list[Listed]) -> Standing:
    """See what the store has of a thread.

    Raises:
        ConflictError: It has a session of that id with other content (`history-differs`).
    """
    known = dict(_known(store, thread))
    wanted = {keys.checkpoint_key(each.namespace, each.id) for each in entries}
    stored = {key for key in known if _is_checkpoint(key)}
    standing = Standing(thread, entries, wanted - stored, known, ahead=bool(stored - wanted))
    if standing.missing and standing.ahead:
        raise thread_differs(thread, store.url, "each of the two has checkpoints that the other has not")
    comparing = Comparing(store)
    for each in entries:
        content = known.get(keys.checkpoint_key(each.namespace, each.id))
        if content is None:
            continue
        entry = to_save(source, thread, each)
        with located(Spot(thread, each.namespace, each.id)):
            root = comparing.root(entry.state)
        if _digest(root, entry.metadata) != content:
            raise thread_differs(thread, store.url, f"checkpoint {each.id} has another content there")
    return standing


def to_save(source: Source, thread: str, listed: Listed) -> Entry:
    """A checkpoint of the source as the saver would save it."""
    stored = source.checkpoint(thread, listed)
    with located(Spot(thread, listed.namespace, listed.id)):
        return entry_of(
            listed.namespace, listed.parent, {**stored.checkpoint, "id": listed.id}, stored.metadata
        )


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
