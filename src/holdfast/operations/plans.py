"""Operations on plans: where an execution is, and the decisions of people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

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


@operation("plan.approve", scope="write", idempotent=True)
def approve(
    service: Service,
    step: Step,
    session: Session | None = None,
    *,
    reject: Annotated[bool, Meta(description="Do not agree: the step fails")] = False,
    parameters: Annotated[dict[str, Any], Meta(description="Agree with these instead")] | None = None,
    by: Who | None = None,
    note: Text | None = None,
) -> dict[str, Any]:
    """Decide about a step that waits for a person; the first decision wins."""
    executor = _executor(service, session)
    if reject:
        made = executor.reject(step, by=by, note=note)
    else:
        made = executor.approve(step, parameters=parameters, by=by, note=note)
    return made._asdict() | {"at": made.at.isoformat()}


@operation("plan.cancel", scope="write", idempotent=True)
def cancel(service: Service, session: Session | None = None) -> Any:
    """End the execution of a session, also one that another process works on. Its checkpoints stay."""
    executor = _executor(service, session)
    executor.cancel()
    return executor.status()
