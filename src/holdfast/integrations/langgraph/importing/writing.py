"""A thread on its way into the store: checkpoint by checkpoint, each with its writes, as the saver would have put them.

Where a checkpoint goes is the saver's own affair (`threads.py`), so that an imported thread has the branches that it
would have if it had been run here. Of pending writes only those are added that the store does not have: a graph that
went on at the source since the last import has added to them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from holdfast import ConflictError, ErrorCode, Store
from holdfast.integrations.langgraph import keys
from holdfast.integrations.langgraph.describing import writes_message
from holdfast.integrations.langgraph.importing.refusing import thread_differs
from holdfast.integrations.langgraph.importing.standing import Comparing
from holdfast.integrations.langgraph.ranges import groups
from holdfast.integrations.langgraph.threads import Line, Threads, WritesLine, lead_to
from holdfast.integrations.langgraph.tuples import Entry
from holdfast.store.draft import check_draft


class ThreadWriter:
    """Writes one thread."""

    def __init__(self, store: Store, thread: str) -> None:
        self._store = store
        self._thread = thread
        # Where people are is decided when all of it is there.
        self._threads = Threads(store, leads=False)
        self._comparing = Comparing(store)

    def save(self, namespace: str, entry: Entry, *, dry_run: bool) -> None:
        """Save a checkpoint, or in a dry run see that it can be. Its parent, if the source has it, was saved before.

        Raises:
            ConflictError: Somebody else saved another one under its id just now (`history-differs`).
        """
        if dry_run:
            self._comparing.root(entry.state)
            _check(entry.message, entry.key, entry)
            return
        line = self._threads.line(self._thread, namespace)
        try:
            _save(line, entry.state, lambda encoded: line.put(encoded, entry))
        except ConflictError as conflict:
            if conflict.code is not ErrorCode.KEY_TAKEN:
                raise
            # It was not there when the thread was compared, or it was there and deleted.
            why = f"checkpoint {entry.id} is there otherwise, or was deleted"
            raise thread_differs(self._thread, self._store.url, why, begun=True) from conflict

    def lead_to_latest(self) -> None:
        """Put people on the branch of the latest checkpoint, which is what the graph goes on from."""
        latest = next(groups(self._store.session(self._thread), *keys.namespace_range("")), None)
        if latest is not None:
            lead_to(self._store, latest.checkpoint)

    def made_at(self, key: str) -> datetime | None:
        """When the checkpoint of this key was made, if the store has it."""
        found = self._store.session(self._thread).keyed(key, f"{key} ", limit=1)
        return found[0].created_at if found else None

    def new_writes(self, prefix: str, call: dict[str, Any]) -> dict[str, Any]:
        """What of a call the store does not have.

        Raises:
            ConflictError: The store has another value for a write that cannot be replaced (`history-differs`).
        """
        stored = self._store.session(self._thread).keyed(*keys.task_range(prefix))
        if [saved.root for saved in stored] == [self._comparing.root(call)]:
            # The usual case, without loading anything.
            return {**call, "writes": []}
        have: dict[int, list[Any]] = {}
        for state in self._store.load_each(stored):
            for each in state["writes"]:
                # Of errors, interrupts and resumes the last counts, of others the first.
                if each[0] < 0 or each[0] not in have:
                    have[each[0]] = each
        new = []
        for each in call["writes"]:
            before = have.get(each[0])
            if before is not None and self._comparing.alike(before, each):
                continue
            if before is not None and each[0] >= 0:
                why = f"task {call['task_id']} wrote something else to channel {each[1]!r} there"
                raise thread_differs(self._thread, self._store.url, why)
            new.append(each)
        return {**call, "writes": new}

    def save_writes(self, prefix: str, call: dict[str, Any], made: datetime | None, *, dry_run: bool) -> None:
        """Save the writes of a task, made at that time, or in a dry run see that they can be."""
        if dry_run:
            self._comparing.root(call)
            _check(writes_message(call), keys.writes_key(prefix, 0), None)
            return
        line = self._threads.writes(self._thread)
        _save(line, call, lambda encoded: line.append(encoded, prefix, call, created_at=made))


def _save(line: Line | WritesLine, state: Any, write: Callable[[Any], None]) -> None:
    try:
        write(line.encode(state))
    except ConflictError as conflict:
        if conflict.code is not ErrorCode.CHUNKS_GONE:
            raise
        # A collection removed what the bytes relied on; those made now rely on nothing.
        write(line.encode(state))


def _check(message: str, key: str, entry: Entry | None) -> None:
    """See that the record of a checkpoint would be taken as well as its state."""
    check_draft(
        message,
        tags=(),
        step=entry and entry.step,
        status="running",
        trigger=entry.trigger if entry else "auto:writes",
        metadata=entry and entry.metadata,
        tokens=None,
        cost_usd=None,
        duration_ms=None,
        key=key,
        created_at=entry and entry.created_at,
    )
