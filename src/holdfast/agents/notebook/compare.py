"""Compare: what changed between two debugging states, in the terms of debugging."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from holdfast.agents.notebook.part import Item
from holdfast.agents.notebook.state import DebugState

__all__ = ["Comparison", "compare_states"]

# They follow from the other fields, or say only when.
_QUIET: Final = {"updated_at", "created_at", "evidence_for", "evidence_against", "tested", "prior"}


@dataclass
class Comparison:
    """What is different in the second of two checkpoints."""

    from_: str
    to: str
    time_delta: timedelta
    hypothesis_diff: list[Item] = field(default_factory=list)
    """Each a dict with `change`: added, updated (`id`, `field`, `old`, `new`), status_changed, confidence_changed."""
    belief_diff: list[Item] = field(default_factory=list)
    """Each a dict with `change`: added, updated, confidence_changed."""
    evidence_added: list[Item] = field(default_factory=list)
    verifications_added: list[Item] = field(default_factory=list)
    gaps_filled: list[str] = field(default_factory=list)
    notes_added: list[Item] = field(default_factory=list)
    summary: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The comparison as data, with `from` under its own name."""
        data = dict(vars(self))
        return {"from": data.pop("from_"), **data, "time_delta": self.time_delta.total_seconds()}


def compare_states(
    one: DebugState, other: DebugState, *, from_: str, to: str, time_delta: timedelta
) -> Comparison:
    """Compare two states; see `Comparison`."""
    before = {each["id"]: each["status"] for each in one.gaps}
    found = Comparison(
        from_,
        to,
        time_delta,
        hypothesis_diff=_changes(one.hypotheses, other.hypotheses, own=("status", "confidence")),
        belief_diff=_changes(one.beliefs, other.beliefs, own=("confidence",)),
        evidence_added=_added(one.evidence, other.evidence),
        verifications_added=_added(one.verification_results, other.verification_results),
        gaps_filled=[
            each["id"]
            for each in other.gaps
            if each["status"] == "filled" and before.get(each["id"]) != "filled"
        ],
        notes_added=_added(one.notes, other.notes),
    )
    found.summary = _summary(found, {each["id"]: each for each in (*other.hypotheses, *other.beliefs)})
    return found


def _added(one: Iterable[Item], other: Iterable[Item]) -> list[Item]:
    known = {each["id"] for each in one}
    return [each for each in other if each["id"] not in known]


def _changes(one: Iterable[Item], other: Iterable[Item], *, own: tuple[str, ...]) -> list[Item]:
    """Each difference once: a field with a name of its own is that change, every other one is `updated`."""
    before = {each["id"]: each for each in one}
    found: list[Item] = []
    for item in other:
        old = before.get(item["id"])
        if old is None:
            found.append({"change": "added", "id": item["id"], "item": item})
            continue
        for name in sorted(item.keys() | old.keys()):
            if name in _QUIET or item.get(name) == old.get(name):
                continue
            kind = f"{name}_changed" if name in own else "updated"
            change: Item = {"change": kind, "id": item["id"], "old": old.get(name), "new": item.get(name)}
            found.append(change if name in own else {**change, "field": name})
    return found


def _summary(found: Comparison, items: Mapping[str, Item]) -> str:
    lines: list[str] = []
    for what, diff in (("hypothesis", found.hypothesis_diff), ("belief", found.belief_diff)):
        for each in diff:
            said = items[each["id"]]["statement"]
            if each["change"] == "added":
                lines.append(f"new {what} {each['id']}: {said}")
            elif each["change"] == "status_changed":
                lines.append(f"{each['id']} went from {each['old']} to {each['new']}: {said}")
            elif each["change"] == "confidence_changed":
                lines.append(f"{each['id']} went from {each['old']:.2f} to {each['new']:.2f}: {said}")
            elif each["field"] != "reason":
                lines.append(f"{each['id']}: {each['field']} changed")
    counts = {
        "evidence": len(found.evidence_added),
        "checks run": len(found.verifications_added),
        "gaps filled": len(found.gaps_filled),
        "notes": len(found.notes_added),
    }
    if any(counts.values()):
        lines.append(", ".join(f"{count} {what}" for what, count in counts.items() if count))
    minutes = found.time_delta.total_seconds() / 60
    return "\n".join([f"{minutes:.0f} minutes apart", *(lines or ["nothing changed"])])
