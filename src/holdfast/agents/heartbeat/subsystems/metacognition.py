"""Metacognition: how sure the agent is, and how far that can be trusted.

It keeps predictions with a confidence until they come true or not. From how often each confidence was right follows a
calibration: an agent that is right in 6 of 10 cases where it was 90 % sure learns to say 60 %.
"""

from __future__ import annotations

from typing import Any

from holdfast.agents.heartbeat.stored import NUMBER, at_least_one, misfit, parts, rows, unknown, within

_BINS = 10
"""Confidences are judged together with those next to them: 0 to 10 %, 10 to 20 % ..."""

_WEIGHT = 4.0
"""So many cases weigh as much as what the agent says of itself: a few coincidences teach nothing."""


class Metacognition:
    """Predictions, their outcomes, and what follows for the next one.

    Args:
        limit: How many open predictions are kept; the oldest go first.
    """

    def __init__(self, *, limit: int = 200) -> None:
        self.limit = at_least_one(limit, "limit")
        self._open: dict[str, tuple[str, float]] = {}
        self._bins = [[0, 0] for _ in range(_BINS)]
        self._made = 0
        self._error = 0.0

    def predict(self, claim: str, confidence: float) -> str:
        """Note that something is expected, and how surely; return the id to settle it by."""
        self._made += 1
        name = f"p{self._made}"
        self._open[name] = (claim, within(confidence, "confidence"))
        if len(self._open) > self.limit:
            del self._open[next(iter(self._open))]
        return name

    def resolve(self, prediction: str, *, came_true: bool) -> None:
        """Say how a prediction turned out."""
        if prediction not in self._open:
            raise unknown("prediction", prediction)
        confidence = self._open.pop(prediction)[1]
        counted = self._bins[_bin(confidence)]
        counted[0] += 1
        counted[1] += int(came_true)
        self._error += (confidence - float(came_true)) ** 2

    def calibrated(self, confidence: float) -> float:
        """How often this confidence was right so far, leaning on the confidence itself where little is known."""
        cases, right = self._bins[_bin(within(confidence, "confidence"))]
        return (right + confidence * _WEIGHT) / (cases + _WEIGHT)

    @property
    def open(self) -> dict[str, str]:
        """The claims that wait for their outcome, by id."""
        return {name: claim for name, (claim, _) in self._open.items()}

    @property
    def resolved(self) -> int:
        """How many predictions have an outcome."""
        return sum(cases for cases, _ in self._bins)

    @property
    def brier(self) -> float | None:
        """The mean squared error of the confidences: 0 is perfect, 0.25 a coin; None before the first outcome."""
        return self._error / self.resolved if self.resolved else None

    def snapshot(self) -> dict[str, Any]:
        """Open predictions, and the counts that the calibration comes from."""
        waiting = [
            {"id": name, "claim": claim, "confidence": sure} for name, (claim, sure) in self._open.items()
        ]
        return {
            "open": waiting,
            "bins": [list(counted) for counted in self._bins],
            "made": self._made,
            "error": self._error,
        }

    def restore(self, value: Any) -> None:
        """Take over what `snapshot` gave."""
        found = parts(value, "metacognition", open=list, bins=list, made=int, error=NUMBER)
        waiting = rows(found.get("open", ()), "metacognition", id=str, claim=str, confidence=NUMBER)
        bins = found.get("bins", self._bins)
        if len(bins) != _BINS or any(not _is_count(counted) for counted in bins):
            raise misfit("metacognition", f"'bins' are not {_BINS} pairs of counts")
        self._open = {row["id"]: (row["claim"], row["confidence"]) for row in waiting}
        self._bins = [list(counted) for counted in bins]
        self._made = found.get("made", len(waiting))
        self._error = found.get("error", 0.0)


def _bin(confidence: float) -> int:
    return min(_BINS - 1, int(confidence * _BINS))


def _is_count(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(type(each) is int for each in value)
