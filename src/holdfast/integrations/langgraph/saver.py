"""HoldfastSaver: the checkpointer that LangGraph calls.

It is thin: `configs` says what is meant, `tuples` and `pending` turn LangGraph's data into states and back, `threads`
writes them, `ranges` finds them again, `delta` and `removing` do what their names say. Each method is there twice; the
async one does what the other does in a worker thread, except that whatever is saved becomes bytes before the first
await, on the thread that owns it.
"""

from __future__ import annotations

import builtins
import random
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import anyio.to_thread
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)

import holdfast
from holdfast import ConflictError, ErrorCode, InvalidInputError, Store
from holdfast.integrations.langgraph import configs, delta, keys, pending, removing, tuples, values
from holdfast.integrations.langgraph.ranges import Group, arrivals, groups, loaded
from holdfast.integrations.langgraph.threads import Line, Threads, WritesLine

_T = TypeVar("_T")

_STRATEGIES = ("keep_latest", "delete")

_ASYNC_PAGE = 8
"""Checkpoints that an async listing fetches in one hop to a worker thread."""


class HoldfastSaver(BaseCheckpointSaver[Any]):
    """Keep the checkpoints of LangGraph in a holdfast store.

        with HoldfastSaver("agents.db") as saver:
            graph = builder.compile(checkpointer=saver)

    It may be shared by any number of graphs and threads, and used from sync and async code alike.

    Args:
        store: A store, which stays open when the saver is closed; or where to open one, as for `holdfast.open`.
        types: Classes of your own whose objects may be loaded. What this program puts is known without that; this is
            for a process that loads before it puts.
    """

    def __init__(self, store: Store | str | Path | None = None, *, types: Iterable[type] = ()) -> None:
        super().__init__()
        self._owned = not isinstance(store, Store)
        self._store = store if isinstance(store, Store) else holdfast.open(store)
        self._threads = Threads(self._store)
        self._allowed: frozenset[tuple[str, ...]] = frozenset()
        values.prepare(self._store, types)

    @classmethod
    def open(
        cls, target: str | Path | None = None, *, types: Iterable[type] = (), **options: Any
    ) -> HoldfastSaver:
        """Open a store for a saver of its own, with the options of `holdfast.open`; `close` closes it."""
        saver = cls(holdfast.open(target, **options), types=types)
        saver._owned = True
        return saver

    @property
    def store(self) -> Store:
        """The store, for everything that holdfast can do beside what LangGraph asks for."""
        return self._store

    def close(self) -> None:
        """Close the store, if the saver opened it."""
        if self._owned:
            self._store.close()

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,  # noqa: ARG002 - what is new shows by itself
    ) -> RunnableConfig:
        """Save a checkpoint as a child of the one that `config` names. See `BaseCheckpointSaver.put`.

        Raises:
            ConflictError: There is another checkpoint of this id in the thread (`key-taken`).
            InvalidInputError: Something in it cannot be kept; the message has the path.
        """
        line, entry = self._entry(config, checkpoint, metadata)
        _write(line.encode, entry.state, partial(line.put, entry=entry))
        return configs.config_for(line.session.id, configs.namespace_of(config), entry.id)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,  # noqa: ARG002 - what is new shows by itself
    ) -> RunnableConfig:
        """See `put`."""
        line, entry = self._entry(config, checkpoint, metadata)
        await _awrite(line.encode, entry.state, partial(line.put, entry=entry))
        return configs.config_for(line.session.id, configs.namespace_of(config), entry.id)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a task wrote on a checkpoint. See `BaseCheckpointSaver.put_writes`."""
        if writes:
            line, prefix, state = self._call(config, writes, task_id, task_path)
            _write(line.encode, state, partial(line.append, prefix=prefix, state=state))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See `put_writes`."""
        if writes:
            line, prefix, state = self._call(config, writes, task_id, task_path)
            await _awrite(line.encode, state, partial(line.append, prefix=prefix, state=state))

    def _entry(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> tuple[Line, tuples.Entry]:
        namespace = configs.namespace_of(config)
        line = self._threads.line(configs.thread_of(config), namespace)
        whole = tuples.whole_metadata(config, metadata)
        return line, tuples.entry_of(namespace, configs.checkpoint_of(config), checkpoint, whole)

    def _call(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> tuple[WritesLine, str, dict[str, Any]]:
        line = self._threads.writes(configs.thread_of(config))
        named = configs.named_checkpoint(config)
        prefix = keys.writes_prefix(configs.namespace_of(config), named, task_id)
        return line, prefix, pending.state_of(writes, task_id, task_path)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that `config` names, or the latest. See `BaseCheckpointSaver.get_tuple`."""
        checkpoint_id = configs.checkpoint_of(config)
        for group, state, writes in loaded(self._store, islice(self._named(config), 1)):
            return tuples.tuple_of(group, state, writes, config=config if checkpoint_id else None)
        return None

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `get_tuple`."""
        return await _run(partial(self.get_tuple, config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """List checkpoints, newest first, page by page. See `BaseCheckpointSaver.list`.

        Newest is the greatest id. Where `config` names no namespace, or no thread, the checkpoints of all of them are
        listed, and what was saved last comes first.
        """
        if limit is not None and limit <= 0:
            return
        wanted = filter or {}
        found = self._listed(config, None if before is None else configs.checkpoint_of(before))
        if wanted:
            found = (group for group in found if tuples.may_match(group.checkpoint, wanted))
        else:
            found = islice(found, limit)
        for group, state, writes in loaded(self._store, found):
            made = tuples.tuple_of(group, state, writes)
            if not tuples.matches(made.metadata, wanted):
                continue
            yield made
            if limit is not None:
                limit -= 1
                if not limit:
                    return

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See `list`."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while page := await _run(lambda: builtins.list(islice(found, _ASYNC_PAGE))):
            for each in page:
                yield each

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what delta channels are rebuilt from. See `BaseCheckpointSaver.get_delta_channel_history`."""
        if not channels:
            return {}
        parent = None
        for _, state, _ in loaded(self._store, islice(self._named(config), 1)):
            parent = state["parent"]
        session = self._store.session(configs.thread_of(config))
        return delta.history(self._store, session, configs.namespace_of(config), parent, channels)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `get_delta_channel_history`."""
        return await _run(partial(self.get_delta_channel_history, config=config, channels=channels))

    def _named(self, config: RunnableConfig) -> Iterator[Group]:
        """The checkpoint that is named; without a name, those of the namespace, the latest first."""
        session = self._store.session(configs.thread_of(config))
        namespace, checkpoint_id = configs.namespace_of(config), configs.checkpoint_of(config)
        if checkpoint_id is None:
            return groups(session, *keys.namespace_range(namespace))
        return groups(session, *keys.checkpoint_range(keys.checkpoint_key(namespace, checkpoint_id)))

    def _listed(self, config: RunnableConfig | None, before: str | None) -> Iterator[Group]:
        thread = None if config is None else configs.thread_of(config)
        namespace = None if config is None else configs.listed_namespace(config)
        named = None if config is None else configs.checkpoint_of(config)
        if thread is not None and namespace is not None and named is None:
            return groups(self._store.session(thread), *keys.namespace_range(namespace, before=before))
        if thread is not None and namespace is not None and named is not None:
            key = keys.checkpoint_key(namespace, named)
            found = groups(self._store.session(thread), *keys.checkpoint_range(key))
        else:
            found = arrivals(self._store, thread)
        return (
            group
            for group in found
            if named in (None, group.key.checkpoint_id)
            and (before is None or group.key.checkpoint_id < before)
        )

    def delete_thread(self, thread_id: str) -> None:
        """Remove a thread for good. See `BaseCheckpointSaver.delete_thread`."""
        thread = configs.thread_text(thread_id)
        self._threads.drop(thread)
        removing.forget_thread(self._store, thread)

    async def adelete_thread(self, thread_id: str) -> None:
        """See `delete_thread`."""
        await _run(partial(self.delete_thread, thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of runs from all threads, for good. See `BaseCheckpointSaver.delete_for_runs`."""
        for thread in removing.forget_runs(self._store, _several(run_ids, "run_ids")):
            self._threads.drop(thread)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """See `delete_for_runs`."""
        await _run(partial(self.delete_for_runs, run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread, all of it, to a new one. See `BaseCheckpointSaver.copy_thread`.

        Raises:
            NotFoundError: There is no such thread.
            ConflictError: There is a thread of the new id already (`session-exists`).
        """
        source, target = configs.thread_text(source_thread_id), configs.thread_text(target_thread_id)
        self._threads.drop(target)
        self._store.copy_session(source, target)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """See `copy_thread`."""
        await _run(partial(self.copy_thread, source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove all but the latest checkpoints of threads, or everything. See `BaseCheckpointSaver.prune`.

        What a kept checkpoint with delta channels is rebuilt from is kept too, with its writes. The checkpoints of one
        call of a subgraph go with the checkpoint of the graph that made the call.
        """
        if strategy not in _STRATEGIES:
            raise InvalidInputError(
                f"there is no strategy {strategy!r:.60} to prune by",
                code=ErrorCode.BAD_ARGUMENT,
                hint=f"use one of: {', '.join(_STRATEGIES)}",
                argument="strategy",
            )
        for thread in map(configs.thread_text, _several(thread_ids, "thread_ids")):
            if strategy == "delete":
                removing.forget_thread(self._store, thread)
            else:
                removing.keep_latest(self._store, thread)
            self._threads.drop(thread)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """See `prune`."""
        await _run(partial(self.prune, thread_ids, strategy=strategy))

    def get_next_version(self, current: Any, channel: None) -> Any:  # noqa: ARG002 - LangGraph's name
        """Count on: nothing is found by a version here. A thread that came with text versions goes on with those."""
        if current is None:
            return 1
        if not isinstance(current, str):
            return current + 1
        number = current.partition(".")[0]
        if not (number.isascii() and number.isdigit()):
            raise InvalidInputError(
                f"{current!r:.60} is not a version that can be counted on from",
                code=ErrorCode.BAD_ARGUMENT,
                hint="versions are numbers, or texts that begin with one",
            )
        # As wide as it was: texts are compared from their beginning.
        return f"{int(number) + 1:0{len(number)}}.{random.random():016}"  # noqa: S311 - no secret

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> Self:
        """Know the classes that LangGraph derives from the schemas of a graph. The saver stays the same one."""
        extra = frozenset(extra_allowlist)
        if not extra <= self._allowed:
            values.allow(self._store, extra)
            self._allowed |= extra
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A cancelled task still gives its connections back.
        with anyio.CancelScope(shield=True):
            await _run(self.close)

    def __repr__(self) -> str:
        return f"<HoldfastSaver {self._store.url}>"


def _write(encode: Callable[[Any], Any], state: Any, write: Callable[[Any], None]) -> None:
    try:
        write(encode(state))
    except ConflictError as conflict:
        if conflict.code is not ErrorCode.CHUNKS_GONE:
            raise
        # What the last save left in the store was removed since: this time all of it is sent.
        write(encode(state))


async def _awrite(encode: Callable[[Any], Any], state: Any, write: Callable[[Any], None]) -> None:
    encoded = encode(state)
    try:
        await _run(partial(write, encoded))
    except ConflictError as conflict:
        if conflict.code is not ErrorCode.CHUNKS_GONE:
            raise
        # As above; on this thread again, where nobody else changes the state meanwhile.
        await _run(partial(write, encode(state)))


async def _run(operation: Callable[[], _T]) -> _T:
    return await anyio.to_thread.run_sync(operation)


def _several(ids: Sequence[str], name: str) -> Sequence[str]:
    if isinstance(ids, str):
        raise InvalidInputError(
            f"{name} must be a list of ids, not the one text {ids[:60]!r}",
            code=ErrorCode.BAD_ARGUMENT,
            hint=f"pass [{ids[:60]!r}]",
            argument=name,
        )
    return ids
