"""Where a refused value is, in the words of a graph: `messages[3].artifact`, and who wrote it.

What is saved has more around it, `state['channel_values']` or `state['writes'][0][2]`. That is the path which
`holdfast show` takes, and stays in the details of the error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from holdfast.errors import InvalidInputError
from holdfast.objects.path import key_step

_WRITTEN: Final = re.compile(r"state\['writes'\]\[(\d+)\]\[2\]")
_PULLED: Final = "~__pregel_pull, "
"""How LangGraph begins the path of a task that a node has by its edges; the name of the node follows."""

_LONGEST_NAME = 80


@contextmanager
def in_channels(state: Mapping[str, Any]) -> Iterator[None]:
    """Say in which channel it is, or where in the metadata, that a checkpoint cannot be kept."""
    try:
        yield
    except InvalidInputError as error:
        raw = error.details.get("path", "")
        for channel in state.get("channel_values") or ():
            start = f"state['channel_values']{key_step(channel)}"
            if raw == start or raw.startswith((f"{start}[", f"{start}.", f"{start}<")):
                raise _renamed(error, start, _name(channel), "", channel=channel) from error
        if raw.startswith("state['metadata']["):
            raise _renamed(error, "state['metadata']", "metadata", "") from error
        raise


@contextmanager
def in_writes(state: Mapping[str, Any]) -> Iterator[None]:
    """Say what was written to which channel, and by whom, that cannot be kept."""
    try:
        yield
    except InvalidInputError as error:
        found = _WRITTEN.match(error.details.get("path", ""))
        if found is None:
            raise
        channel = state["writes"][int(found[1])][1]
        task, path = state["task_id"], state["task_path"]
        writer = f"task {task!s:.80}"
        if path.startswith(_PULLED):
            writer = f"node {path.removeprefix(_PULLED)!r:.80} ({writer})"
        elif path:
            writer = f"{writer} ({path:.80})"
        details = {"channel": channel, "task_id": task, "task_path": path}
        raise _renamed(error, found[0], _name(channel), f", written by {writer}", **details) from error


def _renamed(error: InvalidInputError, start: str, shown: str, by: str, **details: Any) -> InvalidInputError:
    raw = error.details["path"]
    reason = str(error).removeprefix(f"{raw}: ").replace(start, shown)
    message = f"{shown}{raw.removeprefix(start)}{by}: {reason}"
    return type(error)(message, code=error.code, hint=error.hint, **error.details, **details)


def _name(channel: Any) -> str:
    """A channel as the beginning of a path."""
    # Nothing stops a program from a name that is no text, but the graph.
    if not isinstance(channel, str):
        return key_step(channel)
    return channel if channel.isidentifier() else ascii(channel[:_LONGEST_NAME])
