"""Many executions, worked on by several processes: each takes what nobody has, and takes over what the dead left."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from holdfast.agents.executor.executor import Executor
from holdfast.agents.executor.state import ExecutionResult, PlanState
from holdfast.agents.executor.tables import EXECUTIONS
from holdfast.errors import ConflictError, ErrorCode, IntegrityError, InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from holdfast import Store

_OPEN: Final = ("pending", "running")
"""Statuses that need nobody but a worker; one that failed, is paused or waits needs a person."""


def run_all(
    store: Store,
    *,
    actions: Mapping[str, Callable[..., Any]] | None = None,
    poll_seconds: float = 0.2,
    **options: Any,
) -> list[ExecutionResult]:
    """Work on every execution of a store that is pending or was left by a process that died, until there is none.

    Several processes may do so at once, on a server: a lease keeps two from the same execution. What another process
    works on is waited for, because that may die.

    Args:
        store: Where the executions are; `Executor.submit` puts them there.
        actions: Functions by the names that plans call them.
        poll_seconds: How long to wait where others have all that is left.
        options: Of each `Executor`: workers, on_failure, lease_seconds and so on.

    Returns:
        How those ended that this process worked on. What cannot be run here, because an action or the state is
        missing, is left as it is, with the reason as its error.
    """
    results: list[ExecutionResult] = []
    left: set[str] = set()
    while True:
        found = [row for status in _OPEN for row in store.rows(EXECUTIONS).find(status=status)]
        found = [row for row in found if row["execution"] not in left]
        if not found:
            return results
        # Each process begins elsewhere.
        random.shuffle(found)
        ended = [each for row in found if (each := _resumed(store, row, options | {"actions": actions}))]
        results += ended
        left |= {each.execution for each in ended}
        if not ended:
            time.sleep(poll_seconds)


def _resumed(store: Store, row: Mapping[str, Any], options: Mapping[str, Any]) -> ExecutionResult | None:
    """How an execution ended; None where another process has it, or ended it since it was listed."""
    try:
        return Executor(store.session(row["session"], branch=row["branch"]), **options).resume()
    except (ConflictError, NotFoundError, InvalidInputError, IntegrityError) as error:
        if error.code in (ErrorCode.LEASE_HELD, ErrorCode.LEASE_LOST):
            return None
        now = store.rows(EXECUTIONS).get(row["execution"])
        if now is None or now["status"] not in _OPEN:
            return None
        # One that nobody here can run must not keep the others from running.
        return ExecutionResult(
            success=False,
            state=PlanState(name=row["plan"], execution=row["execution"]),
            error=str(error),
            status=now["status"],
            execution=row["execution"],
        )
