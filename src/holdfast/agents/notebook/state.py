"""The debugging state: everything that is needed to go on, as one value with fixed names.

In the store each group is a dict by id, so that `blame beliefs.b7.confidence` works and merges meet; `DebugState` shows
each as a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from holdfast.agents.notebook.part import Item, plain

__all__ = ["GROUPS", "METRICS", "DebugState", "empty_state", "is_notebook"]

GROUPS: Final = (
    "hypotheses",
    "evidence",
    "beliefs",
    "belief_dependencies",
    "gaps",
    "verification_results",
    "branches",
    "notes",
    "command_history",
)
METRICS: Final = (
    "checkpoints_created",
    "hypotheses_tested",
    "verifications_run",
    "gaps_filled",
    "time_in_debugging",
)


@dataclass
class DebugState:
    """A debugging session at a moment."""

    session_id: str
    started_at: datetime
    hypotheses: list[Item] = field(default_factory=list)
    evidence: list[Item] = field(default_factory=list)
    beliefs: list[Item] = field(default_factory=list)
    belief_dependencies: list[Item] = field(default_factory=list)
    gaps: list[Item] = field(default_factory=list)
    verification_results: list[Item] = field(default_factory=list)
    current_branch: str = "main"
    branches: list[Item] = field(default_factory=list)
    notes: list[Item] = field(default_factory=list)
    code_changes: Item | None = None
    command_history: list[Item] = field(default_factory=list)
    metrics: Item = field(default_factory=dict)
    workspace: Item | None = None
    """Where the code stands (folder, repositories, variables), also where nothing was changed."""

    def to_dict(self) -> dict[str, Any]:
        """The state as plain data."""
        return dict(vars(self))

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> DebugState:
        """The state that a checkpoint of a notebook has."""
        known = {name: plain(stored[name]) for name in cls.__dataclass_fields__ if name in stored}
        # A system of somebody else may keep its items as it likes.
        groups = {name: list(known[name].values()) for name in GROUPS if isinstance(known.get(name), dict)}
        return cls(**(known | groups))


def empty_state(session: str, now: datetime, branch: str) -> dict[str, Any]:
    """What a new notebook begins with."""
    return {
        "notebook": 1,
        "session_id": session,
        "started_at": now,
        **{name: {} for name in GROUPS},
        "current_branch": branch,
        "code_changes": None,
        "workspace": None,
        "metrics": {name: 0.0 if name == "time_in_debugging" else 0 for name in METRICS},
    }


def is_notebook(state: object) -> bool:
    """Say whether a state is that of a notebook."""
    return isinstance(state, Mapping) and "notebook" in state and "hypotheses" in state and "metrics" in state
