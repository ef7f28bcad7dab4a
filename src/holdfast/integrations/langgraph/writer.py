"""Who writes to a thread: one remembered Session for each namespace, and one for the pending writes.

A put that continues the last one is one commit, because the Session knows what that was. Nothing depends on it: every
put names its parent, and where the Session does not stand on that, the parent is looked up. A put whose parent is the
head of a branch continues that branch; any other begins a new one there, so that two children of one checkpoint are
both kept. LangGraph calls from several threads at once, and each line of work takes one at a time.

The branch that people are on (`@` of the command line) follows the root namespace: it should show what the graph shows.
"""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, Final

from holdfast import Checkpoint as Saved
from holdfast import ConflictError, ErrorCode, InvalidInputError, NotFoundError, Session, Store
from holdfast.integrations.langgraph import keys
from holdfast.integrations.langgraph.checkpoints import Entry, may_replace
from holdfast.integrations.langgraph.summary import writes_message, writes_status
from holdfast.objects.codec.paths import key_step

_MOST_LINES = 512
"""Sessions that are remembered. Each holds on to the outline of its last state, not to the state."""

_ATTEMPTS = 100
"""Another process has to come first each time for an attempt to fail, so this many in a row mean something else."""


class Line:
    """What one namespace of a thread writes."""

    def __init__(self, store: Store, thread: str, namespace: str, *, leads: bool = True) -> None:
        self.session = store.session(thread, branch=keys.branch_name(namespace))
        self._store = store
        self._leads = leads and not namespace
        """Whether the branch that people are on follows this line."""
        self._base = self.session.branch
        self._lock = threading.Lock()
        self._last: str | None = None
        """The key of the checkpoint that the Session stands on."""

    def encode(self, state: Any) -> Any:
        """The state as bytes, to be given to `put`."""
        with in_channels(state):
            return self.session.encode(state)

    def put(self, encoded: Any, entry: Entry) -> None:
        """Save a checkpoint as a child of its parent.

        Raises:
            ConflictError: There is another checkpoint of this id (`key-taken`), or what the bytes rely on was removed
                since (`chunks-gone`).
        """
        with self._lock:
            # A save that fails may have left the Session on another branch: only one that succeeds says where it is.
            last, self._last = self._last, None
            # A thread begins on the branch that people are on; where one stands that is taken up is not known.
            is_known = last is not None or entry.parent_key is None
            stood_on = self.session.branch if is_known else None
            try:
                saved = self._continue(last, encoded, entry) or self._place(encoded, entry)
            except (ConflictError, NotFoundError) as error:
                if error.code not in (ErrorCode.BRANCH_MOVED, ErrorCode.BRANCH_MISSING):
                    raise
                # What it stood on was removed by somebody else in this moment: look again.
                saved = self._place(encoded, entry)
            # One that was there before is answered without standing on it.
            self._last = entry.key if self.session.seen == saved.id else None
            _check_same(saved, entry)
            if self._leads and self._last is not None and saved.branch != stood_on:
                # Only where the line goes another way than before, so that going on costs no more than the save.
                lead_to(self._store, saved)

    def _continue(self, last: str | None, encoded: Any, entry: Entry) -> Saved | None:
        """Save it after the last one, if that is its parent."""
        if entry.parent_key is None or entry.parent_key != last:
            return None
        return self._save(encoded, entry, on_conflict="fork")

    def _place(self, encoded: Any, entry: Entry) -> Saved:
        """Save it where it belongs: what that is has to be read."""
        parent = None if entry.parent_key is None else _named(self.session, entry.parent_key)
        if parent is None:
            if self.session.branch != self._base:
                # Not for a new namespace: asking for a branch that is not there lists all that are.
                self._switch(self._base)
            return self._save(encoded, entry, expect=None, on_conflict="fork")
        if self._stand_on(parent):
            return self._save(encoded, entry, on_conflict="fork")
        if self._switch(self._base) is None:
            # A new branch is named after one that there is.
            self._switch(next((each.name for each in self.session.branches()), self._base))
        return self._save(encoded, entry, parent=parent, on_conflict="fork")

    def _stand_on(self, parent: Saved) -> bool:
        """Go to the branch that this is the head of, if there is one."""
        head = self._switch(parent.branch)
        if head is None:
            # The branch that it was saved on has another name now, or is gone.
            name = next((each.name for each in self.session.branches() if each.head.id == parent.id), None)
            head = None if name is None else self._switch(name)
        return head is not None and head.id == parent.id

    def _switch(self, branch: str) -> Saved | None:
        try:
            return self.session.switch(branch, remember=False)
        except NotFoundError:
            return None

    def _save(self, encoded: Any, entry: Entry, **where: Any) -> Saved:
        return self.session.save(
            encoded,
            entry.message,
            step=entry.step,
            status=entry.status,
            trigger=entry.trigger,
            metadata=entry.metadata,
            key=entry.key,
            created_at=entry.created_at,
            **where,
        )


class WritesLine:
    """What tasks of a thread write on its checkpoints: a branch that everybody appends to."""

    def __init__(self, store: Store, thread: str) -> None:
        self.session = store.session(thread, branch=keys.WRITES)
        self._lock = threading.Lock()

    def encode(self, state: Any) -> Any:
        """The state as bytes, to be given to `append`."""
        with in_writes(state):
            return self.session.encode(state)

    def append(
        self, encoded: Any, prefix: str, state: dict[str, Any], *, created_at: datetime | None = None
    ) -> None:
        """Save a call under the first number that is free, or under none if it only repeats the last.

        `created_at` is for writes that were made before, elsewhere.

        Raises:
            ConflictError: What the bytes rely on was removed since (`chunks-gone`).
        """
        with self._lock:
            # Writes that replace others count by their order, so what is there has to be known; of the others the first
            # counts, and nearly always there is none.
            number = self._last_number(prefix) if may_replace(state) else 0
            for _ in range(_ATTEMPTS):
                try:
                    self._save(encoded, keys.writes_key(prefix, number), state, created_at)
                except ConflictError as taken:
                    if taken.code is not ErrorCode.KEY_TAKEN:
                        raise
                    number = max(number, self._last_number(prefix)) + 1
                else:
                    return
            raise ConflictError.session_changed(self.session.id)

    def _last_number(self, prefix: str) -> int:
        rows = self.session.keyed(*keys.task_range(prefix), reverse=True, limit=1)
        return int((rows[0].key or "").rpartition(" ")[2]) if rows else 0

    def _save(self, encoded: Any, key: str, state: dict[str, Any], created_at: datetime | None) -> None:
        message, status = writes_message(state), writes_status(state)
        head: dict[str, Any] = {}
        for _ in range(_ATTEMPTS):
            try:
                self.session.save(
                    encoded,
                    message,
                    status=status,
                    trigger="auto:writes",
                    key=key,
                    created_at=created_at,
                    **head,
                )
            except (ConflictError, NotFoundError) as error:
                if error.code not in (ErrorCode.BRANCH_MOVED, ErrorCode.BRANCH_MISSING):
                    raise
                # Only what this look says counts: another saver may have begun the branch since the last one.
                head = self._look()
            else:
                return
        raise ConflictError.session_changed(self.session.id)

    def _look(self) -> dict[str, Any]:
        """See the head there is, which the next save then expects; without one, that save begins the branch."""
        try:
            self.session.checkpoint()
        except NotFoundError:
            return {"expect": None}
        return {}


class Threads:
    """The lines of the threads that were written to last."""

    def __init__(self, store: Store, *, leads: bool = True) -> None:
        self._store = store
        self._leads = leads
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lines: OrderedDict[tuple[str, str | None], Line | WritesLine] = OrderedDict()
        self._lock = threading.Lock()

    def line(self, thread: str, namespace: str) -> Line:
        """The line of a namespace."""
        found = self._line(thread, namespace)
        assert isinstance(found, Line)
        return found

    def writes(self, thread: str) -> WritesLine:
        """The line of the pending writes."""
        found = self._line(thread, None)
        assert isinstance(found, WritesLine)
        return found

    def drop(self, thread: str) -> None:
        """Forget what was remembered of a thread, because it is not as it was."""
        with self._lock:
            for each in [each for each in self._lines if each[0] == thread]:
                del self._lines[each]

    def _line(self, thread: str, namespace: str | None) -> Line | WritesLine:
        if self._process != os.getpid():
            # After a fork: a lock that another thread of the parent held would never be let go here.
            self._begin()
        with self._lock:
            found = self._lines.get((thread, namespace))
            if found is None:
                store = self._store
                if namespace is None:
                    found = WritesLine(store, thread)
                else:
                    found = Line(store, thread, namespace, leads=self._leads)
                self._lines[thread, namespace] = found
                if len(self._lines) > _MOST_LINES:
                    self._lines.popitem(last=False)
            else:
                self._lines.move_to_end((thread, namespace))
            return found


def _named(session: Session, key: str) -> Saved | None:
    found = session.keyed(key, f"{key} ", limit=1)
    return found[0] if found else None


def lead_to(store: Store, saved: Saved) -> None:
    """Put people on the branch of a checkpoint, if they are on another one."""
    if store.current_branch(saved.session) == saved.branch:
        return
    # The branch may be gone again, or be somebody else's to choose: what was saved is saved all the same. Another
    # Session, because this must not change what the next save expects.
    with suppress(ConflictError, NotFoundError):
        store.session(saved.session).switch(saved.branch, remember=True)


def _check_same(saved: Saved, entry: Entry) -> None:
    """What is there under the id has this state; it has to have this metadata too."""
    if saved.metadata != entry.metadata:
        raise ConflictError.key_taken(
            saved.session, entry.key, existing=bytes.fromhex(saved.id), why="which has other metadata"
        )


_WRITTEN: Final = re.compile(r"state\['writes'\]\[(\d+)\]\[2\]")
_PULLED: Final = "~__pregel_pull, "
"""How LangGraph begins the path of a task that a node has by its edges; the name of the node follows."""

_LONGEST_NAME = 80


@contextmanager
def in_channels(state: Mapping[str, Any]) -> Iterator[None]:
    """Say in which channel it is, or where in the metadata, that a checkpoint cannot be kept."""
    try:
        yield
    except InvalidInputError as error:
        raw = error.details.get("path", "")
        for channel in state.get("channel_values") or ():
            start = f"state['channel_values']{key_step(channel)}"
            if raw == start or raw.startswith((f"{start}[", f"{start}.", f"{start}<")):
                raise _renamed(error, start, _name(channel), "", channel=channel) from error
        if raw.startswith("state['metadata']["):
            raise _renamed(error, "state['metadata']", "metadata", "") from error
        raise


@contextmanager
def in_writes(state: Mapping[str, Any]) -> Iterator[None]:
    """Say what was written to which channel, and by whom, that cannot be kept."""
    try:
        yield
    except InvalidInputError as error:
        found = _WRITTEN.match(error.details.get("path", ""))
        if found is None:
            raise
        channel = state["writes"][int(found[1])][1]
        task, path = state["task_id"], state["task_path"]
        writer = f"task {task!s:.80}"
        if path.startswith(_PULLED):
            writer = f"node {path.removeprefix(_PULLED)!r:.80} ({writer})"
        elif path:
            writer = f"{writer} ({path:.80})"
        details = {"channel": channel, "task_id": task, "task_path": path}
        raise _renamed(error, found[0], _name(channel), f", written by {writer}", **details) from error


def _renamed(error: InvalidInputError, start: str, shown: str, by: str, **details: Any) -> InvalidInputError:
    raw = error.details["path"]
    reason = str(error).removeprefix(f"{raw}: ").replace(start, shown)
    message = f"{shown}{raw.removeprefix(start)}{by}: {reason}"
    return type(error)(message, code=error.code, hint=error.hint, **error.details, **details)


def _name(channel: Any) -> str:
    """A channel as the beginning of a path."""
    # Nothing stops a program from a name that is no text, but the graph.
    if not isinstance(channel, str):
        return key_step(channel)
    return channel if channel.isidentifier() else ascii(channel[:_LONGEST_NAME])
