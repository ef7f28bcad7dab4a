"""What questions to a long history cost: `python -m bench.search [--quick]`.

One session with 10,000 checkpoints and one with 100,000, of an agent that works on a plan: its notes grow, are cut, a
score moves, a belief changes now and then. The questions are those that people ask when something went wrong.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import holdfast
from bench.timing import Sample, summary, timed

TURNS = 3


def main() -> int:
    """Fill the stores, ask, and print a table."""
    counts = (1_000, 5_000) if "--quick" in sys.argv else (10_000, 100_000)
    with tempfile.TemporaryDirectory(prefix="holdfast-search-") as folder:
        taken = {count: _asked(Path(folder) / str(count), count) for count in counts}
    print(f"{'question':40}" + "".join(f"{count:>14,}" for count in counts) + "   (ms, median wall)")
    for question in taken[counts[0]]:
        print(f"{question:40}" + "".join(f"{taken[count][question]:14.1f}" for count in counts))
    return 0


def _asked(folder: Path, count: int) -> dict[str, float]:
    with holdfast.open(folder, durability="process") as store:
        session = store.session("agent")
        _fill(session, count)
        turned = count * 2 // 3
        questions: dict[str, Callable[[], Any]] = {
            "log of 1,000": lambda: session.log(limit=1_000),
            "log of all": session.log,
            "bisect, two thirds back": lambda: session.bisect("score < 0"),
            "blame of a value that changed lately": lambda: session.blame("n"),
            "blame of a value that changed long ago": lambda: session.blame("belief.cause"),
            "history of a value with few changes": lambda: session.history_of("belief.cause"),
            "grep, the newest 10": lambda: session.grep("note", limit=10),
            "grep of a word that came in once": lambda: session.grep(f"needle {turned}", limit=10),
        }
        figures = {}
        for name, ask in questions.items():
            samples: list[Sample] = []
            for _ in range(TURNS):
                samples.append(timed(lambda: list(_drawn(ask())))[1])  # noqa: B023 - called at once
            figures[name] = summary(samples)["wall"]["median"]
        return figures


def _drawn(found: Any) -> list[Any]:
    """All of an answer: some come piece by piece."""
    return list(found) if hasattr(found, "__iter__") else [found]


def _fill(session: holdfast.Session, count: int) -> None:
    document = session.document()
    document["notes"], document["belief"], document["score"] = [], {"cause": "unknown"}, 1.0
    turned = count * 2 // 3
    for number in range(1, count + 1):
        document["n"] = number
        document["notes"].append(f"note {number}: nothing new" if number != turned else f"needle {number}")
        if len(document["notes"]) > 60:
            del document["notes"][:40]
        if number == count // 4:
            document["belief"]["cause"] = "the cache"
        if number == turned:
            document["score"] = -1.0
        document.save(f"step {number}", step=number)


if __name__ == "__main__":
    raise SystemExit(main())
