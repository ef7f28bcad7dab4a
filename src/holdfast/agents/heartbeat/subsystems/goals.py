"""Goals: what the agent wants, how much, and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.agents.heartbeat.stored import NUMBER, as_dict, misfit, parts, rows, unknown, within

_OPEN = "active"
_STATUSES = ("active", "completed", "abandoned")


@dataclass(slots=True)
class Goal:
    """One thing to reach."""

    id: str
    title: str
    priority: float
    progress: float = 0.0
    status: str = _OPEN
    parent: str | None = None
    note: str = ""


class Goals:
    """Goals by id, in the order they were added."""

    def __init__(self) -> None:
        self._goals: dict[str, Goal] = {}
        self._added = 0

    def add(self, title: str, *, priority: float = 0.5, parent: str | None = None) -> Goal:
        """Take up a goal; part of another one where a parent is given."""
        if parent is not None:
            self.get(parent)
        self._added += 1
        goal = Goal(f"g{self._added}", title, within(priority, "priority"), parent=parent)
        self._goals[goal.id] = goal
        return goal

    def get(self, id: str) -> Goal:  # noqa: A002 - the glossary's word
        """The goal of this id."""
        if id not in self._goals:
            raise unknown("goal", id)
        return self._goals[id]

    def advance(self, id: str, amount: float) -> Goal:  # noqa: A002 - the same
        """Come nearer to an active goal; at 1 it is completed, and its parent moves with its parts."""
        goal = self.get(id)
        amount = within(amount, "amount")
        if goal.status != _OPEN:
            return goal
        goal.progress = round(min(1.0, goal.progress + amount), 9)
        if goal.progress == 1.0:
            goal.status = "completed"
        if goal.parent is not None:
            self._gather(self.get(goal.parent))
        return goal

    def complete(self, id: str) -> Goal:  # noqa: A002 - the same
        """Reach a goal at once."""
        return self.advance(id, 1.0)

    def abandon(self, id: str, note: str = "") -> Goal:  # noqa: A002 - the same
        """Give a goal up."""
        goal = self.get(id)
        goal.status, goal.note = "abandoned", note
        return goal

    def prioritise(self, id: str, priority: float) -> None:  # noqa: A002 - the same
        """Want it more, or less."""
        self.get(id).priority = within(priority, "priority")

    def active(self) -> list[Goal]:
        """What is to be done, most wanted first; of equals the older one."""
        return sorted(
            (goal for goal in self._goals.values() if goal.status == _OPEN), key=lambda goal: -goal.priority
        )

    @property
    def current(self) -> Goal | None:
        """The most wanted one that has no open part of its own."""
        waiting = {goal.parent for goal in self._goals.values() if goal.status == _OPEN}
        return next((goal for goal in self.active() if goal.id not in waiting), None)

    def __len__(self) -> int:
        return len(self._goals)

    def forget_done(self) -> int:
        """Drop what is completed or abandoned, unless an open goal is part of it; return how many."""
        wanted: set[str] = set()
        for goal in self.active():
            at: str | None = goal.id
            while at is not None and at not in wanted:
                wanted.add(at)
                at = self._goals[at].parent
        before = len(self._goals)
        self._goals = {goal.id: goal for goal in self._goals.values() if goal.id in wanted}
        return before - len(self._goals)

    def snapshot(self) -> dict[str, Any]:
        """Every goal, and how many were ever added."""
        return {"goals": [as_dict(goal) for goal in self._goals.values()], "added": self._added}

    def restore(self, value: Any) -> None:
        """Take over what `snapshot` gave."""
        found = parts(value, "goals", goals=list, added=int)
        kinds: dict[str, Any] = {
            "id": str,
            "title": str,
            "priority": NUMBER,
            "progress": NUMBER,
            "status": str,
        }
        kinds |= {"parent": (str, type(None)), "note": str}
        goals = [Goal(**row) for row in rows(found.get("goals", ()), "goals", **kinds)]
        if any(goal.status not in _STATUSES for goal in goals):
            raise misfit("goals", f"a status is none of {', '.join(_STATUSES)}")
        self._goals = {goal.id: goal for goal in goals}
        self._added = found.get("added", len(goals))

    def _gather(self, parent: Goal) -> None:
        own = [
            goal for goal in self._goals.values() if goal.parent == parent.id and goal.status != "abandoned"
        ]
        parent.progress = round(sum(goal.progress for goal in own) / len(own), 9)
        if parent.progress == 1.0:
            parent.status = "completed"
        if parent.parent is not None:
            self._gather(self.get(parent.parent))
