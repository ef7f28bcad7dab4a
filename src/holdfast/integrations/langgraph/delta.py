"""What a DeltaChannel is rebuilt from: its writes on the way back to the last checkpoint that has its value.

LangGraph leaves such a channel out of most checkpoints. The way goes from parent to parent; checkpoints of other
branches lie between in the order of ids, and do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from langgraph.checkpoint.base import DeltaChannelHistory, PendingWrite

from holdfast import Session, Store
from holdfast.integrations.langgraph import keys
from holdfast.integrations.langgraph.pending import gathered
from holdfast.integrations.langgraph.ranges import Group, groups, loaded

_FIRST_PAGE = 40
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
    found = groups(session, start, stop, first=_FIRST_PAGE)
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
