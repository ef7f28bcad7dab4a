"""Waits in other threads, and what a server says about who listens."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from holdfast.backends.postgres import PostgresBackend

Run = Callable[..., list[tuple[Any, ...]]]
Open = Callable[..., PostgresBackend]

PATIENCE = 60
"""Seconds until something that should have happened is called missing; nobody waits so long in a sound store."""

FOREVER = 100_000.0

# What `apply` does with the lock and the sequence, held open in the middle.
BEGIN_COMMIT = "SELECT pg_advisory_xact_lock_shared(class, object) FROM writers_lock()"
TAKE_POSITION = "SELECT nextval('positions')"
ARRIVE = (
    "INSERT INTO checkpoints SELECT %s, session, 99, 'x', branch, parents, root, created_at, trigger, status, "
    "step, message, metadata, tokens, cost_usd, duration_ms, app_version, nonce, key, size_bytes, stored_at, "
    "stored_bytes, prev, skipped, hidden, tags, pinned, edited_message, added_metadata, seal "
    "FROM checkpoints WHERE position = %s"
)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.005)


class Waiting:
    """A wait in another thread."""

    def __init__(self, backend: PostgresBackend, after: int, timeout: float = FOREVER) -> None:
        self._results: queue.SimpleQueue[int | BaseException] = queue.SimpleQueue()

        def wait() -> None:
            try:
                self._results.put(backend.wait_for_checkpoint(after, timeout))
            except BaseException as error:
                self._results.put(error)

        threading.Thread(target=wait, daemon=True).start()

    def result(self) -> int | BaseException:
        return self._results.get(timeout=PATIENCE)

    def is_over(self) -> bool:
        return not self._results.empty()
