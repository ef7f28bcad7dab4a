"""The four live parts of a run. Each is a view of its own piece of a tracked document.

A change marks its own piece dirty, and a save encodes and writes that piece alone. Thoughts and tool calls are made
through the run; the context is free for the application.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

from holdfast.errors import ErrorCode, InvalidInputError

THOUGHT_TYPES = ("reasoning", "observation", "action")
PARTS = ("thought_chain", "context", "tool_state", "progress")


def milliseconds() -> int:
    """This moment, as milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000


def short_id(kind: str, number: int | None = None) -> str:
    """A new id: `ckpt_9f3c...`; with a number, `thought_0042_9f3c21`, unique over forks too."""
    random = uuid.uuid4().hex
    return f"{kind}_{random[:16]}" if number is None else f"{kind}_{number:04d}_{random[:6]}"


def new_state(task: str, agent: str) -> dict[str, Any]:
    """The state of a run that has just begun."""
    return {
        "thought_chain": [],
        "context": {"variables": {}, "state": {}, "history": []},
        "tool_state": {"calls": [], "results": {}},
        "progress": {"step_number": 0, "total_thoughts": 0, "total_tool_calls": 0},
        "execution": new_execution(task, agent),
    }


def new_execution(task: str, agent: str, **known: Any) -> dict[str, Any]:
    """What a run knows of its execution."""
    return {
        "id": short_id("exec"),
        "agent_id": agent,
        "task": task,
        "started_at": milliseconds(),
        "completed_at": None,
        "status": "running",
        "tokens_used": 0,
        "cost_usd": 0.0,
        "duration_ms": 0,
        "note": None,
    } | known


def is_run(state: Any) -> bool:
    """Whether a state is one that a run saved."""
    return isinstance(state, dict) and all(name in state for name in (*PARTS, "execution"))


class ThoughtChain(Sequence[dict[str, Any]]):
    """The thoughts so far, oldest first: dicts of id, type, content, confidence, parent_id and created_at."""

    def __init__(self, document: Any) -> None:
        self._document = document

    @property
    def _thoughts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._document["thought_chain"]
        return found

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        return self._thoughts[index]

    def __len__(self) -> int:
        return len(self._thoughts)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._thoughts)

    def __repr__(self) -> str:
        return f"<ThoughtChain of {len(self)}>"


class Context:
    """What the agent works with: `variables`, `state` and `history`. Change them as you like; the next save has it."""

    def __init__(self, document: Any) -> None:
        self._document = document

    @property
    def variables(self) -> dict[str, Any]:
        """Named values."""
        return self._get("variables")  # type: ignore[no-any-return]

    @variables.setter
    def variables(self, value: Mapping[str, Any]) -> None:
        self._document["context"]["variables"] = dict(value)

    @property
    def state(self) -> dict[str, Any]:
        """Whatever else the agent has to remember."""
        return self._get("state")  # type: ignore[no-any-return]

    @state.setter
    def state(self, value: Mapping[str, Any]) -> None:
        self._document["context"]["state"] = dict(value)

    @property
    def history(self) -> list[Any]:
        """Messages, or what else comes one after the other."""
        return self._get("history")  # type: ignore[no-any-return]

    @history.setter
    def history(self, value: Sequence[Any]) -> None:
        self._document["context"]["history"] = list(value)

    def _get(self, name: str) -> Any:
        return self._document["context"][name]


class ToolState:
    """The tool calls so far, and their results by the id of the call."""

    def __init__(self, document: Any) -> None:
        self._document = document

    @property
    def calls(self) -> list[dict[str, Any]]:
        """Oldest first: id, tool_id, args, status, success, error, started_at, completed_at, thought_id."""
        return self._document["tool_state"]["calls"]  # type: ignore[no-any-return]

    @property
    def results(self) -> dict[str, Any]:
        """What they gave."""
        return self._document["tool_state"]["results"]  # type: ignore[no-any-return]

    @property
    def interrupted(self) -> list[dict[str, Any]]:
        """Calls that began and never ended, because the process did: their effect is unknown."""
        return [call for call in self.calls if call.get("status") == "interrupted"]


class Progress:
    """Counters of the run."""

    def __init__(self, document: Any) -> None:
        self._document = document

    @property
    def step_number(self) -> int:
        """Thoughts, tool calls and steps so far."""
        return int(self._document["progress"]["step_number"])

    @property
    def total_thoughts(self) -> int:
        """How many thoughts there are."""
        return int(self._document["progress"]["total_thoughts"])

    @property
    def total_tool_calls(self) -> int:
        """How many tool calls began."""
        return int(self._document["progress"]["total_tool_calls"])

    def count(self, name: str, by: int = 1) -> None:
        """Count a step, and what it was."""
        progress = self._document["progress"]
        progress["step_number"] += by
        if name in progress:
            progress[name] += by


def make_thought(
    number: int,
    content: Any,
    type: str,  # noqa: A002
    confidence: Any,
    parent_id: str | None,
) -> dict[str, Any]:
    """A thought, checked.

    Raises:
        InvalidInputError: The type is unknown, or the content or the confidence cannot be one.
    """
    if type not in THOUGHT_TYPES:
        raise _refused(
            f"a thought cannot be of type {type!r:.60}", f"it is one of: {', '.join(THOUGHT_TYPES)}", "type"
        )
    if not isinstance(content, str) or not content:
        raise _refused("a thought needs a text as its content", 'run.think("what I found")', "content")
    is_number = isinstance(confidence, int | float) and not isinstance(confidence, bool)
    if confidence is not None and not (is_number and 0 <= confidence <= 1):
        raise _refused(
            f"the confidence of a thought cannot be {confidence!r:.60}",
            "give a number from 0 to 1",
            "confidence",
        )
    return {
        "id": short_id("thought", number),
        "type": type,
        "content": content,
        "confidence": confidence,
        "parent_id": parent_id,
        "created_at": milliseconds(),
    }


def usage_of(value: Any) -> tuple[int, float]:
    """Tokens and cost of an answer that has a usage, in the ways of the large providers; 0 where it has none."""
    usage = _field(value, "usage")
    usage = value if usage is None else usage
    total = _number(_field(usage, "total_tokens"))
    if not total:
        names = ("input_tokens", "output_tokens", "prompt_tokens", "completion_tokens")
        total = sum(_number(_field(usage, name)) for name in names)
    return int(total), float(_number(_field(usage, "cost_usd")) or _number(_field(value, "cost_usd")))


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0


def _refused(message: str, hint: str, field: str) -> InvalidInputError:
    return InvalidInputError(message, code=ErrorCode.BAD_ARGUMENT, hint=hint, field=field)
