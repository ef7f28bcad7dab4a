"""Connections shared by the threads of a process: one user at a time each, and none open while the process forks.

An operation takes a connection and gives it back; the one given back last is taken first, because its cache is warm. No
thread owns any, so a thread that dies leaves none behind. Nor does one that Ctrl-C ends before it could give its own
back, as it may between any two calls: nobody else holds on to that, so that it is closed, and with it its view of the
store, which would otherwise keep the log from being emptied.

SQLite keeps its locks and its shared memory per process. A child that inherited an open connection would believe in
locks that it does not have. So a fork waits until the other threads have given back theirs, and closes all of them;
both sides open new ones when they need them. A use that would make the fork wait too long, or that is in the forking
thread itself, loses its connection and ends in an error: that is the price of never being wrong about a lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from weakref import WeakKeyDictionary

import apsw

from holdfast.backends.rules import store_closed

_MOST_IDLE = 4
"""A connection holds up to 2 MB of cache and three descriptors; more idle ones than this are closed."""

_GRACE = 10.0
"""A fork that waits longer for the other threads would look like a hang."""


class Pool:
    """The connections of one backend.

    Args:
        opener: Opens a new connection, ready for use.
        identity: Says which file the store's name means now; None where there is none.
        url: The name of the store, for errors.
        grace: How many seconds a fork waits for the operations of other threads.
        most_idle: How many connections to keep for later.
    """

    def __init__(
        self,
        opener: Callable[[], apsw.Connection],
        identity: Callable[[], object],
        *,
        url: str,
        grace: float = _GRACE,
        most_idle: int = _MOST_IDLE,
    ) -> None:
        self._opener = opener
        self._identity = identity
        self._url = url
        self._grace = grace
        self._most_idle = most_idle
        # Its lock is reentrant: a signal handler that uses the store may run in the thread that holds it.
        self._changed = threading.Condition()
        # Each with the identity of the file it was opened on.
        self._idle: list[tuple[apsw.Connection, object]] = []
        # The same, after the thread that has it. Weakly: see above.
        self._taken: WeakKeyDictionary[apsw.Connection, tuple[int, object]] = WeakKeyDictionary()
        self._closed = False
        self._forking = False

    def take(self) -> apsw.Connection:
        """A connection for the caller alone, until it is given back."""
        thread = threading.get_ident()
        with self._changed:
            # A thread that has one already must be able to finish, or the fork would wait for it in vain.
            while self._forking and all(owner != thread for owner, _ in self._taken.values()):
                self._changed.wait()
            if self._closed:
                raise store_closed(self._url)
            file = self._identity()
            connection = self._take_idle(file)
            if connection is None:
                # Under the lock, so that a fork cannot happen while a connection is half open.
                connection = self._opener()
            self._taken[connection] = (thread, file)
            return connection

    def give(self, connection: apsw.Connection, *, broken: bool = False) -> None:
        """Give a connection back, outside of any transaction; a broken one is not used again."""
        with self._changed:
            # One that is no longer listed was closed by a fork.
            taken = self._taken.pop(connection, None)
            if taken is not None:
                if broken or self._closed or self._forking or len(self._idle) >= self._most_idle:
                    connection.close(force=True)
                else:
                    self._idle.append((connection, taken[1]))
            if self._forking:
                self._changed.notify_all()

    def check_open(self) -> None:
        """Raise where the pool is closed."""
        if self._closed:
            raise store_closed(self._url)

    @property
    def is_in_use(self) -> bool:
        """Whether there may be a connection: it is open, or was closed while somebody had one."""
        return not self._closed or bool(self._taken)

    def close(self) -> None:
        """Close what is idle now, and the rest when it is given back."""
        with self._changed:
            self._closed = True
            self._close_idle()

    def before_fork(self) -> None:
        """Close every connection; afterwards the lock is held until one of the two below."""
        thread = threading.get_ident()
        self._changed.acquire()
        self._forking = True
        deadline = time.monotonic() + self._grace
        while any(owner != thread for owner, _ in self._taken.values()):
            left = deadline - time.monotonic()
            if left <= 0 or not self._changed.wait(left):
                break
        for connection in list(self._taken):
            _close_taken(connection)
        self._taken.clear()
        self._close_idle()

    def after_fork_in_parent(self) -> None:
        """Let the other threads go on."""
        self._forking = False
        self._changed.notify_all()
        self._changed.release()

    def after_fork_in_child(self) -> None:
        """Go on alone, with a lock of one's own."""
        self._changed = threading.Condition()
        self._forking = False

    def _take_idle(self, file: object) -> apsw.Connection | None:
        while self._idle:
            connection, opened_on = self._idle.pop()
            if opened_on == file:
                return connection
            # The file was removed or replaced: what this one would still write, nobody would ever read.
            connection.close(force=True)
        return None

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop()[0].close(force=True)


def _close_taken(connection: apsw.Connection) -> None:
    while True:
        # Ends a statement that another thread is in the middle of.
        connection.interrupt()
        try:
            connection.close()
        except apsw.ThreadingViolationError:
            time.sleep(0.001)
        except apsw.Error:
            # Closing failed, and closed it: what SQLite could not finish it will finish from the WAL.
            return
        else:
            return
