"""LangGraph's SqliteSaver, with plain channels and with delta channels, at the level of the saver.

Checkpoints are built by LangGraph's own functions from LangGraph's own channels, as its loop builds them after each
superstep; the graph around it is left out, so that only keeping state is timed. What is left out is in LangGraph's
favour: a real graph also stores the writes of plain channels, and small values of its own (see docs/benchmarks.md).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

from langgraph.channels.delta import DeltaChannel
from langgraph.channels.last_value import LastValue
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.pregel._checkpoint import (
    channels_from_checkpoint,
    create_checkpoint,
    delta_channels_to_snapshot,
)

from bench.contenders.contract import POWER, Contender, Reader
from bench.workloads import Change, State, apply

_NODE = "agent"
_TASK_PATH = "~__pregel_pull, agent"
_SNAPSHOT_EVERY = 100


def _connect(file: Path, durability: str) -> SqliteSaver:
    """A saver as `from_conn_string` makes it; its WAL is synced at every commit unless told otherwise."""
    connection = sqlite3.connect(file, check_same_thread=False)
    saver = SqliteSaver(connection)
    saver.setup()
    connection.execute(f"PRAGMA synchronous={'FULL' if durability == POWER else 'NORMAL'}")
    return saver


def _thread(name: str, **more: str) -> Any:
    return {"configurable": {"thread_id": name, "checkpoint_ns": "", **more}}


class PlainReader(Reader):
    """Reads whole checkpoints."""

    def __init__(self, saver: Any, thread: str) -> None:
        self._saver = saver
        self._thread = thread

    def load(self, name: str) -> State:
        """The values of all channels."""
        found = self._saver.get_tuple(_thread(self._thread, checkpoint_id=name))
        assert found is not None
        return found.checkpoint["channel_values"]

    def log(self, limit: int) -> int:
        """What `list` gives; it decodes every checkpoint."""
        return sum(1 for _ in self._saver.list(_thread(self._thread), limit=limit))

    def close(self) -> None:
        """Close the connection."""
        self._saver.conn.close()


class DeltaReader(PlainReader):
    """Reads checkpoints and replays the writes since the last snapshot, as a graph does when it loads."""

    def __init__(self, saver: Any, thread: str, channels: Sequence[str]) -> None:
        super().__init__(saver, thread)
        self._specs = {name: _delta_channel(name) for name in channels}

    def load(self, name: str) -> State:
        """The values of all channels, rebuilt."""
        found = self._saver.get_tuple(_thread(self._thread, checkpoint_id=name))
        assert found is not None
        rebuilt, _ = channels_from_checkpoint(
            self._specs, found.checkpoint, saver=self._saver, config=found.config
        )
        return {key: channel.get() for key, channel in rebuilt.items()}


def _replay(value: Any, writes: Sequence[list[Change]]) -> Any:
    """The reducer: each write is a list of changes. In place, which is the fastest a reducer can be."""
    for changes in writes:
        apply(value, changes)
    return value


def _delta_channel(name: str) -> DeltaChannel:
    channel = DeltaChannel(_replay, dict, snapshot_frequency=_SNAPSHOT_EVERY)
    channel.key = name
    return channel


class PlainSaver(Contender):
    """SqliteSaver as it comes: every checkpoint holds the whole state."""

    label = "SqliteSaver"

    def start(self, state: State) -> None:
        """Store the first state, as update_state does on a new thread."""
        self._saver = self._connected()
        self._state = state
        self._checkpoint = empty_checkpoint()
        self._config = _thread(self.session)
        self._metadata: dict[str, Any] = {}
        self._channels = {key: self._channel(key, value) for key, value in state.items()}
        self._put(set(state), {key for key, each in self._channels.items() if isinstance(each, DeltaChannel)})

    def apply(self, changes: list[Change]) -> None:
        """What the node does."""
        apply(self._state, changes)
        self._updated = {change[1][0] for change in changes}

    def save(self) -> None:
        """One `put`."""
        self._put(self._updated, set())

    def close(self) -> None:
        """Close the connection, which empties the log."""
        self._saver.conn.close()
        del self._state, self._channels, self._checkpoint

    def reader(self) -> Reader:
        """A new connection and a new saver."""
        return PlainReader(self._connected(), self.session)

    def settings(self) -> dict[str, Any]:
        """The two settings that decide what a commit survives."""
        ask = self._saver.conn.execute
        return {name: ask(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")}

    def _connected(self) -> Any:
        """A saver with a connection of its own."""
        return _connect(self.folder / "saver.sqlite", self.durability)

    def _channel(self, key: str, value: Any) -> Any:
        channel = LastValue(type(value), key)
        channel.update([value])
        return channel

    def _put(self, updated: set[str], snapshot: set[str]) -> None:
        """What LangGraph's loop does at the end of a superstep."""
        version = max(self._checkpoint["channel_versions"].values(), default=None)
        fresh = dict.fromkeys(sorted(updated), self._saver.get_next_version(version, None))
        self._checkpoint["channel_versions"] = {**self._checkpoint["channel_versions"], **fresh}
        self._checkpoint["versions_seen"] = {"__input__": {}, _NODE: fresh}
        step = len(self.names)
        self._checkpoint = create_checkpoint(
            self._checkpoint, self._channels, step, updated_channels=updated, channels_to_snapshot=snapshot
        )
        metadata = {"source": "loop", "step": step, "parents": {}, **self._metadata}
        self._config = self._saver.put(self._config, self._checkpoint, metadata, fresh)
        self.names.append(self._checkpoint["id"])


class DeltaSaver(PlainSaver):
    """SqliteSaver with every channel a DeltaChannel: the writes of each step, and a snapshot every 100 updates."""

    label = "DeltaChannel(100)"

    def start(self, state: State) -> None:
        """Store the first state whole, as update_state does on a new thread."""
        self.channels = list(state)
        self._counters = dict.fromkeys(state, (0, 0))
        super().start(state)

    def apply(self, changes: list[Change]) -> None:
        """What the node returns: for each channel a list of changes."""
        self._writes: dict[str, list[Change]] = {}
        for op, path, *rest in changes:
            self._writes.setdefault(path[0], []).append([op, path[1:], *rest])
        for key, write in self._writes.items():
            self._channels[key].update([write])
        self._updated = set(self._writes)

    def save(self) -> None:
        """`put_writes`, then `put`, whose checkpoint holds a channel only when its snapshot is due."""
        task = str(uuid5(UUID(self._checkpoint["id"]), _NODE))
        self._saver.put_writes(self._config, list(self._writes.items()), task, _TASK_PATH)
        counters = {
            key: (updates + (key in self._updated), steps + 1)
            for key, (updates, steps) in self._counters.items()
        }
        due = delta_channels_to_snapshot(self._channels, counters, self._checkpoint["channel_versions"])
        self._counters = counters | dict.fromkeys(due, (0, 0))
        waiting = {key: value for key, value in self._counters.items() if value != (0, 0)}
        self._metadata = {"counters_since_delta_snapshot": waiting} if waiting else {}
        self._put(self._updated, due)

    def reader(self) -> Reader:
        """A new connection, saver and channels."""
        return DeltaReader(self._connected(), self.session, self.channels)

    def _channel(self, key: str, value: Any) -> Any:
        return _delta_channel(key).from_checkpoint(value)
