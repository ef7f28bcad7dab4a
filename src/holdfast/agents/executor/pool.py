"""Threads for steps: a `concurrent.futures.Executor` that can leave behind a body that takes too long.

The threads of the standard library's pool are waited for when the program ends: one body that hangs would keep it from
ending. These are not, and one that is left behind is replaced.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any

_Job = tuple[Future[Any], Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class Threads(Executor):
    """At most so many threads, made when they are needed."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0
        self._abandoned: set[Future[Any]] = set()
        self._closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function in one of the threads."""
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("the pool is closed")
            if self._idle > 0:
                self._idle -= 1
            elif self._threads < self._workers:
                self._start()
        self._jobs.put((future, fn, args, kwargs))
        return future

    def abandon(self, future: Future[Any]) -> None:
        """Do not count on this one any more: another thread takes the place of the one that runs it."""
        with self._lock:
            if not future.done():
                self._abandoned.add(future)
                self._start()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        """Let the threads end when they have nothing to do. What they run is not waited for."""
        with self._lock:
            self._closed = True
            for _each in range(self._threads):
                self._jobs.put(None)

    def _start(self) -> None:
        self._threads += 1
        threading.Thread(target=self._work, name="holdfast step", daemon=True).start()

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            future, function, args, kwargs = job
            if future.set_running_or_notify_cancel():
                try:
                    value = function(*args, **kwargs)
                except BaseException as error:  # noqa: BLE001 - it belongs to who waits for the future
                    future.set_exception(error)
                else:
                    future.set_result(value)
            with self._lock:
                if future in self._abandoned:
                    self._abandoned.discard(future)
                    self._threads -= 1
                    return
                self._idle += 1
            # A thread that waits keeps no result alive.
            del job, future, function, args, kwargs
