"""How a thread reads on the command line: one row a step, and what a graph says before how it runs.

Needs no LangGraph, as `keys` does not: a store may be looked at where the graph cannot run.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterable, Iterator

from holdfast import Checkpoint
from holdfast.integrations.langgraph import keys
from holdfast.reports import Diff

_WAITING = ("paused", "failed")
_WINDOW = 8
"""Rows that wait before they are shown: LangGraph may store writes before the checkpoint that they are on."""
_VALUES = "channel_values"
_OWN_CHANNELS = ("branch:to:", "__", "join:", "start:")
"""What the channels begin with that LangGraph makes for itself."""


def folded(rows: Iterable[Checkpoint]) -> Iterator[Checkpoint]:
    """Checkpoints, newest first, without pending writes: those show in the row of the checkpoint they are on.

    It is paused or failed where one of its tasks is, and says which. Rows of other programs come as they are.
    """
    tasks: dict[tuple[str, str | None], dict[str, Checkpoint]] = {}
    held: deque[Checkpoint] = deque()
    for row in rows:
        key = keys.parse(row.key)
        if key is not None and key.task_id is not None:
            # The newest row of a task counts: one that was answered goes on.
            tasks.setdefault((row.session, key.owner), {}).setdefault(key.task_id, row)
            continue
        held.append(row)
        if len(held) > _WINDOW:
            yield _with_tasks(held[0], tasks.pop((held[0].session, held[0].key), {}).values())
            held.popleft()
    for row in held:
        yield _with_tasks(row, tasks.pop((row.session, row.key), {}).values())


def _with_tasks(row: Checkpoint, tasks: Iterable[Checkpoint]) -> Checkpoint:
    waiting = [each for each in tasks if each.status in _WAITING]
    if not waiting:
        return row
    status = "failed" if any(each.status == "failed" for each in waiting) else "paused"
    message = "; ".join([row.message, *(each.message for each in waiting)])
    shown = copy.copy(row)
    # For people: what is stored says of the checkpoint itself how it was when it was made.
    stored = row._row._replace(status=status, message=message, edited_message=None)  # noqa: SLF001
    object.__setattr__(shown, "_row", stored)
    return shown


def values_first(diff: Diff, key: str | None) -> Diff:
    """What the program's channels show of a difference; all of it where that is nothing, or the key no thread's."""
    if keys.parse(key) is None:
        return diff
    said = [each for each in diff.changes if _is_said(each.path)]
    return Diff(said, diff.depth) if said else diff


def _is_said(path: str) -> bool:
    if not path.startswith(_VALUES):
        return False
    channel = path.removeprefix(_VALUES).lstrip(".['\"")
    return not channel.startswith(_OWN_CHANNELS)
