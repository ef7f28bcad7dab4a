"""What of an earlier execution still counts: which steps keep their results, and why others run again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from holdfast.agents.executor.plan import Plan
from holdfast.agents.executor.signature import PlanDiff, in_order
from holdfast.agents.executor.step import PlanStep
from holdfast.errors import ConflictError, ErrorCode


class Reuse(NamedTuple):
    """The steps of a plan with what is known of them, the results that count, and why others do not."""

    steps: list[dict[str, Any]]
    results: list[Any]
    reasons: dict[str, str]
    kept: int


def reuse(
    plan: Plan,
    state: Mapping[str, Any],
    signatures: Mapping[str, str],
    *,
    again: Mapping[str, str] | None = None,
    keep_results: bool = False,
    versions: Mapping[str, int] | None = None,
) -> Reuse:
    """Find what of a state can be used for a plan.

    A completed step keeps its result if its signature is the same, or nobody noted one; every step that depends on one
    that does not runs again, too.

    Args:
        plan: What is to be run.
        state: The state of an execution, of this plan or of an older one.
        signatures: Of the steps as they are now.
        again: Steps that are to run again in any case, with the reason.
        keep_results: Keep the results of steps that have changed.
        versions: The versions of the actions.
    """
    before = {each["id"]: each for each in state["plan"]}
    stored = {each["step_id"]: each for each in state["results"]}
    reasons = dict(again or {})
    done: set[str] = set()
    for step in in_order(plan.steps):
        known = before.get(step.id)
        if known is None or known["status"] != "completed" or step.id not in stored:
            continue
        if step.id in reasons:
            continue
        changed = known.get("signature") not in (None, signatures[step.id])
        redone = next((other for other in step.dependencies if other not in done), None)
        if keep_results or not (changed or redone):
            done.add(step.id)
        elif redone is not None:
            reasons[step.id] = f"{redone} runs again" if redone in reasons else f"{redone} is not done"
        else:
            reasons[step.id] = _why(known, step.to_dict(), (versions or {}).get(step.id, 1))
    for each in state["plan"]:
        # A fork noted why, and has not run since.
        if each.get("reason") and each["status"] != "completed":
            reasons.setdefault(each["id"], each["reason"])
    steps = [
        _entry(
            step, step.id in done, signatures[step.id], reasons.get(step.id), (versions or {}).get(step.id, 1)
        )
        for step in plan.steps
    ]
    results = [each for each in state["results"] if each["step_id"] in done]
    return Reuse(steps, results, reasons, len(done))


def _entry(step: PlanStep, is_done: bool, signature: str, reason: str | None, version: int) -> dict[str, Any]:  # noqa: FBT001
    entry = step.to_dict() | {"status": "completed" if is_done else "pending"}
    if version != 1:
        entry["version"] = version
    if is_done:
        entry["signature"] = signature
    elif reason is not None:
        entry["reason"] = reason
    return entry


def _why(known: Mapping[str, Any], now: Mapping[str, Any], version: int) -> str:
    names = ("action", "parameters", "dependencies")
    changed = [name for name in names if known.get(name) != now[name]]
    if known.get("version", 1) != version:
        changed.append("version")
    return f"its {' and '.join(changed)} changed" if changed else "what it is made from changed"


def plan_changed(diff: PlanDiff, session: str, execution: str) -> ConflictError:
    """The error where an unfinished execution began with another plan."""
    return ConflictError(
        f"session {session!r} has an unfinished execution of another plan: " + "; ".join(diff.lines()[:10]),
        code=ErrorCode.PLAN_CHANGED,
        hint="rerun_changed runs what changed and what follows from it, keep_results keeps all results, "
        "resume=False starts anew",
        session=session,
        execution=execution,
        diff=diff.to_dict(),
    )
