"""Reading a range of keys backwards: checkpoints newest first, each with the records of its writes.

Only records are read here, page by page; states are loaded by whoever wants them. Writes whose checkpoint is not there
are passed over: LangGraph stores them before the checkpoint, and a process that died in between leaves them behind.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from holdfast import Checkpoint as Saved
from holdfast import NotFoundError, Session, Store
from holdfast.integrations.langgraph.keys import Key, checkpoint_range, parse
from holdfast.record import Record

_FIRST_PAGE = 8
"""Most who ask want the latest, with the few writes that are on it."""

_PAGE = 200
_GROWTH = 5

_MOST_PASSED = 40
"""Checkpoints that are read and not wanted, before it is cheaper to look for the one that is."""

_MOST_WALKS = 256
"""Namespaces that a listing of everything goes along at once. Each may hold a page of records."""


class Group(Record):
    """A checkpoint of LangGraph as it is stored."""

    key: Key
    checkpoint: Saved
    writes: list[Saved]
    """In the order of their keys."""


def groups(session: Session, start: str, stop: str, *, first: int = _FIRST_PAGE) -> Iterator[Group]:
    """The checkpoints whose keys are in the range, from its end to its start."""
    size = first
    owner, writes = "", list[Saved]()
    while True:
        rows = session.keyed(start, stop, reverse=True, limit=size)
        for row in rows:
            key = parse(row.key)
            if key is None:
                continue
            if key.owner != owner:
                owner, writes = key.owner, []
            if key.task_id is None:
                yield Group(key, row, writes[::-1])
            else:
                writes.append(row)
        if len(rows) < size:
            return
        stop = rows[-1].key or ""
        size = min(size * _GROWTH, _PAGE)


def one(session: Session, key: str) -> Group | None:
    """The checkpoint of this key."""
    return next(groups(session, *checkpoint_range(key)), None)


class Walks:
    """Checkpoints with their writes, for whoever comes across their records one by one, from new to old.

    The next record of a namespace is mostly the one before in the order of keys, so what was read for one is kept for
    those to come: a page serves many. Where they come in another order, each is looked up.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: OrderedDict[tuple[str, str], Iterator[Group]] = OrderedDict()

    def group_of(self, saved: Saved, key: Key) -> Group | None:
        """The checkpoint of this record, whose key is this; None if it is not there any more."""
        start = f"{key.owner.partition(' ')[0]} "
        walk = self._open.pop((saved.session, start), None)
        group = None
        if walk is not None:
            # Those that come later in the order of keys were not asked for, or will be looked up.
            passed = islice(walk, _MOST_PASSED)
            group = next((each for each in passed if each.key.owner <= key.owner), None)
        if walk is None or group is None or group.key.owner != key.owner:
            walk = groups(self._store.session(saved.session), start, checkpoint_range(key.owner)[1])
            group = next(walk, None)
        self._open[saved.session, start] = walk
        if len(self._open) > _MOST_WALKS:
            self._open.popitem(last=False)
        return group if group is not None and group.key.owner == key.owner else None


def arrivals(store: Store, thread: str | None, is_meant: Callable[[Key, Saved], bool]) -> Iterator[Group]:
    """The checkpoints of a thread, or of all threads, in whatever namespace: the last that was saved comes first.

    Writes are read only of those that are meant, by what their records say.
    """
    walks = Walks(store)
    before: Saved | None = None
    while True:
        rows = store.find(session=thread, before=before, limit=_PAGE)
        for row in rows:
            key = parse(row.key)
            if key is None or key.task_id is not None or not is_meant(key, row):
                continue
            found = walks.group_of(row, key)
            if found is not None:
                yield found
        if len(rows) < _PAGE:
            return
        before = rows[-1]


def loaded(store: Store, found: Iterable[Group]) -> Iterator[tuple[Group, Any, list[Any]]]:
    """Groups with their states, and those of their writes; a page of them is read at once, each when its turn comes."""
    waiting: deque[Group] = deque()

    def records() -> Iterator[Saved]:
        for group in found:
            waiting.append(group)
            yield group.checkpoint
            yield from group.writes

    states = store.load_each(records())
    while True:
        state = _next(states)
        if state is _END:
            return
        group = waiting.popleft()
        writes = [each for _ in group.writes if (each := _next(states)) is not _GONE]
        if state is not _GONE:
            yield group, state, writes


_GONE: Final = object()
_END: Final = object()


def _next(states: Iterator[Any]) -> Any:
    try:
        return next(states, _END)
    except NotFoundError:
        # Removed for good since its record was read.
        return _GONE
