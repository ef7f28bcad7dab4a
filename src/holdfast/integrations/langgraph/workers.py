"""Where the saver's work is done: on the caller's thread, or in a worker thread for async callers.

Async calls wait for each other here, not among everything else that the program does in threads: the tasks of one busy
thread all want the same line, and those that wait for it would hold the workers that others need. So the savers of an
event loop have a number of workers of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from holdfast import ConflictError, ErrorCode

_T = TypeVar("_T")

_MOST_WORKERS: Final = 32
"""Most of their time they wait for a disk or a server."""

# A limiter belongs to the event loop that it is first used in, and a saver may be used in several.
_limiter: RunVar[anyio.CapacityLimiter] = RunVar("holdfast.integrations.langgraph.workers")


async def run(operation: Callable[[], _T]) -> _T:
    """Do something in a worker thread."""
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = anyio.CapacityLimiter(_MOST_WORKERS)
        _limiter.set(limiter)
    return await anyio.to_thread.run_sync(operation, limiter=limiter)


def write(encode: Callable[[Any], Any], state: Any, save: Callable[[Any], None]) -> None:
    """Encode a state and save it."""
    try:
        save(encode(state))
    except ConflictError as conflict:
        if conflict.code is not ErrorCode.CHUNKS_GONE:
            raise
        # What the last save left in the store was removed since: this time all of it is sent.
        save(encode(state))


async def awrite(encode: Callable[[Any], Any], state: Any, save: Callable[[Any], None]) -> None:
    """Encode a state at once, on this thread, and save it in another.

    Raises:
        ConflictError: What the last save left in the store was removed since, and the state has changed meanwhile, so
            that it cannot be sent whole any more (`chunks-gone`).
    """
    encoded = encode(state)
    try:
        await run(partial(save, encoded))
    except ConflictError as conflict:
        if conflict.code is not ErrorCode.CHUNKS_GONE:
            raise
        # As above; on this thread again, where nobody else changes the state meanwhile. It may have changed while this
        # waited, and what it was at the call is not known in full: then nothing is saved rather than something else.
        again = encode(state)
        if again.root != encoded.root:
            raise ConflictError(
                "the state was changed while it was being saved, and others removed what the save built on",
                code=ErrorCode.CHUNKS_GONE,
                hint="nothing was saved: put it again, and leave the state alone until that is done",
            ) from conflict
        await run(partial(save, again))
