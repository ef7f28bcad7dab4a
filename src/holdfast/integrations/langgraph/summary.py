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
_JOIN: Final = "join:"
"""What the channel begins with that waits for several nodes: join:one+other:node."""
_PULL: Final = "~__pregel_pull, "
"""What the path of a task begins with that is a node of the graph; the rest is the node's name."""

_WORDS: Final = {INTERRUPT: "interrupt", RESUME: "resume", SCHEDULED: "scheduled", "__return__": "return"}

_MOST_NAMES: Final = 4
_LONGEST_NAME: Final = 40
_LONGEST: Final = 100
_LONGEST_TEXT: Final = 60
_TASK_DIGITS: Final = 8


def checkpoint_message(source: str, step: Any, checkpoint: Mapping[str, Any]) -> str:
    """What a checkpoint brought: `messages; next: review`, `input: messages`; with nothing known, its step."""
    values = checkpoint.get("channel_values")
    values = values if isinstance(values, Mapping) else {}
    changed, following = _sorted_out(_updated(checkpoint, values))
    following += [str(name).rpartition(":")[2] for name, value in values.items() if _is_joined(name, value)]
    if _START in values and isinstance(values[_START], Mapping):
        changed += [name for name in values[_START] if isinstance(name, str)]
    if TASKS in values and isinstance(values[TASKS], Sequence):
        following += _targets(values[TASKS])
    said = _joined(changed, following)
    if not said:
        return _one_line(source, _LONGEST) + (f", step {step}" if type(step) is int else "")
    if source != "loop":
        said = f"{_one_line(source, _LONGEST_NAME)}: {said}"
    given = values.get(_START)
    spoken = _last_message(changed, {**given, **values} if isinstance(given, Mapping) else values)
    return f"{spoken} ({said})" if spoken else said


def checkpoint_status(source: str, checkpoint: Mapping[str, Any]) -> str:
    """Whether the graph has ended with this checkpoint, or goes on."""
    values = checkpoint.get("channel_values")
    if source != "loop" or not isinstance(values, Mapping):
        return "running"
    # What wakes the nodes of the next step: their own channel, what was sent to them, or all that they wait for.
    goes_on = any(
        str(name).startswith((_TO_NODE, _START)) or name == TASKS or _is_joined(name, value)
        for name, value in values.items()
    )
    return "running" if goes_on else "completed"


def _is_joined(name: Any, value: Any) -> bool:
    """Whether all nodes that an edge joins have come."""
    if not isinstance(name, str) or not name.startswith(_JOIN):
        return False
    return isinstance(value, (set, frozenset, list)) and set(value) == set(
        name.removeprefix(_JOIN).rpartition(":")[0].split("+")
    )


def _last_message(changed: Iterable[str], values: Mapping[str, Any]) -> str:
    """Who said what last, in a channel of messages that changed."""
    for name in changed:
        channel = values.get(name)
        last = channel[-1] if isinstance(channel, list) and channel else channel
        who, content = getattr(last, "type", None), getattr(last, "content", None)
        if not isinstance(who, str) or content is None:
            continue
        parts = content if isinstance(content, list) else [content]
        texts = [each.get("text", "") if isinstance(each, Mapping) else each for each in parts]
        text = " ".join(each for each in texts if isinstance(each, str) and each.strip())
        calls = getattr(last, "tool_calls", None)
        if not text and isinstance(calls, list):
            text = "calls " + _listed(str(each["name"]) for each in calls if "name" in each) if calls else ""
        if text:
            return f"{_one_line(who, _LONGEST_NAME)}: {_one_line(text, _LONGEST_TEXT)}"
    return ""


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
        elif not name.startswith(("__", _JOIN)):
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
