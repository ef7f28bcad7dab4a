"""The turns of threads that write: SQLite has one writer at a time, and they queue here instead of polling the file.

A signal handler, or what is collected as garbage, may save something while its thread is in the middle of a save. It
can never have a turn, because what it would wait for goes on only when it returns. So it is told at once.
"""

from __future__ import annotations

import threading

from holdfast.backends.sqlite.errors import inside_a_save, store_locked


class Turns:
    """A block in which no other thread of this process writes; a class, because a generator costs more.

    Args:
        path: The store, for errors.
        timeout: How many seconds a thread waits for the others.
    """

    __slots__ = ("_is_taken", "_lock", "_path", "_timeout")

    def __init__(self, path: str, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        # Reentrant, so that who has it already is not kept waiting, but found out below.
        self._lock = threading.RLock()
        self._is_taken = False

    def __enter__(self) -> None:
        if not self._lock.acquire(timeout=self._timeout):
            raise store_locked(self._path, self._timeout)
        if self._is_taken:
            self._lock.release()
            raise inside_a_save(self._path)
        self._is_taken = True

    def __exit__(self, *_: object) -> None:
        self._is_taken = False
        self._lock.release()
