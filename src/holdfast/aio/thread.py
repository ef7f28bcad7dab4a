"""The one way out of the event loop: a call in a worker thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio.to_thread

_T = TypeVar("_T")


async def in_thread(operation: Callable[[], _T]) -> _T:
    """What `operation` returns. It is finished even if the task that awaits it is cancelled."""
    return await anyio.to_thread.run_sync(operation)
