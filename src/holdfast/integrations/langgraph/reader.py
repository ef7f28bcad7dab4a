"""Checkpoints of LangGraph found again: newest first, each with the records of its writes, and the way back of one.

A range of keys is read backwards and page by page; states are loaded by whoever wants them. Writes whose checkpoint is
not there are skipped: LangGraph stores them before the checkpoint, and a process that died in between leaves them
behind.

LangGraph leaves a DeltaChannel out of most checkpoints. It is rebuilt from its writes on the way back, from parent to
parent, to the last checkpoint that has its value. Checkpoints of other branches lie between in the order of ids, and do
not count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from langgraph.checkpoint.base import DeltaChannelHistory, PendingWrite

from holdfast import Checkpoint as Saved
from holdfast import NotFoundError, Session, Store
from holdfast.integrations.langgraph import keys
from holdfast.integrations.langgraph.checkpoints import gathered
from holdfast.integrations.langgraph.keys import Key, checkpoint_range, parse
from holdfast.record import Record

_FIRST_PAGE = 8
"""Most who ask want the latest, with the few writes that are on it."""

_PAGE = 200
_GROWTH = 5


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


def arrivals(store: Store, thread: str | None, is_meant: Callable[[Key, Saved], bool]) -> Iterator[Group]:
    """The checkpoints of a thread, or of all threads, in whatever namespace: the last that was saved comes first.

    Writes are read only of those that are meant, by what their records say.
    """
    before: Saved | None = None
    while True:
        rows = store.find(session=thread, before=before, limit=_PAGE)
        for row in rows:
            key = parse(row.key)
            if key is None or key.task_id is not None or not is_meant(key, row):
                continue
            if (found := one(store.session(row.session), key.owner)) is not None:
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


_WALK_PAGE = 40
"""A walk is rarely short: a channel is stored whole once in a hundred updates, and each leaves two or three rows."""

COUNTERS = "counters_since_delta_snapshot"
"""The metadata with which LangGraph counts; it names the channels that have to be rebuilt."""


def ancestors(
    store: Store, session: Session, namespace: str, checkpoint_id: str | None
) -> Iterator[tuple[Group, Any, list[Any]]]:
    """A checkpoint and what it was made from, newest first, with their states and those of their writes."""
    wanted, met = checkpoint_id, set[str]()
    # Ids that name each other as parents would lead round for ever.
    while wanted is not None and wanted not in met:
        begun = wanted
        for each in loaded(store, _line(session, namespace, wanted)):
            if each[0].key.checkpoint_id != wanted:
                break
            yield each
            met.add(wanted)
            wanted = each[1]["parent"]
        if wanted == begun:
            return


def _line(session: Session, namespace: str, checkpoint_id: str) -> Iterator[Group]:
    """The way back as the records have it, so that many states can be read at once; the states have the last word."""
    start, _ = keys.namespace_range(namespace)
    _, stop = keys.checkpoint_range(keys.checkpoint_key(namespace, checkpoint_id))
    found = groups(session, start, stop, first=_WALK_PAGE)
    group = next(found, None)
    if group is None or group.key.checkpoint_id != checkpoint_id:
        return
    yield group
    for each in found:
        if each.checkpoint.id == group.checkpoint.prev:
            group = each
            yield group


def history(
    store: Store, session: Session, namespace: str, parent: str | None, channels: Sequence[str]
) -> dict[str, DeltaChannelHistory]:
    """The writes on each channel since it was last stored, oldest first, and what was stored then."""
    collected: dict[str, list[PendingWrite]] = {channel: [] for channel in channels}
    seeds: dict[str, Any] = {}
    missing = set(channels)
    for _, state, calls in ancestors(store, session, namespace, parent):
        for write in reversed(gathered(calls)):
            if write[1] in missing:
                collected[write[1]].append(write)
        values = state["channel_values"]
        for channel in missing & values.keys():
            # The value before the writes on the same checkpoint: those belong to what came next.
            seeds[channel] = values[channel]
        missing -= seeds.keys()
        if not missing:
            break
    found: dict[str, DeltaChannelHistory] = {}
    for channel in channels:
        found[channel] = {"writes": collected[channel][::-1]}
        if channel in seeds:
            found[channel]["seed"] = seeds[channel]
    return found


def needed(
    store: Store, session: Session, namespace: str, parent: str | None, channels: Sequence[str]
) -> Iterator[Group]:
    """The ancestors that the value of these channels is rebuilt from."""
    missing = set(channels)
    for group, state, _ in ancestors(store, session, namespace, parent):
        if not missing:
            return
        yield group
        missing -= state["channel_values"].keys()
