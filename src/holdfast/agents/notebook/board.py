"""The hypothesis board: what might be the cause, the evidence for and against it, and how sure that makes one.

Confidence follows evidence by one rule. The odds of a hypothesis begin at those of its first confidence (0.5: even).
Evidence of strength s multiplies them by 1 + 4 s if it speaks for the hypothesis, and divides them by as much if it
speaks against: one piece of full strength moves an even chance to 5 in 6. The result stays between 0.01 and 0.99. A
person may set the confidence by hand; then it stays until `follow_evidence`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final

from holdfast.agents.notebook.part import Item, Part, check_share, plain
from holdfast.errors import ErrorCode, InvalidInputError

__all__ = ["STATUSES", "HypothesisBoard", "confidence_of"]

STATUSES: Final = ("open", "testing", "confirmed", "rejected", "superseded")
VERDICTS: Final = ("confirmed", "rejected")


def confidence_of(prior: float, supporting: Iterable[float], opposing: Iterable[float]) -> float:
    """Return the confidence that evidence of these strengths leads to, from a first one; the rule of this module."""
    prior = min(max(prior, 0.01), 0.99)
    odds = prior / (1 - prior)
    for strength in supporting:
        odds *= 1 + 4 * strength
    for strength in opposing:
        odds /= 1 + 4 * strength
    return round(min(max(odds / (1 + odds), 0.01), 0.99), 4)


class HypothesisBoard(Part):
    """Hypotheses and the evidence for them."""

    keys: ClassVar[tuple[str, ...]] = ("hypotheses", "evidence")
    noun = "hypothesis"

    def add(self, statement: str, *, confidence: float = 0.5) -> str:
        """Put up a hypothesis and return its id.

        Args:
            statement: What might be so.
            confidence: How likely it is before any evidence.
        """
        item: Item = {
            "statement": self._text(statement, "statement"),
            "status": "open",
            "confidence": check_share(confidence, "confidence"),
            "prior": float(confidence),
            "confidence_by": "evidence",
            "evidence_for": [],
            "evidence_against": [],
            "reason": "",
            "superseded_by": None,
            "tested": False,
            "created_at": self.clock(),
            "updated_at": self.clock(),
        }
        name = self._new_id("hypotheses", "h")
        self._data["hypotheses"][name] = {"id": name, **item}
        self._fire("hypothesis.added", self.get(name))
        return name

    def get(self, hypothesis: str) -> Item:
        """Return a hypothesis as a plain dict."""
        item: Item = plain(self._get("hypotheses", hypothesis))
        return item

    def all(self, *, status: str | None = None) -> list[Item]:
        """Return the hypotheses, oldest first; of one status if it is given."""
        found = self._data["hypotheses"].values()
        return [plain(each) for each in found if status is None or each["status"] == status]

    def evidence(self, hypothesis: str | None = None) -> list[Item]:
        """Return the evidence, oldest first; of one hypothesis if it is given."""
        if hypothesis is not None:
            self._get("hypotheses", hypothesis)
        found = self._data["evidence"].values()
        return [plain(each) for each in found if hypothesis is None or each["hypothesis"] == hypothesis]

    def get_evidence(self, evidence: str) -> Item:
        """Return a piece of evidence as a plain dict."""
        item: Item = plain(self._get("evidence", evidence))
        return item

    def add_evidence(
        self, hypothesis: str, content: str, *, supports: bool = True, strength: float = 0.5, source: str = ""
    ) -> str:
        """Add evidence to a hypothesis, and return its id; the confidence follows.

        Args:
            hypothesis: Of which one.
            content: What was seen.
            supports: Whether it speaks for the hypothesis, or against it.
            strength: How much, from 0 to 1.
            source: Where it comes from: a command, a file, a check.
        """
        about = self._get("hypotheses", hypothesis)
        item: Item = {
            "hypothesis": hypothesis,
            "content": self._text(content, "evidence"),
            "supports": bool(supports),
            "strength": check_share(strength, "strength"),
            "source": self._text(source, "source") if source else "",
            "created_at": self.clock(),
        }
        name = self._new_id("evidence", "ev")
        self._data["evidence"][name] = {"id": name, **item}
        about["evidence_for" if supports else "evidence_against"].append(name)
        if about["confidence_by"] == "evidence":
            about["confidence"] = self._by_rule(about)
        about["updated_at"] = self.clock()
        self._fire("evidence.added", plain(self._data["evidence"][name]))
        return name

    def test(self, hypothesis: str, *, reason: str = "") -> Item:
        """Say that a hypothesis is being tested."""
        return self.set_status(hypothesis, "testing", reason=reason)

    def confirm(self, hypothesis: str, *, evidence: str = "", reason: str = "") -> Item:
        """Confirm a hypothesis; `evidence` is added to it first, with full strength."""
        if evidence:
            self.add_evidence(hypothesis, evidence, supports=True, strength=1.0)
        return self.set_status(hypothesis, "confirmed", reason=reason or evidence)

    def reject(self, hypothesis: str, *, evidence: str = "", reason: str = "") -> Item:
        """Reject a hypothesis; `evidence` is added against it first, with full strength."""
        if evidence:
            self.add_evidence(hypothesis, evidence, supports=False, strength=1.0)
        return self.set_status(hypothesis, "rejected", reason=reason or evidence)

    def supersede(self, hypothesis: str, by: str, *, reason: str = "") -> Item:
        """Say that another hypothesis takes the place of this one."""
        self._get("hypotheses", by)
        if by == hypothesis:
            raise InvalidInputError(
                f"{hypothesis} cannot supersede itself",
                code=ErrorCode.BAD_ARGUMENT,
                hint="name the hypothesis that takes its place",
            )
        self._get("hypotheses", hypothesis)["superseded_by"] = by
        return self.set_status(hypothesis, "superseded", reason=reason)

    def set_status(self, hypothesis: str, status: str, *, reason: str = "") -> Item:
        """Give a hypothesis another status; the same one again changes nothing."""
        item = self._get("hypotheses", hypothesis)
        self._choice(status, STATUSES, "status")
        if item["status"] == status:
            return self.get(hypothesis)
        first = status in VERDICTS and not item["tested"]
        item["status"] = status
        item["reason"] = self._text(reason, "reason") if reason else ""
        item["updated_at"] = self.clock()
        if first:
            item["tested"] = True
        done = self.get(hypothesis)
        self._fire(f"hypothesis.{status}", done | {"first_verdict": first})
        return done

    def set_confidence(self, hypothesis: str, confidence: float, *, reason: str = "") -> Item:
        """Set the confidence by hand. It stays until `follow_evidence`, whatever evidence comes."""
        item = self._get("hypotheses", hypothesis)
        item["confidence"] = check_share(confidence, "confidence")
        item["confidence_by"] = "person"
        if reason:
            item["reason"] = self._text(reason, "reason")
        item["updated_at"] = self.clock()
        self._fire("hypothesis.confidence", self.get(hypothesis))
        return self.get(hypothesis)

    def follow_evidence(self, hypothesis: str) -> Item:
        """Let the confidence follow the evidence again."""
        item = self._get("hypotheses", hypothesis)
        item["confidence_by"] = "evidence"
        item["confidence"] = self._by_rule(item)
        item["updated_at"] = self.clock()
        self._fire("hypothesis.confidence", self.get(hypothesis))
        return self.get(hypothesis)

    def on_hypothesis_confirmed(self, callback: Callable[[Item], Any]) -> None:
        """Call a function with each hypothesis that is confirmed."""
        self.on("hypothesis.confirmed", callback)

    def on_hypothesis_rejected(self, callback: Callable[[Item], Any]) -> None:
        """Call a function with each hypothesis that is rejected."""
        self.on("hypothesis.rejected", callback)

    def _by_rule(self, item: Any) -> float:
        def strengths(key: str) -> list[float]:
            return [self._data["evidence"][each]["strength"] for each in item[key]]

        return confidence_of(item["prior"], strengths("evidence_for"), strengths("evidence_against"))
