"""The gap analyzer: what is not known yet, how much that matters, and what waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final

from holdfast.agents.notebook.part import Item, Part, plain

__all__ = ["CRITICALITIES", "GapAnalyzer"]

CRITICALITIES: Final = ("critical", "high", "medium", "low")


class GapAnalyzer(Part):
    """Questions that are open, and what answered those that are not."""

    keys: ClassVar[tuple[str, ...]] = ("gaps",)
    noun = "gap"

    def add(self, question: str, *, criticality: str = "medium", blocks: Iterable[str] = ()) -> str:
        """Add a question and return its id.

        Args:
            question: What is not known.
            criticality: How much that matters: critical, high, medium or low.
            blocks: Ids of what waits for the answer.
        """
        item: Item = {
            "question": self._text(question, "question"),
            "criticality": self._choice(criticality, CRITICALITIES, "criticality"),
            "blocks": [str(each) for each in blocks],
            "status": "open",
            "answer": "",
            "filled_by": [],
            "created_at": self.clock(),
            "updated_at": self.clock(),
        }
        name = self._new_id("gaps", "g")
        self._data["gaps"][name] = {"id": name, **item}
        self._fire("gap.added", self.get(name))
        return name

    def get(self, gap: str) -> Item:
        """Return a gap as a plain dict."""
        item: Item = plain(self._get("gaps", gap))
        return item

    def all(self) -> list[Item]:
        """Return all gaps, oldest first."""
        return [plain(each) for each in self._data["gaps"].values()]

    def open(self) -> list[Item]:
        """Return the gaps that are open: the most critical first, of these the newest first."""
        waiting = [each for each in reversed(self.all()) if each["status"] == "open"]
        return sorted(waiting, key=lambda each: CRITICALITIES.index(each["criticality"]))

    def fill(self, gap: str, answer: str, *, by: Iterable[str] = ()) -> Item:
        """Answer a question; `by` are the ids of what answers it."""
        item = self._get("gaps", gap)
        again = item["status"] == "filled"
        item["answer"] = self._text(answer, "answer")
        item["filled_by"] = [str(each) for each in by]
        item["status"] = "filled"
        item["updated_at"] = self.clock()
        self._fire("gap.changed" if again else "gap.filled", self.get(gap))
        return self.get(gap)

    def reopen(self, gap: str) -> Item:
        """Say that an answer was none."""
        item = self._get("gaps", gap)
        item["status"] = "open"
        item["updated_at"] = self.clock()
        self._fire("gap.changed", self.get(gap))
        return self.get(gap)

    def on_gap_filled(self, callback: Callable[[Item], Any]) -> None:
        """Call a function with each gap that is filled."""
        self.on("gap.filled", callback)
