"""Did you mean ...: names that are at most two slips of the finger away from what was typed."""

from __future__ import annotations

from collections.abc import Iterable

MAX_DISTANCE = 2
MAX_CANDIDATES = 10


def close_names(typed: str, names: Iterable[str]) -> list[str]:
    """The names nearest to `typed`, none further than two slips; for short words fewer slips are forgiven."""
    # Two slips turn any word of two letters into any other: there, a suggestion says nothing.
    allowed = min(MAX_DISTANCE, max(1, len(typed) - 1))
    similar = [name for name in names if abs(len(name) - len(typed)) <= allowed]
    near = sorted((distance(typed.casefold(), name.casefold()), name) for name in similar)
    return [name for steps, name in near if steps <= allowed and steps == near[0][0]][:MAX_CANDIDATES]


def distance(a: str, b: str) -> int:
    """Insertions, deletions, replacements and swaps of neighbours between two words."""
    before: list[int] = []
    above = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        row = [i]
        for j, right in enumerate(b, 1):
            cost = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (left != right))
            if i > 1 and j > 1 and left == b[j - 2] and a[i - 2] == right:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before, above = above, row
    return above[-1]


def did_you_mean(names: list[str]) -> str:
    """A question for a hint, or nothing."""
    if not names:
        return ""
    return f"did you mean {names[0]}?" if len(names) == 1 else f"did you mean one of: {', '.join(names)}?"
