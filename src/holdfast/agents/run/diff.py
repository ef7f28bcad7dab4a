"""diff_checkpoints: what a run did between two of its checkpoints, in its own words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from holdfast.agents.run.parts import is_run
from holdfast.agents.run.portable import validate

_ABSENT = object()


@dataclass(frozen=True)
class RunDiff:
    """What came, from one checkpoint of a run to another.

    Attributes:
        thoughts_added: Thoughts that only the second has.
        thoughts_removed: Thoughts that only the first has: after a restore or on another branch.
        tool_calls_added: Calls that only the second has.
        tool_calls_changed: Calls that both have and that ended in between: id, tool_id, old and new status.
        context_changes: Of each variable that differs: `variable`, `old` and `new`; entries of the context's state are
            called `state.<name>`. A variable that is not there is None.
        history_added: What was added to the history.
    """

    thoughts_added: list[dict[str, Any]] = field(default_factory=list)
    thoughts_removed: list[dict[str, Any]] = field(default_factory=list)
    tool_calls_added: list[dict[str, Any]] = field(default_factory=list)
    tool_calls_changed: list[dict[str, Any]] = field(default_factory=list)
    context_changes: list[dict[str, Any]] = field(default_factory=list)
    history_added: list[Any] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return asdict(self)

    def __bool__(self) -> bool:
        return any(self.to_dict().values())

    def summary(self) -> str:
        """A few lines for people."""
        lines = [f"+ {each['type']}: {each['content']}" for each in self.thoughts_added]
        lines += [f"- {each['type']}: {each['content']}" for each in self.thoughts_removed]
        lines += [
            f"+ tool {each['tool_id']} ({each.get('status', 'called')})" for each in self.tool_calls_added
        ]
        lines += [
            f"~ tool {each['tool_id']}: {each['old']} -> {each['new']}" for each in self.tool_calls_changed
        ]
        lines += [
            f"~ {each['variable']}: {each['old']!r} -> {each['new']!r}" for each in self.context_changes
        ]
        if self.history_added:
            lines.append(f"+ {len(self.history_added)} in the history")
        return "\n".join(lines) or "no difference"


def diff_checkpoints(a: Mapping[str, Any], b: Mapping[str, Any]) -> RunDiff:
    """Compare two checkpoints of a run, each as `run.export` or a loaded state gives it.

    Raises:
        InvalidInputError: One of them is no checkpoint of a run; the message has the place.
    """
    old, new = _snapshot(a), _snapshot(b)
    thoughts = _by_id(old["thought_chain"]), _by_id(new["thought_chain"])
    calls = _by_id(old["tool_state"]["calls"]), _by_id(new["tool_state"]["calls"])
    before, after = old["context"]["history"], new["context"]["history"]
    return RunDiff(
        thoughts_added=[each for name, each in thoughts[1].items() if name not in thoughts[0]],
        thoughts_removed=[each for name, each in thoughts[0].items() if name not in thoughts[1]],
        tool_calls_added=[each for name, each in calls[1].items() if name not in calls[0]],
        tool_calls_changed=[
            {
                "id": name,
                "tool_id": each["tool_id"],
                "old": calls[0][name].get("status"),
                "new": each.get("status"),
            }
            for name, each in calls[1].items()
            if name in calls[0] and calls[0][name].get("status") != each.get("status")
        ],
        context_changes=[
            *_changes("", old["context"]["variables"], new["context"]["variables"]),
            *_changes("state.", old["context"]["state"], new["context"]["state"]),
        ],
        history_added=list(after[len(before) :])
        if list(after[: len(before)]) == list(before)
        else list(after),
    )


def _snapshot(checkpoint: Mapping[str, Any]) -> Mapping[str, Any]:
    if is_run(checkpoint):
        return checkpoint
    found: Mapping[str, Any] = validate(checkpoint)["snapshot"]
    return found


def _by_id(items: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {each["id"]: each for each in items}


def _changes(prefix: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name in {**old, **new}:
        before, after = old.get(name, _ABSENT), new.get(name, _ABSENT)
        if before is _ABSENT or after is _ABSENT or type(before) is not type(after) or before != after:
            yield {
                "variable": f"{prefix}{name}",
                "old": None if before is _ABSENT else before,
                "new": None if after is _ABSENT else after,
            }
