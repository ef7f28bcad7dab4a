"""What a row of a thread says to people: which channels changed, what comes next, what a task waits for or died of.

One short line each, made from what LangGraph itself recorded. Nothing is ever found by it, so names are cut and
characters replaced as it suits a line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME, SCHEDULED, TASKS

_START: Final = "__start__"
_TO_NODE: Final = "branch:to:"
"""What the channel begins with that wakes a node; the rest is the node's name."""
_PULL: Final = "~__pregel_pull, "
"""What the path of a task begins with that is a node of the graph; the rest is the node's name."""

_WORDS: Final = {INTERRUPT: "interrupt", RESUME: "resume", SCHEDULED: "scheduled", "__return__": "return"}

_MOST_NAMES: Final = 4
_LONGEST_NAME: Final = 40
_LONGEST: Final = 100
_TASK_DIGITS: Final = 8


def checkpoint_message(source: str, step: Any, checkpoint: Mapping[str, Any]) -> str:
    """What a checkpoint brought: `messages; next: review`, `input: messages`; with nothing known, its step."""
    values = checkpoint.get("channel_values")
    values = values if isinstance(values, Mapping) else {}
    changed, following = _sorted_out(_updated(checkpoint, values))
    if _START in values and isinstance(values[_START], Mapping):
        changed += [name for name in values[_START] if isinstance(name, str)]
    if TASKS in values and isinstance(values[TASKS], Sequence):
        following += _targets(values[TASKS])
    said = _joined(changed, following)
    if not said:
        return _one_line(source, _LONGEST) + (f", step {step}" if type(step) is int else "")
    return said if source == "loop" else f"{_one_line(source, _LONGEST_NAME)}: {said}"


def writes_message(call: Mapping[str, Any]) -> str:
    """What a task wrote, after the name of its node: `answer: messages`, `review: interrupt`, `boom: KeyError(1)`."""
    writes = [(channel, value) for _, channel, value in call["writes"]]
    words, following = (
        [],
        [target for channel, value in writes if channel == TASKS for target in _targets([value])],
    )
    for channel, value in writes:
        if channel == ERROR:
            words.append(_one_line(value if isinstance(value, str) else repr(value), _LONGEST))
        elif channel in _WORDS:
            words.append(_WORDS[channel])
    changed, nodes = _sorted_out(channel for channel, _ in writes)
    return ": ".join(
        filter(None, (_task_name(call), _joined(words + changed, nodes + following) or "nothing"))
    )


def writes_status(call: Mapping[str, Any]) -> str:
    """The status of a task that wrote this: waiting for an answer, failed, or on its way."""
    channels = {channel for _, channel, _ in call["writes"]}
    return "failed" if ERROR in channels else "paused" if INTERRUPT in channels else "running"


def _updated(checkpoint: Mapping[str, Any], values: Mapping[str, Any]) -> Iterable[str]:
    updated = checkpoint.get("updated_channels")
    if isinstance(updated, Sequence):
        return [name for name in updated if isinstance(name, str)]
    # Not every checkpoint says so; what changed last has the highest version, and so have channels that were emptied.
    versions = checkpoint.get("channel_versions")
    versions = versions if isinstance(versions, Mapping) else {}
    try:
        newest = max(versions.values(), default=None)
    except TypeError:
        # Numbers beside texts, from two savers.
        return ()
    return [name for name, version in versions.items() if version == newest and name in values]


def _sorted_out(channels: Iterable[str]) -> tuple[list[str], list[str]]:
    """The channels of the program, and the nodes that the others wake."""
    changed, following = [], []
    for name in channels:
        if name.startswith(_TO_NODE):
            following.append(name.removeprefix(_TO_NODE))
        elif not name.startswith("__"):
            changed.append(name)
    return changed, following


def _targets(sends: Iterable[Any]) -> list[str]:
    found = (getattr(send, "node", None) for send in sends)
    return [node for node in found if isinstance(node, str)]


def _joined(changed: Iterable[str], following: Iterable[str]) -> str:
    said = [_listed(changed), _listed(following)]
    return "; ".join(filter(None, (said[0], f"next: {said[1]}" if said[1] else "")))


def _listed(names: Iterable[str]) -> str:
    each = list(dict.fromkeys(names))
    shown = [_one_line(name, _LONGEST) for name in each[:_MOST_NAMES]]
    more = [f"{len(each) - _MOST_NAMES:,} more"] if len(each) > _MOST_NAMES else []
    return ", ".join(shown + more)


def _task_name(call: Mapping[str, Any]) -> str:
    task_id, path = str(call["task_id"]), str(call["task_path"])
    if path.startswith(_PULL):
        return _one_line(path.removeprefix(_PULL), _LONGEST_NAME)
    # What the caller writes, such as the answer to an interrupt, is of no task: its id has only zeros.
    return f"task {_one_line(task_id[:_TASK_DIGITS], _TASK_DIGITS)}" if task_id.strip("0-") else ""


def _one_line(text: str, longest: int) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 2 * longest]).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"
