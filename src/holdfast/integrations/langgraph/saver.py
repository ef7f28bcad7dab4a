"""HoldfastSaver: the checkpointer that LangGraph calls.

It is thin: `checkpoints` turns LangGraph's data into states and back, `writer` saves them, `reader` finds them again,
`prune` removes them, `types` knows what may be in them. Each method is there twice; the
async one does what the other does in a worker thread (see `workers`), except that whatever is saved becomes bytes
before the first await, on the thread that owns it.
"""

from __future__ import annotations

import builtins
import random
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

import holdfast
from holdfast import Checkpoint as Saved
from holdfast import (
    ConflictError,
    ErrorCode,
    NotFoundError,
    Store,
    UnsupportedError,
)
from holdfast.errors import bad_argument
from holdfast.integrations.langgraph import checkpoints, keys, prune, reader, workers
from holdfast.integrations.langgraph.reader import Group, groups, loaded
from holdfast.integrations.langgraph.types import allow, prepare
from holdfast.integrations.langgraph.writer import Line, Threads, WritesLine

_STRATEGIES = ("keep_latest", "delete")

_ASYNC_PAGE = 8
"""Checkpoints that an async listing fetches in one hop to a worker thread."""

_LOOKS = 100
"""Another process has to remove what was found each time, so this many in a row mean something else."""


class HoldfastSaver(BaseCheckpointSaver[Any]):
    """Keep the checkpoints of LangGraph in a holdfast store.

        with HoldfastSaver("agents.db") as saver:
            graph = builder.compile(checkpointer=saver)

    It may be shared by any number of graphs and threads, and used from sync and async code alike.

    Args:
        store: A store, which stays open when the saver is closed; or where to open one, as for `holdfast.open`.
        types: The state of your graph, and any further classes of your own whose objects may be loaded: all that a
            schema names are meant. What this program puts is known without that; this is for one that loads first.
    """

    def __init__(self, store: Store | str | Path | None = None, *, types: Iterable[Any] = ()) -> None:
        super().__init__()
        if self.serde is not BaseCheckpointSaver.serde:
            # A subclass has one as an attribute of the class.
            raise _no_serializer(self.serde)
        self._owned = not isinstance(store, Store)
        self._store = store if isinstance(store, Store) else holdfast.open(store)
        self._threads = Threads(self._store)
        self._allowed: frozenset[tuple[str, ...]] = frozenset()
        prepare(self._store, types)

    @classmethod
    def open(
        cls, target: str | Path | None = None, *, types: Iterable[Any] = (), **options: Any
    ) -> HoldfastSaver:
        """Open a store for a saver of its own, with the options of `holdfast.open`; `close` closes it."""
        saver = cls(holdfast.open(target, **options), types=types)
        saver._owned = True
        return saver

    @property
    def serde(self) -> SerializerProtocol:
        """LangGraph's own serializer, because programs look at it; nothing is stored with it."""
        return BaseCheckpointSaver.serde

    @serde.setter
    def serde(self, given: SerializerProtocol) -> None:
        if given is not BaseCheckpointSaver.serde:
            raise _no_serializer(given)

    @property
    def store(self) -> Store:
        """The store, for everything that holdfast can do beside what LangGraph asks for."""
        return self._store

    def close(self) -> None:
        """Close the store, if the saver opened it."""
        if self._owned:
            self._store.close()
            self._threads = Threads(self._store)

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
        workers.write(line.encode, entry.state, partial(line.put, entry=entry))
        return checkpoints.config_for(line.session.id, checkpoints.namespace_of(config), entry.id)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,  # noqa: ARG002 - what is new shows by itself
    ) -> RunnableConfig:
        """See `put`."""
        line, entry = self._entry(config, checkpoint, metadata)
        await workers.awrite(line.encode, entry.state, partial(line.put, entry=entry))
        return checkpoints.config_for(line.session.id, checkpoints.namespace_of(config), entry.id)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a task wrote on a checkpoint. See `BaseCheckpointSaver.put_writes`."""
        if writes:
            line, prefix, state = self._call(config, writes, task_id, task_path)
            workers.write(line.encode, state, partial(line.append, prefix=prefix, state=state))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See `put_writes`."""
        if writes:
            line, prefix, state = self._call(config, writes, task_id, task_path)
            await workers.awrite(line.encode, state, partial(line.append, prefix=prefix, state=state))

    def _entry(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata
    ) -> tuple[Line, checkpoints.Entry]:
        namespace = checkpoints.namespace_of(config)
        line = self._threads.line(checkpoints.thread_of(config), namespace)
        whole = checkpoints.whole_metadata(config, metadata)
        return line, checkpoints.entry_of(namespace, checkpoints.checkpoint_of(config), checkpoint, whole)

    def _call(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> tuple[WritesLine, str, dict[str, Any]]:
        line = self._threads.writes(checkpoints.thread_of(config))
        named = checkpoints.named_checkpoint(config)
        prefix = keys.writes_prefix(checkpoints.namespace_of(config), named, task_id)
        return line, prefix, checkpoints.state_of(writes, task_id, task_path)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that `config` names, or the latest. See `BaseCheckpointSaver.get_tuple`."""
        checkpoint_id = checkpoints.checkpoint_of(config)
        found = self._chosen(config)
        if found is None:
            return None
        group, state, writes = found
        return self._tuple(group, state, writes, config=config if checkpoint_id else None)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `get_tuple`."""
        return await workers.run(partial(self.get_tuple, config))

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
        wanted = checkpoints.plain_run(filter or {})
        found = self._listed(config, None if before is None else checkpoints.checkpoint_of(before), wanted)
        if not wanted:
            found = islice(found, limit)
        for group, state, writes in loaded(self._store, found):
            made = self._tuple(group, state, writes)
            if not checkpoints.matches(made.metadata, wanted):
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
        while page := await workers.run(lambda: builtins.list(islice(found, _ASYNC_PAGE))):
            for each in page:
                yield each

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return what delta channels are rebuilt from. See `BaseCheckpointSaver.get_delta_channel_history`."""
        if not channels:
            return {}
        session = self._store.session(checkpoints.thread_of(config))
        for _ in range(_LOOKS):
            chosen = self._chosen(config)
            parent = None if chosen is None else chosen[1]["parent"]
            found = reader.history(self._store, session, checkpoints.namespace_of(config), parent, channels)
            # A way that does not lead to a value may have been cut off while it was gone: then it began at one that is
            # not there any more.
            is_whole = all("seed" in each for each in found.values())
            if chosen is None or is_whole or reader.one(session, chosen[0].key.owner) is not None:
                return found
        raise ConflictError.session_changed(session.id)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `get_delta_channel_history`."""
        return await workers.run(partial(self.get_delta_channel_history, config=config, channels=channels))

    def get_delta_channel_keepset(self, *, config: RunnableConfig, channels: Sequence[str]) -> set[str]:
        """Return the ids of the checkpoints that the one `config` names needs, itself included, to have these channels.

        Whoever removes others leaves it whole. `prune` works by it; it is here for programs that prune by themselves.
        """
        found = self._chosen(config)
        if found is None:
            return set()
        group, state, _ = found
        session, namespace = self._store.session(group.checkpoint.session), checkpoints.namespace_of(config)
        missing = [channel for channel in channels if channel not in state["channel_values"]]
        kept = reader.needed(self._store, session, namespace, state["parent"], missing)
        return {group.key.checkpoint_id, *(each.key.checkpoint_id for each in kept)}

    async def aget_delta_channel_keepset(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> set[str]:
        """See `get_delta_channel_keepset`."""
        return await workers.run(partial(self.get_delta_channel_keepset, config=config, channels=channels))

    def _tuple(
        self,
        group: Group,
        state: Any,
        writes: builtins.list[Any],
        *,
        config: RunnableConfig | None = None,
    ) -> CheckpointTuple:
        sent: builtins.list[Any] = []
        if checkpoints.awaits_sends(state):
            place = group.key.owner.rpartition(" ")[0]
            parent = reader.one(
                self._store.session(group.checkpoint.session), f"{place} {keys.escaped(state['parent'])}"
            )
            sent = next((calls for _, _, calls in loaded(self._store, [parent])), []) if parent else []
        return checkpoints.tuple_of(group.checkpoint, group.key, state, writes, config=config, sent=sent)

    def _chosen(self, config: RunnableConfig) -> tuple[Group, Any, builtins.list[Any]] | None:
        """The checkpoint that is named, or the latest, with its state and those of its writes."""
        for _ in range(_LOOKS):
            group = next(self._named(config), None)
            if group is None:
                return None
            for each in loaded(self._store, [group]):
                return each
            # Removed for good since its record was read. There may be a later one, which it was removed for.
        raise ConflictError.session_changed(checkpoints.thread_of(config))

    def _named(self, config: RunnableConfig) -> Iterator[Group]:
        """The checkpoint that is named; without a name, those of the namespace, the latest first."""
        session = self._store.session(checkpoints.thread_of(config))
        namespace, checkpoint_id = checkpoints.namespace_of(config), checkpoints.checkpoint_of(config)
        if checkpoint_id is None:
            return groups(session, *keys.namespace_range(namespace))
        return groups(session, *keys.checkpoint_range(keys.checkpoint_key(namespace, checkpoint_id)))

    def _listed(
        self, config: RunnableConfig | None, before: str | None, wanted: Mapping[str, Any]
    ) -> Iterator[Group]:
        """The checkpoints that may be meant, as far as their records say."""
        thread = None if config is None else checkpoints.thread_of(config)
        namespace = None if config is None else checkpoints.listed_namespace(config)
        named = None if config is None else checkpoints.checkpoint_of(config)

        def is_meant(key: keys.Key, saved: Saved) -> bool:
            return (
                named in (None, key.checkpoint_id)
                and (before is None or key.checkpoint_id < before)
                and (not wanted or checkpoints.may_match(saved, wanted))
            )

        if thread is None or namespace is None:
            return reader.arrivals(self._store, thread, is_meant)
        if named is None:
            start, stop = keys.namespace_range(namespace, before=before)
        else:
            start, stop = keys.checkpoint_range(keys.checkpoint_key(namespace, named))
        found = groups(self._store.session(thread), start, stop)
        return (group for group in found if is_meant(group.key, group.checkpoint))

    def delete_thread(self, thread_id: str) -> None:
        """Remove a thread for good. See `BaseCheckpointSaver.delete_thread`."""
        thread = checkpoints.thread_text(thread_id)
        self._threads.drop(thread)
        prune.forget_thread(self._store, thread)

    async def adelete_thread(self, thread_id: str) -> None:
        """See `delete_thread`."""
        await workers.run(partial(self.delete_thread, thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of runs from all threads, for good. See `BaseCheckpointSaver.delete_for_runs`."""
        for thread in prune.forget_runs(self._store, _several(run_ids, "run_ids")):
            self._threads.drop(thread)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """See `delete_for_runs`."""
        await workers.run(partial(self.delete_for_runs, run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread, all of it, to a new one. See `BaseCheckpointSaver.copy_thread`.

        Raises:
            NotFoundError: There is no such thread.
            ConflictError: There is a thread of the new id already (`session-exists`).
        """
        source, target = checkpoints.thread_text(source_thread_id), checkpoints.thread_text(target_thread_id)
        self._threads.drop(target)
        try:
            self._store.copy_session(source, target)
        except NotFoundError as error:
            hint = "look for it with list(None); ids are compared letter by letter"
            message = f"there is no thread {source!r}"
            raise NotFoundError(message, code=error.code, hint=hint, **error.details) from None

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """See `copy_thread`."""
        await workers.run(partial(self.copy_thread, source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove all but the latest checkpoints of threads, or everything. See `BaseCheckpointSaver.prune`.

        What a kept checkpoint with delta channels is rebuilt from is kept too, with its writes. The checkpoints of one
        call of a subgraph go with the checkpoint of the graph that made the call.
        """
        if strategy not in _STRATEGIES:
            raise bad_argument(
                f"there is no strategy {strategy!r:.60} to prune by",
                f"use one of: {', '.join(_STRATEGIES)}",
                argument="strategy",
            )
        for thread in map(checkpoints.thread_text, _several(thread_ids, "thread_ids")):
            if strategy == "delete":
                prune.forget_thread(self._store, thread)
            else:
                prune.keep_latest(self._store, thread)
            self._threads.drop(thread)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """See `prune`."""
        await workers.run(partial(self.prune, thread_ids, strategy=strategy))

    def get_next_version(self, current: Any, channel: None) -> Any:  # noqa: ARG002 - LangGraph's name
        """Count on: nothing is found by a version here. A thread that came with text versions goes on with those."""
        if current is None:
            return 1
        if not isinstance(current, str):
            return current + 1
        number = current.partition(".")[0]
        if not (number.isascii() and number.isdigit()):
            raise bad_argument(
                f"{current!r:.60} is not a version that can be counted on from",
                "versions are numbers, or texts that begin with one",
            )
        # As wide as it was: texts are compared from their beginning.
        return f"{int(number) + 1:0{len(number)}}.{random.random():016}"  # noqa: S311 - no secret

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> Self:
        """Know the classes that LangGraph derives from the schemas of a graph. The saver stays the same one."""
        extra = frozenset(extra_allowlist)
        if not extra <= self._allowed:
            allow(self._store, extra)
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
            await workers.run(self.close)

    def __repr__(self) -> str:
        return f"<HoldfastSaver {self._store.url}>"


def _no_serializer(given: object) -> UnsupportedError:
    return UnsupportedError(
        f"HoldfastSaver cannot use {type(given).__name__}: holdfast stores values in its own form, unencrypted",
        code=ErrorCode.NOT_SUPPORTED,
        hint="keep the store on an encrypted disk, or encrypt values before they go into the state",
    )


def _several(ids: Sequence[str], name: str) -> Sequence[str]:
    if isinstance(ids, str):
        raise bad_argument(
            f"{name} must be a list of ids, not the one text {ids[:60]!r}",
            f"pass [{ids[:60]!r}]",
            argument=name,
        )
    return ids
