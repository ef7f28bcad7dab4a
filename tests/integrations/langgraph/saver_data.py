"""Checkpoints of LangGraph as the tests of the saver put them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from langgraph.checkpoint.base.id import uuid6

from holdfast.backends.memory import MemoryBackend

FLOW: Any = {"source": "loop", "step": 1, "parents": {}}


def config(thread="t", namespace="", checkpoint=None) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint}}


def checkpoint(values=None, id=None, **more) -> Any:  # noqa: A002 - LangGraph's name
    values = values or {}
    return {
        "v": 4,
        "id": id or str(uuid6()),
        "ts": "2026-11-16T07:00:00+00:00",
        "channel_values": values,
        "channel_versions": dict.fromkeys(values, 1),
        "versions_seen": {},
        "updated_channels": None,
        **more,
    }


def put(saver, parent=None, values=None, metadata=FLOW, **where):
    at = parent or config(**where)
    return saver.put(at, checkpoint(values), metadata, {})


def ids(found):
    return [each.checkpoint["id"] for each in found]


def id_of(made):
    return made["configurable"]["checkpoint_id"]


def parent_of(saver, made):
    found = saver.get_tuple(made).parent_config
    return found and id_of(found)


def branches(saver):
    return [each for each in saver.store.session("t").branches() if each.name != "writes"]


class Counting:
    """A backend that counts what is asked of it."""

    def __init__(self) -> None:
        self.inner = MemoryBackend()
        self.asked: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.asked[name] += 1
        return getattr(self.inner, name)
