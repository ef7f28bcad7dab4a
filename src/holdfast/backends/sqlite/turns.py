"""The turns of threads that write: SQLite has one writer at a time, and they queue here instead of polling the file.

A signal handler, or what is collected as garbage, may save something while its thread is in the middle of a save. It
can never have a turn, because what it would wait for goes on only when it returns. So it is told at once.

A handler may raise as well, as that of Ctrl-C does. Python runs handlers where a function begins and after each call:
an `__exit__` of ours would end before its first line, and nobody else had a turn ever again. So this is no context
manager, and what ends a turn is one call into C.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from holdfast.backends.sqlite.errors import inside_a_save, store_locked

T = TypeVar("T")


class Turns:
    """Lets one thread of this process write at a time.

    Args:
        path: The store, for errors.
        timeout: How many seconds a thread waits for the others.
    """

    __slots__ = ("_holder", "_lock", "_path", "_timeout")

    def __init__(self, path: str, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        # Reentrant, because such a one knows whose it is: who waited in vain releases nothing below.
        self._lock = threading.RLock()
        self._holder: int | None = None

    def take(self, work: Callable[[], T]) -> T:
        """Do something while no other thread of this process writes.

        Raises:
            BackendError: The others took too long, or this thread has its turn already (`store-locked`).
        """
        mine = threading.get_ident()
        if self._holder == mine:
            raise inside_a_save(self._path)
        try:
            if not self._lock.acquire(timeout=self._timeout):
                raise store_locked(self._path, self._timeout)
            self._holder = mine
            return work()
        finally:
            # No call but the last: see above.
            if self._holder == mine:
                self._holder = None
            try:  # noqa: SIM105 - `suppress` is a call
                self._lock.release()
            except RuntimeError:
                # It was never ours.
                pass
