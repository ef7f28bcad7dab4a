"""LangGraph's checkpoints, pending writes and configs as data: into states of holdfast, and back.

    {"configurable": {"thread_id": "42", "checkpoint_ns": "", "checkpoint_id": "1f0a..."}}

is a config: without a namespace it means the root; without a checkpoint the latest, or, where something is put, that it
has no parent. A state has LangGraph's own names for everything, so that `holdfast show` reads like the graph; the id is
in the key. What of the metadata is plain JSON becomes metadata of the checkpoint, to find it by. The rest stays in the
state, and the metadata says which names that are.

Each call of put_writes is one checkpoint of holdfast, on the branch `writes`. Calls are never changed and may repeat an
earlier one, so which write counts is decided when they are read: of several with one place in a task's list the first,
of errors, interrupts and resumes the last.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.serde.types import TASKS

from holdfast import Checkpoint as Saved
from holdfast import ErrorCode, InvalidInputError, UnsupportedError
from holdfast.errors import bad_argument
from holdfast.integrations.langgraph import keys
from holdfast.integrations.langgraph.summary import checkpoint_message, checkpoint_status
from holdfast.record import Record

IN_STATE = "__in_state__"
"""The entry of the metadata that names what of LangGraph's metadata is in the state, with None for a name that is no
JSON itself. LangGraph keeps no name with such a beginning."""

_OWN = ("parent", "metadata", "checkpoint_ns")
"""What a state has beside the entries of a checkpoint."""

_SENDS_IN_VALUES = 4
"""The format of checkpoints from which on what was sent to nodes is among the values."""

_DEEPEST = 32
_LONGEST_TEXT = 32_768
"""A text in metadata that is longer than this is no label any more; the state has room."""
_MOST_BYTES = (1 << 20) - 1000
"""Of metadata that takes more, the largest goes into the state: that is what a record holds."""


class Entry(Record):
    """A checkpoint of LangGraph, ready to be saved."""

    id: str
    key: str
    parent_key: str | None
    state: dict[str, Any]
    metadata: dict[str, Any]
    message: str
    status: str
    trigger: str
    step: int | None
    created_at: datetime | None = None
    """When it was made, of one that is imported; one that is put is made now."""


def entry_of(
    namespace: str,
    parent: str | None,
    checkpoint: Mapping[str, Any],
    metadata: Mapping[str, Any],
) -> Entry:
    """What to save for a checkpoint whose metadata is complete already (see `whole_metadata`)."""
    plain, rest = split_metadata(plain_run(metadata))
    state = {name: value for name, value in checkpoint.items() if name != "id"}
    for name in _OWN:
        if name in state:
            raise UnsupportedError(
                f"the checkpoint has an entry {name!r}, which this saver keeps for itself",
                code=ErrorCode.NOT_SUPPORTED,
                hint="a newer LangGraph may need a newer holdfast",
            )
    state["parent"] = parent
    if rest:
        state["metadata"] = rest
        plain[IN_STATE] = [name if _is_label(name) else None for name in rest]
    if keys.is_hashed(namespace):
        state["checkpoint_ns"] = namespace
    source, step = metadata.get("source"), metadata.get("step")
    source = source if type(source) is str and source and source.isprintable() else "put"
    # LangGraph's ids are text; a program that puts by itself may have a UUID.
    checkpoint_id = str(checkpoint["id"])
    return Entry(
        id=checkpoint_id,
        key=keys.checkpoint_key(namespace, checkpoint_id),
        parent_key=None if parent is None else keys.checkpoint_key(namespace, parent),
        state=state,
        metadata=plain,
        message=checkpoint_message(source, step, checkpoint),
        status=checkpoint_status(source, checkpoint),
        trigger="fork" if source == "fork" else f"auto:{source}",
        step=step if type(step) is int and 0 <= step < 2**63 else None,
    )


def whole_metadata(config: RunnableConfig, metadata: CheckpointMetadata) -> dict[str, Any]:
    """The metadata of a checkpoint with what the config adds to it, as LangGraph's own savers do."""
    return cast("dict[str, Any]", get_checkpoint_metadata(config, metadata))


def plain_run(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Metadata, or a filter, with the id of the run as text: checkpoints are found by it, whoever has it as a UUID."""
    run_id = metadata.get("run_id")
    return {**metadata, "run_id": run_text(run_id)} if isinstance(run_id, UUID) else metadata


def run_text(run_id: Any) -> Any:
    """The id of a run as it is stored."""
    return str(run_id) if isinstance(run_id, UUID) else run_id


def split_metadata(metadata: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What of it is plain JSON (tuples become lists, as in every saver), and the rest."""
    plain: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for name, value in metadata.items():
        try:
            plain[_name(name)] = _plain(value, 1)
        except _NotPlain:
            rest[name] = value
    _make_room(metadata, plain, rest)
    return plain, rest


def _make_room(metadata: Mapping[str, Any], plain: dict[str, Any], rest: dict[str, Any]) -> None:
    """Move the largest entries into the state until the others fit into a record, with the names of all."""
    if _size(plain) + _size(list(map(str, rest))) <= _MOST_BYTES:
        return
    sizes = {name: _size(name) + _size(value) for name, value in plain.items()}
    total = sum(sizes.values()) + sum(_size(name) for name in rest if _is_label(name))
    for name in sorted(plain, key=sizes.__getitem__, reverse=True):
        if total <= _MOST_BYTES:
            break
        # Its name stays.
        total -= sizes[name] - _size(name)
        rest[name] = metadata[name]
        del plain[name]


def _size(value: Any) -> int:
    # One more for what separates it from the next.
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":"))) + 1


def metadata_of(saved: Saved, state: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata as it was put."""
    metadata = saved.metadata
    if metadata.pop(IN_STATE, None) is not None:
        metadata.update(state["metadata"])
    return metadata


def may_match(saved: Saved, wanted: Mapping[str, Any]) -> bool:
    """Whether the metadata may have these values, as far as the record says; the state may have to be asked."""
    metadata = saved.metadata
    in_state = metadata.pop(IN_STATE, ())
    if None in in_state:
        return True
    rest = {
        name: value
        for name, value in wanted.items()
        if name not in in_state and str(name).partition(".")[0] not in in_state
    }
    return matches(metadata, rest)


def matches(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether metadata has these values. `{"user.id": 7}` and `{"user": {"id": 7}}` both look inside `user`."""
    return all(
        _holds(metadata.get(name), value) or ("." in str(name) and _holds(_at(metadata, name), value))
        for name, value in wanted.items()
    )


def _holds(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return all(name in found and _holds(found[name], value) for name, value in wanted.items())
    return bool(found == wanted)


def _at(metadata: Mapping[str, Any], path: str) -> Any:
    found: Any = metadata
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def awaits_sends(state: Mapping[str, Any]) -> bool:
    """Whether it is of a format in which what was sent to nodes stood among the writes of its parent."""
    version = state.get("v")
    return isinstance(version, int) and version < _SENDS_IN_VALUES and state["parent"] is not None


def tuple_of(
    saved: Saved,
    key: keys.Key,
    state: Mapping[str, Any],
    writes: Sequence[Mapping[str, Any]],
    *,
    config: RunnableConfig | None = None,
    sent: Sequence[Mapping[str, Any]] = (),
) -> CheckpointTuple:
    """A checkpoint as LangGraph wants it back.

    Args:
        saved: Its record.
        key: Where it is.
        state: Its state.
        writes: The calls of `put_writes` on it.
        config: The config that asked for it.
        sent: Those on its parent, where it `awaits_sends`: PostgresSaver moves them in the same way.
    """
    namespace = key.namespace if key.namespace is not None else state["checkpoint_ns"]
    parent = state["parent"]
    if saved.skipped:
        # What it was made from has been removed since; LangGraph should not be sent there.
        parent = None
    checkpoint = {name: value for name, value in state.items() if name not in _OWN}
    checkpoint["id"] = key.checkpoint_id
    sends = [value for _, channel, value in gathered(sent) if channel == TASKS]
    if sends:
        versions = checkpoint["channel_versions"]
        checkpoint["channel_values"] = {**checkpoint["channel_values"], TASKS: sends}
        checkpoint["channel_versions"] = {**versions, TASKS: max(versions.values(), default=1)}
    return CheckpointTuple(
        config=config or config_for(saved.session, namespace, key.checkpoint_id),
        checkpoint=cast("Checkpoint", checkpoint),
        metadata=cast("CheckpointMetadata", metadata_of(saved, state)),
        parent_config=None if parent is None else config_for(saved.session, namespace, parent),
        pending_writes=gathered(writes),
    )


class _NotPlain(Exception):  # noqa: N818 - never leaves this module
    pass


def _name(name: Any) -> str:
    if not _is_label(name) or name == IN_STATE:
        raise _NotPlain
    return str(name)


def _is_label(name: Any) -> bool:
    return type(name) is str and len(name) <= _LONGEST_TEXT and "\x00" not in name and _is_unicode(name)


def _plain(value: Any, depth: int) -> Any:
    """The value as plain JSON.

    Raises:
        _NotPlain: It would not come back as what it is.
    """
    kind = type(value)
    if value is None or kind is bool or (kind is int and -(2**63) <= value < 2**63):
        return value
    if kind is float and math.isfinite(value):
        return value
    if _is_label(value):
        return value
    if depth < _DEEPEST and kind in (list, tuple):
        return [_plain(each, depth + 1) for each in value]
    if depth < _DEEPEST and kind is dict and all(map(_is_label, value)):
        return {name: _plain(each, depth + 1) for name, each in value.items()}
    raise _NotPlain


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def thread_of(config: RunnableConfig) -> str:
    """The thread, as text: LangGraph lets people pass numbers and UUIDs."""
    thread = _configurable(config).get("thread_id")
    if thread is None or thread == "":
        raise bad_argument(
            "the config names no thread", 'pass {"configurable": {"thread_id": "..."}}', argument="thread_id"
        )
    return thread_text(thread)


def thread_text(thread: Any) -> str:
    """A thread id as a session id."""
    text = str(thread)
    # As a session id has to be; checked here to say it in LangGraph's words.
    if not text or len(text) > 256 or text != text.strip() or not text.isprintable():
        raise InvalidInputError(
            f"thread_id cannot be {text[:60]!r}",
            code=ErrorCode.BAD_NAME,
            hint="use 1 to 256 printable characters, no space at either end",
            argument="thread_id",
        )
    return text


def namespace_of(config: RunnableConfig) -> str:
    """The namespace; the root where none is named."""
    return str(_configurable(config).get("checkpoint_ns") or "")


def listed_namespace(config: RunnableConfig) -> str | None:
    """The namespace to list; None for all of them, where none is named."""
    namespace = _configurable(config).get("checkpoint_ns")
    return None if namespace is None else str(namespace)


def checkpoint_of(config: RunnableConfig) -> str | None:
    """The id of a checkpoint, if one is named."""
    checkpoint_id = _configurable(config).get("checkpoint_id")
    return str(checkpoint_id) if checkpoint_id else None


def named_checkpoint(config: RunnableConfig) -> str:
    """The id of the checkpoint that something belongs to."""
    checkpoint_id = checkpoint_of(config)
    if checkpoint_id is None:
        raise bad_argument(
            "the config names no checkpoint to store writes on",
            "pass the config that put returned",
            argument="checkpoint_id",
        )
    return checkpoint_id


def config_for(thread: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    """The config that names a checkpoint."""
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}}


def _configurable(config: RunnableConfig) -> Mapping[str, Any]:
    given: object = config
    found = given.get("configurable") if isinstance(given, Mapping) else None
    if not isinstance(found, Mapping):
        raise bad_argument(
            "the config has no configurable part",
            'pass {"configurable": {"thread_id": "..."}}',
            argument="config",
        )
    return found


def state_of(writes: Sequence[tuple[str, Any]], task_id: str, task_path: str) -> dict[str, Any]:
    """The state that keeps one call."""
    numbered = [
        [WRITES_IDX_MAP.get(channel, index), channel, value] for index, (channel, value) in enumerate(writes)
    ]
    return {"task_id": task_id, "task_path": task_path, "writes": numbered}


def may_replace(state: Mapping[str, Any]) -> bool:
    """Whether a call has writes that take the place of earlier ones."""
    return any(index < 0 for index, _, _ in state["writes"])


def gathered(calls: Iterable[Mapping[str, Any]]) -> list[PendingWrite]:
    """The writes that count, of all calls on one checkpoint in the order of their keys, as LangGraph orders them."""
    found: dict[tuple[str, str, int], PendingWrite] = {}
    places: dict[tuple[str, int], tuple[str, str, int]] = {}
    for call in calls:
        task_id, task_path = call["task_id"], call["task_path"]
        for index, channel, value in call["writes"]:
            before = places.get((task_id, index))
            if before is not None:
                if index >= 0:
                    continue
                del found[before]
            place = writes_sort_key(task_path, task_id, index)
            places[task_id, index] = place
            found[place] = (task_id, channel, value)
    return [found[place] for place in sorted(found)]
