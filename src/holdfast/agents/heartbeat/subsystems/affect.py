"""Affect: how the agent feels, as numbers that events move and time brings back to a baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.agents.heartbeat.stored import NUMBER, numbers, parts, unknown, within

DIMENSIONS = {"valence": 0.0, "arousal": 0.2, "dominance": 0.0, "curiosity": 0.3, "tension": 0.0}
"""The usual dimensions with their baselines; each lies between -1 and 1."""


class Affect:
    """Dimensions between -1 and 1 that decay toward their baseline.

    Args:
        baseline: The dimensions, and where each comes to rest.
        decay: How much of the distance to the baseline goes with each beat.
    """

    def __init__(self, baseline: Mapping[str, float] = DIMENSIONS, *, decay: float = 0.05) -> None:
        self.baseline = {
            name: within(value, f"baseline of {name}", -1, 1) for name, value in baseline.items()
        }
        self.dimensions = dict(self.baseline)
        self.decay = within(decay, "decay")

    def feel(self, dimension: str, amount: float) -> float:
        """Move a dimension by an amount, as far as it goes; return where it is now."""
        if dimension not in self.dimensions:
            raise unknown("dimension", dimension)
        moved = self.dimensions[dimension] + within(amount, "amount", -2, 2)
        self.dimensions[dimension] = max(-1.0, min(1.0, moved))
        return self.dimensions[dimension]

    def settle(self) -> None:
        """Let one beat pass: everything comes nearer to its baseline."""
        for name, value in self.dimensions.items():
            self.dimensions[name] = value + (self.baseline[name] - value) * self.decay

    def adapt(self, rate: float = 0.01) -> None:
        """Move the baselines a little toward the present: what lasts becomes normal."""
        rate = within(rate, "rate")
        for name, value in self.dimensions.items():
            self.baseline[name] += (value - self.baseline[name]) * rate

    @property
    def intensity(self) -> float:
        """How far from the baseline it is, in the dimension that is furthest."""
        return max((abs(self.dimensions[name] - rest) for name, rest in self.baseline.items()), default=0.0)

    @property
    def foremost(self) -> str | None:
        """The dimension that is furthest from its baseline; None where all are at rest."""
        if self.intensity == 0.0:
            return None
        return max(self.baseline, key=lambda name: abs(self.dimensions[name] - self.baseline[name]))

    def snapshot(self) -> dict[str, Any]:
        """Its dimensions, baselines and decay."""
        return {"dimensions": dict(self.dimensions), "baseline": dict(self.baseline), "decay": self.decay}

    def restore(self, value: Any) -> None:
        """Take over what `snapshot` gave."""
        found = parts(value, "affect", dimensions=dict, baseline=dict, decay=NUMBER)
        dimensions = numbers(found.get("dimensions", {}), "affect")
        # A dimension that only one of the two has rests where it is.
        baseline = {**dimensions, **numbers(found.get("baseline", {}), "affect")}
        self.dimensions = {**baseline, **dimensions}
        self.baseline = baseline
        self.decay = found.get("decay", self.decay)
