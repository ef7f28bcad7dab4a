"""Signatures: whether a result still is the result of this step; and how two plans differ.

The signature of a step covers its action with its version, its parameters, and the signatures of its dependencies, so
that a change reaches everything that follows from it, and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.agents.executor.action import Action
from holdfast.agents.executor.step import PlanStep

Pack = Callable[[Any], bytes]


def signatures(
    steps: Sequence[PlanStep],
    actions: Mapping[str, Action],
    pack: Pack,
    *,
    edits: Mapping[str, Mapping[str, Any]] | None = None,
    outputs: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The signature of each step.

    Args:
        steps: A plan without cycles.
        actions: The action of each step, for its version.
        pack: A value as bytes: the same value, the same bytes.
        edits: Parameters that were changed for this execution, by step.
        outputs: Of steps whose output a person wrote, what stands for it.
    """
    found: dict[str, str] = {}
    for each in in_order(steps):
        parameters = effective(each, edits)
        version = actions[each.id].options.version if each.id in actions else 1
        content = pack([each.action, version, parameters, [found[other] for other in each.dependencies]])
        signature = hashlib.blake2b(content, digest_size=16).hexdigest()
        found[each.id] = (outputs or {}).get(each.id, signature)
    return found


def written_outputs(state: Mapping[str, Any]) -> dict[str, str]:
    """What stands for the outputs that a person wrote, by step."""
    return {
        each["id"]: each["signature"]
        for each in state["plan"]
        if each["status"] == "completed" and str(each.get("signature")).startswith("output:")
    }


def effective(step: PlanStep, edits: Mapping[str, Mapping[str, Any]] | None) -> dict[str, Any]:
    """The parameters of a step, with those that a person changed."""
    changed = (edits or {}).get(step.id)
    return step.parameters if not changed else step.parameters | dict(changed)


def in_order(steps: Sequence[PlanStep]) -> list[PlanStep]:
    """The steps, each after those that it depends on; otherwise as they come."""
    by_id = {each.id: each for each in steps}
    left = {each.id: len(set(each.dependencies)) for each in steps}
    dependents = dependents_of(steps)
    ready = [each.id for each in reversed(steps) if not left[each.id]]
    ordered = []
    while ready:
        done = ready.pop()
        ordered.append(by_id[done])
        for other in reversed(dependents.get(done, ())):
            left[other] -= 1
            if not left[other]:
                ready.append(other)
    return ordered


def dependents_of(steps: Sequence[PlanStep]) -> dict[str, list[str]]:
    """For each step, those that wait for it."""
    found: dict[str, list[str]] = {}
    for each in steps:
        for other in dict.fromkeys(each.dependencies):
            found.setdefault(other, []).append(each.id)
    return found


@dataclass(slots=True)
class PlanDiff:
    """How a plan differs from the one that an execution began with.

    Attributes:
        added: Steps that were not there.
        removed: Steps that are not there any more.
        changed: Steps that are otherwise, each with what is: action, parameters, dependencies, version.
        affected: Steps that are the same and depend on one that is not.
    """

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    changed: dict[str, list[str]] = field(default_factory=dict)
    affected: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def lines(self) -> list[str]:
        """A line for each step, for people."""
        return [
            *(f"+ {step}" for step in self.added),
            *(f"- {step}" for step in self.removed),
            *(f"~ {step}: {', '.join(what)}" for step, what in self.changed.items()),
            *(f"  {step}: follows from these" for step in self.affected),
        ]

    def to_dict(self) -> dict[str, Any]:
        """The difference as plain data."""
        return {
            "added": self.added,
            "removed": self.removed,
            "changed": self.changed,
            "affected": self.affected,
        }


def compare(
    before: Sequence[PlanStep],
    after: Sequence[PlanStep],
    *,
    versions: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {}),
) -> PlanDiff:
    """How the second plan differs from the first."""
    old, new = {each.id: each for each in before}, {each.id: each for each in after}
    diff = PlanDiff(
        added=[step for step in new if step not in old], removed=[step for step in old if step not in new]
    )
    for step in new.keys() & old.keys():
        a, b = old[step], new[step]
        what = [
            name
            for name, differs in (
                ("action", a.action != b.action),
                ("version", versions[0].get(step, 1) != versions[1].get(step, 1)),
                ("parameters", a.parameters != b.parameters),
                ("dependencies", list(a.dependencies) != list(b.dependencies)),
            )
            if differs
        ]
        if what:
            diff.changed[step] = what
    diff.changed = {step: diff.changed[step] for step in new if step in diff.changed}
    reached = {*diff.added, *diff.changed}
    for each in in_order(after):
        if each.id not in reached and reached & set(each.dependencies):
            reached.add(each.id)
            diff.affected.append(each.id)
    return diff
