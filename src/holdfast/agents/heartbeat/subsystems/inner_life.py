"""Inner life: what the agent thinks to itself when nobody asks: reflections, and questions it wonders about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.agents.heartbeat.stored import NUMBER, as_dict, at_least_one, parts, rows, unknown, within


@dataclass(slots=True)
class Reflection:
    """A thought about what happened."""

    text: str
    about: str = ""
    beat: int = 0


@dataclass(slots=True)
class Wonder:
    """A question that is open, and how much it draws."""

    id: str
    question: str
    pull: float


class InnerLife:
    """Reflections, newest last, and open questions.

    Args:
        limit: How many reflections are kept; the oldest go first.
    """

    def __init__(self, *, limit: int = 100) -> None:
        self.limit = at_least_one(limit, "limit")
        self.answered = 0
        self._reflections: list[Reflection] = []
        self._wonders: dict[str, Wonder] = {}
        self._asked = 0

    def reflect(self, text: str, *, about: str = "", beat: int = 0) -> Reflection:
        """Keep a thought."""
        thought = Reflection(text, about, beat)
        self._reflections.append(thought)
        del self._reflections[: -self.limit]
        return thought

    def wonder(self, question: str, *, pull: float = 0.5) -> Wonder:
        """Keep a question; asked again, it draws more instead of being kept twice."""
        for open_one in self._wonders.values():
            if open_one.question == question:
                open_one.pull = min(1.0, open_one.pull + within(pull, "pull") / 2)
                return open_one
        self._asked += 1
        asked = Wonder(f"w{self._asked}", question, within(pull, "pull"))
        self._wonders[asked.id] = asked
        return asked

    def answer(self, id: str, text: str, *, beat: int = 0) -> Reflection:  # noqa: A002 - the glossary's word
        """Close a question; the answer becomes a reflection about it."""
        closed = self._wonders.pop(id, None)
        if closed is None:
            raise unknown("question", id)
        self.answered += 1
        return self.reflect(text, about=closed.question, beat=beat)

    @property
    def reflections(self) -> list[Reflection]:
        """What it thought, newest first."""
        return self._reflections[::-1]

    @property
    def wonders(self) -> list[Wonder]:
        """What it wonders about, the strongest first."""
        return sorted(self._wonders.values(), key=lambda each: -each.pull)

    def snapshot(self) -> dict[str, Any]:
        """Reflections and questions."""
        return {
            "reflections": [as_dict(each) for each in self._reflections],
            "wonders": [as_dict(each) for each in self._wonders.values()],
            "asked": self._asked,
            "answered": self.answered,
        }

    def restore(self, value: Any) -> None:
        """Take over what `snapshot` gave."""
        found = parts(value, "inner_life", reflections=list, wonders=list, asked=int, answered=int)
        thoughts = rows(found.get("reflections", ()), "inner_life", text=str, about=str, beat=int)
        wonders = rows(found.get("wonders", ()), "inner_life", id=str, question=str, pull=NUMBER)
        self._reflections = [Reflection(**row) for row in thoughts]
        self._wonders = {row["id"]: Wonder(**row) for row in wonders}
        self._asked = found.get("asked", len(wonders))
        self.answered = found.get("answered", 0)
