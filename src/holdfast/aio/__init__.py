"""AsyncStore and AsyncSession: the same names, awaitable, one worker-thread hop per operation.

The core is synchronous; an "async" SQLite would hop to a thread for every statement anyway, at many times the cost.
What matters for an event loop is done here: a state becomes bytes on the caller's thread before the first await, so
that one checkpoint is one moment whatever other tasks do to the state afterwards, and only bytes cross to the worker.

An operation that was started is finished even if the task that awaits it is cancelled: a save is never half known.
"""

from __future__ import annotations

from holdfast.aio.document import AsyncDocument
from holdfast.aio.lease import AsyncHeldLease
from holdfast.aio.opening import aopen
from holdfast.aio.session import AsyncSession
from holdfast.aio.store import AsyncStore

__all__ = ["AsyncDocument", "AsyncHeldLease", "AsyncSession", "AsyncStore", "aopen"]
