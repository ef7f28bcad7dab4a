"""PlanState: what a checkpoint of an execution holds; and what running a plan gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from holdfast.agents.executor.plan import Plan
from holdfast.agents.executor.step import PlanStep
from holdfast.agents.journal import Effect
from holdfast.reports.report import Report

UNFINISHED = ("pending", "running", "paused", "waiting", "failed")
"""The statuses of an execution that can go on."""


@dataclass(slots=True)
class StepResult:
    """The output of a step that was completed."""

    step_id: str
    output: Any
    completed_at: datetime
    duration_ms: float
    token_usage: int | None = None
    cost_usd: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data."""
        return {
            "step_id": self.step_id,
            "output": self.output,
            "completed_at": self.completed_at,
            "duration_ms": self.duration_ms,
            "token_usage": self.token_usage,
            "cost_usd": self.cost_usd,
        }


@dataclass(slots=True)
class LastError:
    """What went wrong last."""

    step_index: int
    message: str
    timestamp: datetime

    def to_dict(self) -> dict[str, Any]:
        """The error as plain data."""
        return {"step_index": self.step_index, "message": self.message, "timestamp": self.timestamp}


@dataclass(slots=True)
class PlanState:
    """The state of an execution.

    Attributes:
        query: What was asked for.
        plan: The steps, with their status.
        current_step_index: The index of the first step that is not completed.
        results: What completed steps gave, in the order in which they were completed.
        context: Working memory.
        last_error: What went wrong last, until that step is completed.
        name: What the plan is called.
        execution: The id of the execution.
        edits: Parameters that a person changed, by step.
    """

    query: str = ""
    plan: list[PlanStep] = field(default_factory=list)
    current_step_index: int = 0
    results: list[StepResult] = field(default_factory=list)
    context: dict[str, Any] = field(default_factory=dict)
    last_error: LastError | None = None
    name: str = "plan"
    execution: str = ""
    edits: dict[str, dict[str, Any]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PlanState:
        """The state of a checkpoint, as `session.load()` gives it."""
        last = data.get("last_error")
        return cls(
            query=data.get("query", ""),
            plan=[_step(each) for each in data["plan"]],
            current_step_index=data.get("current_step_index", 0),
            results=[StepResult(**each) for each in data.get("results", ())],
            context=dict(data.get("context", {})),
            last_error=None if last is None else LastError(**last),
            name=data.get("name", "plan"),
            execution=data.get("execution", ""),
            edits=dict(data.get("edits", {})),
            reasons={each["id"]: each["reason"] for each in data["plan"] if each.get("reason")},
        )

    def to_dict(self) -> dict[str, Any]:
        """The state as plain data, as it is saved."""
        return {
            "name": self.name,
            "query": self.query,
            "execution": self.execution,
            "plan": [each.to_dict() for each in self.plan],
            "current_step_index": self.current_step_index,
            "results": [each.to_dict() for each in self.results],
            "context": self.context,
            "last_error": None if self.last_error is None else self.last_error.to_dict(),
            "edits": self.edits,
        }

    def output(self, step: str) -> Any:
        """What a completed step gave; a LookupError where there is nothing."""
        for each in self.results:
            if each.step_id == step:
                return each.output
        raise LookupError(f"step {step!r} has no output")

    def status_of(self, step: str) -> str:
        """The status of a step."""
        return next(each.status for each in self.plan if each.id == step)


def _step(data: Mapping[str, Any]) -> PlanStep:
    return PlanStep(
        id=data["id"],
        description=data.get("description", ""),
        action=data["action"],
        parameters=dict(data.get("parameters", {})),
        dependencies=list(data.get("dependencies", ())),
        status=data.get("status", "pending"),
        options=dict(data.get("options", {})),
    )


def plan_of(data: Mapping[str, Any]) -> Plan:
    """The plan that a state was made from, each step as if nothing had been done."""
    plan = Plan(data.get("name", "plan"), query=data.get("query", ""))
    plan.steps = [_step(each) for each in data["plan"]]
    for each in plan.steps:
        each.status = "pending"
    return plan


def new_state(plan: Plan, execution: str) -> dict[str, Any]:
    """The state that an execution of a plan begins with."""
    steps = [each.to_dict() | {"status": "pending"} for each in plan.steps]
    return {
        "name": plan.name,
        "query": plan.query,
        "execution": execution,
        "plan": steps,
        "current_step_index": 0,
        "results": [],
        "context": dict(plan.context),
        "last_error": None,
        "edits": {},
    }


def is_plan_state(state: object) -> bool:
    """Whether the state of a checkpoint is that of an execution."""
    return (
        isinstance(state, dict)
        and isinstance(state.get("plan"), list)
        and isinstance(state.get("execution"), str)
    )


class Waiting(NamedTuple):
    """A step that waits for a person."""

    step: str
    kind: str
    """approve: whether it may run; outcome: whether it happened."""
    expires_at: datetime | None = None


@dataclass(slots=True)
class ExecutionResult:
    """How running a plan ended.

    Attributes:
        success: Whether the plan is done.
        state: The state at the end.
        error: What went wrong, in a sentence.
        total_duration_ms: How long this call took.
        status: completed, failed, paused, waiting (for a person) or cancelled.
        execution: The id of the execution.
        recovered: How many completed steps were not run again.
        reasons: Why steps ran again that had a result before, by step.
        waiting: The steps that wait for a person.
    """

    success: bool
    state: PlanState
    error: str | None = None
    total_duration_ms: float = 0.0
    status: str = "completed"
    execution: str = ""
    recovered: int = 0
    reasons: dict[str, str] = field(default_factory=dict)
    waiting: list[Waiting] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data."""
        return {
            "success": self.success,
            "status": self.status,
            "execution": self.execution,
            "error": self.error,
            "total_duration_ms": self.total_duration_ms,
            "recovered": self.recovered,
            "reasons": self.reasons,
            "waiting": [each._asdict() for each in self.waiting],
            "state": self.state.to_dict(),
        }


@dataclass(frozen=True)
class StepStatus(Report):
    """A step as `status` shows it."""

    id: str
    description: str
    action: str
    status: str
    attempt: int
    dependencies: list[str]
    started_at: datetime | None = None
    duration_ms: float | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    error: str | None = None
    next_attempt_at: datetime | None = None
    reason: str | None = None


@dataclass(frozen=True)
class ExecutionStatus(Report):
    """Where an execution is.

    Attributes:
        execution: Its id.
        plan: What the plan is called.
        session: The session.
        branch: The branch that it is on.
        status: pending, running, paused, waiting, failed, completed or cancelled.
        running: Whether somebody works on it now.
        steps: The steps.
        waiting: Those that wait for a person.
        effects: What it did to the world outside.
    """

    execution: str
    plan: str
    session: str
    branch: str
    status: str
    running: bool
    steps: list[StepStatus]
    waiting: list[Waiting]
    effects: list[Effect]
    forked_from: str | None = None
    error: str | None = None

    @property
    def done(self) -> int:
        """How many steps are completed."""
        return sum(each.status == "completed" for each in self.steps)


def utc(seconds: float) -> datetime:
    """A time as a datetime."""
    return datetime.fromtimestamp(seconds, UTC)
