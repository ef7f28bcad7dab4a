"""What if: a step with other parameters, each on a fork of its own, and a table of how that went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from holdfast.agents.executor.signature import dependents_of
from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.reports.report import Report

if TYPE_CHECKING:
    from holdfast.agents.executor.state import ExecutionResult


@dataclass(frozen=True)
class Variant(Report):
    """One way it could go.

    Attributes:
        parameters: What was changed.
        branch: The branch that has it.
        status: How it ended.
        outcome: What the last step gave, or what went wrong.
        duration_ms: How long the steps took that ran again.
        tokens: What they used.
        cost_usd: What they cost.
        reused: How many steps kept their results.
        ran: The steps that ran again.
    """

    states: ClassVar[tuple[str, ...]] = ("parameters", "outcome")

    parameters: dict[str, Any]
    branch: str
    status: str
    outcome: Any
    duration_ms: float
    tokens: int | None
    cost_usd: float | None
    reused: int
    ran: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class WhatIf(Report):
    """The variants of a step, in the order in which they were asked for."""

    step: str
    variants: list[Variant]


def whatif(executor: Any, step: str, parameters: Sequence[Mapping[str, Any]]) -> WhatIf:
    """Run each variant; see `Executor.whatif`."""
    if not parameters:
        raise InvalidInputError(
            "there is nothing to try",
            code=ErrorCode.BAD_ARGUMENT,
            hint='pass parameters for each variant: [{"model": "a"}, {"model": "b"}]',
        )
    variants = []
    for each in parameters:
        forked = executor.fork(step, parameters=each)
        variants.append(_variant(dict(each), forked.session.branch, forked.resume()))
    return WhatIf(step, variants)


def _variant(parameters: dict[str, Any], branch: str, result: ExecutionResult) -> Variant:
    state = result.state
    ran = state.results[result.recovered :]
    followed = dependents_of(state.plan)
    ends = [each for each in ran if each.step_id not in followed]
    return Variant(
        parameters,
        branch,
        result.status,
        ends[-1].output if result.success and ends else result.error,
        sum(each.duration_ms for each in ran),
        sum(each.token_usage or 0 for each in ran) or None,
        sum(each.cost_usd or 0.0 for each in ran) or None,
        result.recovered,
        [each.step_id for each in ran],
    )
