"""The rows that executions keep beside their checkpoints."""

from __future__ import annotations

from typing import Final

from holdfast import Table

EXECUTIONS: Final = Table(
    "plan_executions",
    columns={
        "session": str,
        "execution": str,
        "branch": str,
        "plan": str,
        "status": str,
        "request": str | None,
        "created_at": int,
        "updated_at": int,
        "duration_ms": float,
        "forked_from": str | None,
        "fork_step": str | None,
        "error": str | None,
    },
    key=("execution",),
    indexes=(("session", "created_at"), ("status",)),
)
"""One row an execution. `request` is what somebody asks of whoever works on it: pause or cancel."""

APPROVALS: Final = Table(
    "plan_approvals",
    columns={
        "session": str,
        "execution": str,
        "step": str,
        "request": str,
        "kind": str,
        "asked_at": int,
        "expires_at": int | None,
        "decision": str | None,
        "decided_at": int | None,
        "decided_by": str | None,
        "note": str | None,
        "edit": bytes | None,
    },
    key=("execution", "step", "request"),
    foreign_keys={("execution",): EXECUTIONS},
)
"""One row a request: `request` holds the input hash, so that other parameters are another request."""
