"""Connections shared by the threads of a process, through restarts of the server and forks.

An operation takes a connection and gives it back; the one given back last is taken first, because the server's process
behind it has everything at hand. A thread that finds none opens one itself. At most 16 are open in one process beside
the dedicated ones, because more than that make a server slower, not faster: threads beyond that queue, and who has
waited longest is handed the next one. No thread works in the background.

- None is handed out that the server has closed: a look at its socket tells, without a round trip. When one is found so,
  all idle ones that are older go with it, because a server that restarted has closed them all.
- A pooler that has no session of the server left is not waited for where this process has connections already: one of
  those is given back sooner.
- A server that is gone is waited for until the time-out has passed. What will not go away by itself, such as a wrong
  password, is said at once.
- In a child of a fork each inherited connection is parted from its socket. The parent goes on with what it has.

Ctrl-C may come between any two steps. So nothing is counted: those that are open are looked at, by weak references, and
one that an interruption left to nobody is closed and its place free again. And the one lock is of a kind that Python
takes and gives back in one step.
"""

from __future__ import annotations

import copy
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from weakref import WeakSet

import psycopg
from psycopg import pq

from holdfast.backends.postgres.asking import take_owed
from holdfast.backends.postgres.connecting import Connected, Connector, cut_off, is_quiet
from holdfast.backends.postgres.errors import is_kept_waiting, is_lost, is_passing, store_locked
from holdfast.backends.rules import store_closed
from holdfast.errors import HoldfastError

MOST_CONNECTIONS = 16

_Waiter = SimpleQueue[Connected]
"""Somebody who waits, and where the connection is put. Putting and getting is one step each for Python."""

_IDLE = pq.TransactionStatus.IDLE
_IN_TRANSACTION = pq.TransactionStatus.INTRANS
_IN_ERROR = pq.TransactionStatus.INERROR

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.25
"""Of a second, between two attempts to reach a server that is gone."""

_LEAST_PATIENCE = 5.0
"""Seconds that a pooler gets to hand the first connection on, however short the time-out."""
_SHARED_PATIENCE = 1.0
_HOLD_OFF = 1.0
"""And one more, where others are open; and between two attempts at it, of which one thread makes the next for all."""


class Pool:
    """The connections of one backend, which has to tell it about forks.

    Args:
        connector: Opens them.
        timeout: How many seconds to wait for a connection.
    """

    def __init__(self, connector: Connector, *, timeout: float, most: int = MOST_CONNECTIONS) -> None:
        self._connector = connector
        self._timeout = min(timeout, threading.TIMEOUT_MAX / 2)
        self._most = most
        # Held while a place is looked for. Reentrant: a signal handler that uses the store may run in the thread that
        # has it. No Condition: a signal between the steps of that, which are Python, would leave it locked for ever.
        self._lock = threading.RLock()
        # The last one was used last. Taken from and added to without the lock: either is one step for Python.
        self._idle: list[Connected] = []
        # Those who wait, the first one first; likewise.
        self._queue: deque[_Waiter] = deque()
        # Idle or in use.
        self._open: WeakSet[Connected] = WeakSet()
        self._opening: set[object] = set()
        self._drained_at = 0.0
        # When a pooler that had no more is asked again; 0 where none has said so.
        self._crowded_until = 0.0
        self._closed = False

    def connection(self) -> _Taken:
        """A block with a connection for the caller alone, in no transaction at its beginning or at its end."""
        return _Taken(self)

    @contextmanager
    def dedicated(self) -> Iterator[Connected]:
        """A block with a new connection, which is closed at its end: for work that leaves something behind in it."""
        self.check_open()
        deadline, pause = time.monotonic() + self._timeout, _FIRST_PAUSE
        while (connection := self._connected(deadline, self._patience(deadline))) is None:
            # Where there are no more, it may be because this process has the last ones, and needs them no longer.
            with suppress(IndexError):
                self._discard(self._idle.pop())
            time.sleep(min(pause, max(deadline - time.monotonic(), 0)))
            pause = min(pause * 2, _LONGEST_PAUSE)
        try:
            yield connection
        finally:
            connection.close()

    def check_open(self) -> None:
        """Raise where the pool is closed."""
        if self._closed:
            raise store_closed(self._connector.address.shown)

    def close(self) -> None:
        """Close what is idle now, and the rest when it is given back."""
        self._closed = True
        self._close_idle()

    def drop_idle(self, lost: Connected) -> None:
        """The server closed this connection: have all that are as old closed, now or when they are given back."""
        # The others that a restart closed are found by other threads; what was opened since must stay.
        if lost.made_at > self._drained_at:
            self._drained_at = time.monotonic()
            self._close_idle()

    def before_fork(self) -> None:
        """Hold on until nobody has the lock, which in the child nobody would give back."""
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on with the same connections."""
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Leave the parent's connections to the parent."""
        self._lock = threading.RLock()
        dead, other = socket.socketpair()
        other.close()
        for connection in list(self._connector.connections):
            cut_off(connection, dead.fileno())
        dead.close()
        self._connector.connections.clear()
        # Only now: one that is collected before it was cut off would leave its socket open in this process.
        self._idle, self._queue, self._open, self._opening = [], deque(), WeakSet(), set()

    def take(self) -> Connected:
        """An idle connection, or a new one, or the next that somebody gives back."""
        # Who comes now does not go before those who wait.
        connection = None if self._queue else self._take_idle()
        return connection or self._wait_for_one()

    def give(self, connection: Connected) -> None:
        """Give a connection back."""
        try:
            is_ready = _is_ready(connection)
        except BaseException:
            # Ctrl-C while it was rolled back: whatever is left on it, nobody is to meet it.
            self._discard(connection)
            raise
        if is_ready and connection.made_at > self._drained_at:
            self._idle.append(connection)
        else:
            self._discard(connection)
        # After it was added: who closes the pool, or begins to wait at this moment, may not have seen it.
        if self._closed:
            self._close_idle()
        self._hand_over()

    def _take_idle(self) -> Connected | None:
        while not self._closed:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if self._can_be_used(connection):
                return connection
        return None

    def _can_be_used(self, connection: Connected) -> bool:
        try:
            if _is_alive(connection):
                return True
        except BaseException:
            # Ctrl-C: nobody has it yet who would give it back.
            self.give(connection)
            raise
        self.drop_idle(connection)
        self._discard(connection)
        return False

    def _wait_for_one(self) -> Connected:
        started, pause = time.monotonic(), _FIRST_PAUSE
        deadline = started + self._timeout
        waiter: _Waiter = SimpleQueue()
        try:
            while True:
                self.check_open()
                connection = self._open_another(deadline)
                if connection is not None:
                    return connection
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self._none_came(started)
                if waiter not in self._queue:
                    self._queue.append(waiter)
                    # One may have been given back since there was none.
                    self._hand_over()
                with suppress(Empty):
                    connection = waiter.get(timeout=min(pause, left))
                    if self._can_be_used(connection):
                        return connection
                pause = min(pause * 2, _LONGEST_PAUSE)
        finally:
            self._leave(waiter)

    def _hand_over(self) -> None:
        """Give idle connections to those who wait for one."""
        while self._queue and self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:
                return
            try:
                waiter = self._queue.popleft()
            except IndexError:
                # The last one has left the queue just now.
                self._idle.append(connection)
            else:
                waiter.put(connection)

    def _leave(self, waiter: _Waiter) -> None:
        """Have nothing more handed to somebody who goes, or give it to others."""
        with suppress(ValueError):
            self._queue.remove(waiter)
        with suppress(Empty):
            while True:
                self.give(waiter.get_nowait())

    def _open_another(self, deadline: float) -> Connected | None:
        """A new connection; None where there are as many as there may be, or none can be made at the moment."""
        mine = object()
        try:
            with self._lock:
                if len(self._open) + len(self._opening) >= self._most:
                    return None
                if self._open and self._crowded_until:
                    if time.monotonic() < self._crowded_until:
                        return None
                    self._crowded_until = time.monotonic() + _HOLD_OFF
                self._opening.add(mine)
            connection = self._connected(deadline, self._patience(deadline))
            if connection is not None:
                self._crowded_until = 0.0
                self._open.add(connection)
            return connection
        finally:
            self._opening.discard(mine)

    def _patience(self, deadline: float) -> float:
        """Until when a pooler may have somebody wait for one more connection."""
        now = time.monotonic()
        return now + _SHARED_PATIENCE if self._open else max(deadline, now + _LEAST_PATIENCE)

    def _connected(self, deadline: float, patience: float) -> Connected | None:
        """A new connection; None where that failed, there is time left, and it may go better."""
        try:
            return self._connector(patience)
        except HoldfastError as error:
            if is_kept_waiting(error):
                self._crowded_until = time.monotonic() + _HOLD_OFF
            if not is_passing(error) or time.monotonic() >= deadline:
                raise
            return None

    def _none_came(self, started: float) -> HoldfastError:
        failure = self._connector.failure
        if failure is not None and failure[0] >= started:
            # Several threads may raise it, each with a traceback of its own.
            return copy.copy(failure[1])
        return store_locked(
            self._connector.address.shown,
            f"all {self._most} connections of this process were in use for more than {self._timeout:g} s",
        )

    def _close_idle(self) -> None:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return
            self._discard(connection)

    def _discard(self, connection: Connected) -> None:
        self._open.discard(connection)
        connection.close()


class _Taken:
    """One use of a connection. A class, because a generator costs more."""

    __slots__ = ("_connection", "_pool")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def __enter__(self) -> Connected:
        self._connection = self._pool.take()
        return self._connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connection = self._connection
        try:
            # Broken: closed, and not by us.
            if connection.broken or (error is not None and is_lost(error)):
                self._pool.drop_idle(connection)
                connection.close()
        finally:
            self._pool.give(connection)


def _is_alive(connection: Connected) -> bool:
    """Whether an idle connection can be used, as far as can be told without a trip to the server."""
    try:
        if connection.owes:
            take_owed(connection)
    except psycopg.Error:
        # Lost since it was given back.
        return False
    return is_quiet(connection)


def _is_ready(connection: Connected) -> bool:
    """Whether a connection can be used again; what an error left open on it is rolled back."""
    if connection.closed:
        return False
    if connection.owes:
        # The answer ends the last use of it.
        return True
    status = connection.pgconn.transaction_status
    if status in (_IN_TRANSACTION, _IN_ERROR):
        try:
            connection.rollback()
        except psycopg.Error:
            # Lost: the server ends the transaction with the connection.
            return False
        status = connection.pgconn.transaction_status
    # A statement that was interrupted is still at work: its answer would be taken for that of the next one.
    return status == _IDLE
