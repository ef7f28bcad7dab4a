"""Pending writes: what tasks wrote on a checkpoint before their step was over.

Each call of put_writes is one checkpoint of holdfast, on the branch `writes`. A call may repeat what an earlier one
said, and calls are never changed, so which write counts is decided when they are read: of several with one place in a
task's list the first, of errors, interrupts and resumes the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP, PendingWrite, writes_sort_key


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
