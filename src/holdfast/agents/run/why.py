"""why: the checkpoint that set a value, what else it changed, and the thought and tool call behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.agents.run.diff import RunDiff, diff_checkpoints
from holdfast.agents.run.parts import is_run, new_state

if TYPE_CHECKING:
    from holdfast import Checkpoint, Session


@dataclass(frozen=True)
class Why:
    """Where a value comes from.

    Attributes:
        path: The place that was asked about.
        value: What is there; None where it was removed.
        old: What was there before.
        checkpoint: The checkpoint that set it.
        changes: What else changed with it; None where no run saved it.
        thought: The thought of the run that came before, or with it.
        tool_call: The call whose result it is, or that ended last before it.
    """

    path: str
    value: Any
    old: Any
    checkpoint: Checkpoint
    changes: RunDiff | None = None
    thought: dict[str, Any] | None = None
    tool_call: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "path": self.path,
            "value": self.value,
            "old": self.old,
            "checkpoint": self.checkpoint.to_dict(),
            "changes": None if self.changes is None else self.changes.to_dict(),
            "thought": self.thought,
            "tool_call": self.tool_call,
        }


def why(session: Session, path: str, ref: str | Checkpoint = "@") -> Why:
    """Say where the value at a path comes from; `variables.x` is short for `context.variables.x`.

    Raises:
        NotFoundError: There is nothing at the path.
    """
    if path.split(".", maxsplit=1)[0].split("[", maxsplit=1)[0] in ("variables", "history"):
        path = f"context.{path}"
    found = session.blame(path, ref)
    made = found.checkpoint
    state = session.load(made)
    if not is_run(state):
        return Why(path, found.value, found.old, made)
    before = None if found.before is None else session.load(found.before)
    earlier = before if is_run(before) else None
    start = new_state("", "") if earlier is None else earlier
    return Why(
        path,
        found.value,
        found.old,
        made,
        diff_checkpoints(start, state),
        _thought(earlier, state),
        _call(path, state),
    )


def _thought(before: Mapping[str, Any] | None, state: Mapping[str, Any]) -> dict[str, Any] | None:
    """The last thought before the change: a change waits for the next checkpoint, which may be another thought's."""
    for source in (before, state):
        if source is not None and source["thought_chain"]:
            return dict(source["thought_chain"][-1])
    return None


def _call(path: str, state: Mapping[str, Any]) -> dict[str, Any] | None:
    calls = state["tool_state"]["calls"]
    named = [call for call in calls if call["id"] in path]
    if named:
        return dict(named[0])
    ended = [call for call in calls if call.get("completed_at") is not None]
    return dict(max(ended, key=lambda call: call["completed_at"])) if ended else None
