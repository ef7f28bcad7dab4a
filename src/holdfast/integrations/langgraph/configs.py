"""What a config of LangGraph names: a thread, a namespace, a checkpoint.

    {"configurable": {"thread_id": "42", "checkpoint_ns": "", "checkpoint_id": "1f0a..."}}

A config without a namespace means the root; one without a checkpoint means the latest, or, where something is put, that
it has no parent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig

from holdfast.errors import ErrorCode, InvalidInputError


def thread_of(config: RunnableConfig) -> str:
    """The thread, as text: LangGraph lets people pass numbers and UUIDs."""
    thread = _configurable(config).get("thread_id")
    if thread is None or thread == "":
        raise InvalidInputError(
            "the config names no thread",
            code=ErrorCode.BAD_ARGUMENT,
            hint='pass {"configurable": {"thread_id": "..."}}',
            argument="thread_id",
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
        raise InvalidInputError(
            "the config names no checkpoint to store writes on",
            code=ErrorCode.BAD_ARGUMENT,
            hint="pass the config that put returned",
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
        raise InvalidInputError(
            "the config has no configurable part",
            code=ErrorCode.BAD_ARGUMENT,
            hint='pass {"configurable": {"thread_id": "..."}}',
            argument="config",
        )
    return found
