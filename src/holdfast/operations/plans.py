"""Operations on plans: where an execution is, and the decisions of people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from holdfast.errors import ErrorCode, InvalidInputError
from holdfast.operations.operation import Session, Text, operation

if TYPE_CHECKING:
    from holdfast.agents import Executor
    from holdfast.operations.service import Service

Step = Annotated[str, Meta(min_length=1, max_length=200, description="The step that waits")]
Who = Annotated[str, Meta(max_length=200, description="Who decides")]


def _executor(service: Service, session: str | None) -> Executor:
    from holdfast.agents import Executor

    return Executor(service.known(session))


@operation("plan.status", path="/v1/sessions/{session}/plan")
def status(service: Service, session: Session | None = None) -> Any:
    """Show where the newest execution of a plan is: its steps, what waits for a person, what it did outside."""
    return _executor(service, session).status()


@operation("plan.approve", scope="write", destroys=True, idempotent=True)
def approve(
    service: Service,
    step: Step,
    session: Session | None = None,
    *,
    reject: Annotated[bool, Meta(description="Do not agree: the step fails")] = False,
    parameters: Annotated[dict[str, Any], Meta(description="Agree with these instead")] | None = None,
    by: Who | None = None,
    note: Text | None = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Decide about a step that waits for a person; the first decision wins."""
    executor = _executor(service, session)
    if dry_run:
        return {"plan": _decision(executor, step, reject=reject, parameters=parameters, by=by, note=note)}
    if reject:
        made = executor.reject(step, by=by, note=note)
    else:
        made = executor.approve(step, parameters=parameters, by=by, note=note)
    return made._asdict() | {"at": made.at.isoformat()}


def _decision(executor: Executor, step: str, *, reject: bool, **given: Any) -> dict[str, Any]:
    """What would be decided, for whoever has to agree to it."""
    found = executor.status()
    about = next((each for each in found.steps if each.id == step), None)
    if about is None:
        raise InvalidInputError(
            f"there is no step {step!r:.80}",
            code=ErrorCode.STEP_MISSING,
            hint="plan.status lists the steps",
            step=step,
        )
    decided = {
        "decision": "rejected" if reject else "approved",
        "step": step,
        "description": about.description,
        "action": about.action,
        "session": found.session,
        "execution": found.execution,
    }
    return decided | {name: value for name, value in given.items() if value is not None}


@operation("plan.cancel", scope="write", idempotent=True)
def cancel(service: Service, session: Session | None = None) -> Any:
    """End the execution of a session, also one that another process works on. Its checkpoints stay."""
    executor = _executor(service, session)
    executor.cancel()
    return executor.status()
