"""Theory of mind: what the agent thinks that others believe, and how far it trusts them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from holdfast.agents.heartbeat.stored import NUMBER, at_least_one, numbers, parts, rows, within


@dataclass(slots=True)
class Other:
    """A model of somebody else: a person, or another agent."""

    name: str
    trust: float = 0.5
    met: int = 0
    beliefs: dict[str, float] = field(default_factory=dict)
    """Propositions, and how surely the other one holds each true."""


class TheoryOfMind:
    """Models of others by name.

    Args:
        limit: How many others are kept; the one not met for longest goes first.
    """

    def __init__(self, *, limit: int = 100) -> None:
        self.limit = at_least_one(limit, "limit")
        self._others: dict[str, Other] = {}

    def meet(self, name: str) -> Other:
        """Take notice of somebody; who is met for the first time gets a model."""
        # Put last: the first in line is always who was not met for longest.
        other = self._others.pop(name, None) or Other(name)
        other.met += 1
        self._others[name] = other
        if len(self._others) > self.limit:
            del self._others[next(iter(self._others))]
        return other

    def about(self, name: str) -> Other | None:
        """The model of somebody; None who was never met."""
        return self._others.get(name)

    def believes(self, name: str, proposition: str, confidence: float) -> None:
        """Note what somebody seems to hold true, and how surely."""
        self.meet(name).beliefs[proposition] = within(confidence, "confidence")

    def confidence(self, name: str, proposition: str) -> float | None:
        """How surely somebody holds a thing true, as far as is known."""
        other = self._others.get(name)
        return None if other is None else other.beliefs.get(proposition)

    def surprised_by(self, name: str, proposition: str, *, held: bool) -> float:
        """Learn what somebody really thinks; return by how much the model was wrong, and trust it less for that."""
        other = self.meet(name)
        truth = float(held)
        missed = abs(truth - other.beliefs.get(proposition, 0.5))
        other.beliefs[proposition] = truth
        other.trust = max(0.0, min(1.0, other.trust + 0.1 * (0.5 - missed)))
        return missed

    def disagreements(self, proposition: str) -> tuple[list[str], list[str]]:
        """Who holds a thing true, and who does not."""
        known = {
            name: other.beliefs[proposition]
            for name, other in self._others.items()
            if proposition in other.beliefs
        }
        return [n for n, sure in known.items() if sure >= 0.5], [n for n, sure in known.items() if sure < 0.5]

    def __len__(self) -> int:
        return len(self._others)

    def snapshot(self) -> dict[str, Any]:
        """Every model, who was met last at the end."""
        return {
            "others": [
                {"name": o.name, "trust": o.trust, "met": o.met, "beliefs": dict(o.beliefs)}
                for o in self._others.values()
            ]
        }

    def restore(self, value: Any) -> None:
        """Take over what `snapshot` gave."""
        found = parts(value, "theory_of_mind", others=list)
        others = rows(
            found.get("others", ()), "theory_of_mind", name=str, trust=NUMBER, met=int, beliefs=dict
        )
        for row in others:
            row["beliefs"] = numbers(row["beliefs"], "theory_of_mind")
        self._others = {row["name"]: Other(**row) for row in others}
