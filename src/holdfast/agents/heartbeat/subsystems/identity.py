"""Identity: who the agent is over all its lives, and counters that only ever go up."""

from __future__ import annotations

from typing import Any

from holdfast.agents.heartbeat.stored import misfit, numbers, parts
from holdfast.errors import ErrorCode, InvalidInputError

COUNTERS = ("total_heartbeats", "total_awakenings", "total_thoughts", "total_actions", "total_messages")
"""Those that are there from the start; `count` makes any other."""


class Identity:
    """A name, traits, and counters.

    Args:
        name: What the agent is called. The stored name wins when it wakes up.
    """

    def __init__(self, name: str = "agent") -> None:
        self.name = name
        self.traits: dict[str, str] = {}
        self._counters = dict.fromkeys(COUNTERS, 0)

    def count(self, name: str, amount: int = 1) -> int:
        """Count something; return the new total."""
        if type(amount) is not int or amount < 0:
            raise InvalidInputError(
                f"{name} cannot grow by {amount!r}",
                code=ErrorCode.BAD_ARGUMENT,
                hint="counters of an identity only go up: give a whole number from 0",
            )
        self._counters[name] = self._counters.get(name, 0) + amount
        return self._counters[name]

    def total(self, name: str) -> int:
        """How often something was counted."""
        return self._counters.get(name, 0)

    @property
    def counters(self) -> dict[str, int]:
        """A copy of all counters."""
        return dict(self._counters)

    def snapshot(self) -> dict[str, Any]:
        """Name, traits and counters."""
        return {"name": self.name, "traits": dict(self.traits), "counters": dict(self._counters)}

    def restore(self, value: Any) -> None:
        """Take over what `snapshot` gave."""
        found = parts(value, "identity", name=str, traits=dict, counters=dict)
        counters = numbers(found.get("counters", {}), "identity", (int,))
        if any(count < 0 for count in counters.values()):
            raise misfit("identity", "a counter is below 0")
        self.name = found.get("name", self.name)
        self.traits = {str(key): str(text) for key, text in found.get("traits", {}).items()}
        self._counters = {**dict.fromkeys(COUNTERS, 0), **counters}
