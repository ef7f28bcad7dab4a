"""Ethics: principles, concerns about what is planned, and vetoes that end it.

An action is judged by its kind (`mail.send`, `files.delete`). A veto forbids a kind and everything below it. A concern
weighs against one; when the weight of all concerns about it reaches the tolerance, it is not allowed either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.agents.heartbeat.stored import NUMBER, as_dict, parts, rows, unknown, within


@dataclass(slots=True)
class Principle:
    """Something that matters, and how much."""

    name: str
    text: str
    weight: float = 1.0


@dataclass(slots=True)
class Concern:
    """A reason against a kind of action."""

    principle: str
    action: str
    why: str
    severity: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether an action may be done, and what speaks against it."""

    action: str
    allowed: bool
    weight: float
    reasons: tuple[str, ...]


class Ethics:
    """Principles, concerns and vetoes.

    Args:
        tolerance: The weight of concerns from which on an action is not allowed.
    """

    def __init__(self, *, tolerance: float = 1.0) -> None:
        self.tolerance = within(tolerance, "tolerance", 0, 100)
        self._principles: dict[str, Principle] = {}
        self._concerns: list[Concern] = []
        self._vetoes: dict[str, str] = {}

    def principle(self, name: str, text: str, *, weight: float = 1.0) -> Principle:
        """State what matters; said again, it replaces what was said before."""
        self._principles[name] = Principle(name, text, within(weight, "weight", 0, 10))
        return self._principles[name]

    def concern(self, principle: str, action: str, why: str, *, severity: float = 0.5) -> Concern:
        """Speak against a kind of action, in the name of a principle."""
        if principle not in self._principles:
            raise unknown("principle", principle)
        raised = Concern(principle, action, why, within(severity, "severity"))
        self._concerns.append(raised)
        return raised

    def resolve(self, action: str) -> int:
        """Lay the concerns about exactly this kind of action to rest; return how many there were."""
        kept = [concern for concern in self._concerns if concern.action != action]
        resolved, self._concerns = len(self._concerns) - len(kept), kept
        return resolved

    def veto(self, action: str, why: str) -> None:
        """Forbid a kind of action, and everything below it."""
        self._vetoes[action] = why

    def lift(self, action: str) -> None:
        """Take a veto back."""
        if self._vetoes.pop(action, None) is None:
            raise unknown("veto on", action)

    def judge(self, action: str) -> Judgement:
        """Whether this kind of action may be done."""
        forbidden = [why for kind, why in self._vetoes.items() if _covers(kind, action)]
        against = [concern for concern in self._concerns if _covers(concern.action, action)]
        weight = sum(each.severity * self._principles[each.principle].weight for each in against)
        reasons = (*forbidden, *(each.why for each in against))
        return Judgement(action, not forbidden and weight < self.tolerance, weight, reasons)

    def snapshot(self) -> dict[str, Any]:
        """Principles, concerns, vetoes and the tolerance."""
        return {
            "principles": [as_dict(each) for each in self._principles.values()],
            "concerns": [as_dict(each) for each in self._concerns],
            "vetoes": dict(self._vetoes),
            "tolerance": self.tolerance,
        }

    def restore(self, value: Any) -> None:
        """Take over what `snapshot` gave."""
        found = parts(value, "ethics", principles=list, concerns=list, vetoes=dict, tolerance=NUMBER)
        principles = rows(found.get("principles", ()), "ethics", name=str, text=str, weight=NUMBER)
        kinds: dict[str, Any] = {"principle": str, "action": str, "why": str, "severity": NUMBER}
        concerns = rows(found.get("concerns", ()), "ethics", **kinds)
        names = {row["name"] for row in principles}
        # A concern whose principle is gone would weigh nothing: it is dropped where everybody can see it.
        self._principles = {row["name"]: Principle(**row) for row in principles}
        self._concerns = [Concern(**row) for row in concerns if row["principle"] in names]
        self._vetoes = {str(kind): str(why) for kind, why in found.get("vetoes", {}).items()}
        self.tolerance = found.get("tolerance", self.tolerance)


def _covers(kind: str, action: str) -> bool:
    return action == kind or action.startswith(f"{kind}.")
