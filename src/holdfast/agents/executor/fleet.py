"""Many executions, worked on by several processes: each takes what nobody has, and takes over what the dead left."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from holdfast.agents.executor.executor import Executor
from holdfast.agents.executor.tables import EXECUTIONS
from holdfast.errors import ConflictError, ErrorCode, NotFoundError

if TYPE_CHECKING:
    from holdfast import Store
    from holdfast.agents.executor.state import ExecutionResult

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
        How those ended that this process worked on.
    """
    results: list[ExecutionResult] = []
    while True:
        found = [row for status in _OPEN for row in store.rows(EXECUTIONS).find(status=status)]
        if not found:
            return results
        # Each process begins elsewhere.
        random.shuffle(found)
        done = 0
        for row in found:
            session = store.session(row["session"], branch=row["branch"])
            try:
                results.append(Executor(session, actions=actions, **options).resume())
                done += 1
            except ConflictError as error:
                if error.code not in (ErrorCode.LEASE_HELD, ErrorCode.LEASE_LOST):
                    raise
            except NotFoundError as error:
                # Somebody else ended it since it was listed.
                if error.code is not ErrorCode.EXECUTION_MISSING:
                    raise
        if not done:
            time.sleep(poll_seconds)
