"""Connections shared by the threads of a process: psycopg's pool, and what it does not do.

psycopg's pool keeps the idle connections, and opens new ones in a thread of its own. Around it, `Pool`

- hands out no connection that the server has closed: a look at its socket tells, without a round trip. When one is
  found so, all idle ones that are older go with it, because a server that restarted has closed them all;
- waits for a server that is gone until the time-out has passed, and says then why, where psycopg's pool only says that
  no connection came. What will not go away by itself, such as a wrong password, it says at once;
- survives a fork. The parent goes on with what it has. In the child each inherited connection is parted from its
  socket, and a new pool is made when one is needed: the threads of the old one do not exist there.

At most 16 connections are open in one process beside the dedicated ones: more than that make a server slower, not
faster. Threads beyond that wait for their turn.
"""

from __future__ import annotations

import copy
import logging
import socket
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from holdfast.backends.postgres.connecting import Connected, Connector, cut_off, is_quiet
from holdfast.backends.postgres.errors import is_lost, is_passing, store_locked
from holdfast.backends.rules import store_closed
from holdfast.errors import HoldfastError

MOST_CONNECTIONS = 16

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.25
"""Of a second, between two attempts to reach a server that is gone."""

_FAREWELL = 1.0
"""How many seconds `close` waits for a thread that is just connecting; it ends by itself all the same."""

# Python writes warnings that nobody handles to standard error. Every failure that psycopg's pool warns of is an error
# of ours as well; a program that does set up logging still gets both.
logging.getLogger("psycopg").addHandler(logging.NullHandler())


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
        # Reentrant: a signal handler that uses the store may run in the thread that holds it.
        self._changing = threading.RLock()
        self._shared: ConnectionPool[Connected] | None = None
        self._finalizer: weakref.finalize[Any, Any] | None = None
        self._drained_at = 0.0
        self._closed = False

    def connection(self) -> _Taken:
        """A block with a connection for the caller alone, in no transaction at its beginning or at its end."""
        return _Taken(self)

    @contextmanager
    def dedicated(self) -> Iterator[Connected]:
        """A block with a new connection, which is closed at its end: for work that leaves something behind in it."""
        self.check_open()
        connection = self._connect()
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
        with self._changing:
            self._closed = True
            if self._finalizer is not None:
                self._finalizer()

    def drop_idle(self, lost: Connected) -> None:
        """The server closed this connection: have all that are as old closed, now or when they are given back."""
        with self._changing:
            # The others that a restart closed are found by other threads; what was opened since must stay.
            if self._shared is not None and lost.made_at > self._drained_at:
                self._drained_at = time.monotonic()
                self._shared.drain()

    def before_fork(self) -> None:
        """Hold on until nobody is making or closing the pool."""
        self._changing.acquire()

    def after_fork_in_parent(self) -> None:
        """Go on with the same connections."""
        self._changing.release()

    def after_fork_in_child(self) -> None:
        """Leave the parent's connections to the parent."""
        self._changing = threading.RLock()
        shared, self._shared = self._shared, None
        if self._finalizer is not None:
            self._finalizer.detach()
            self._finalizer = None
        if shared is not None:
            # Its locks may be held by threads that do not exist here, so that it cannot be closed in order. Called
            # closed, it waits for nobody, and closes what is given back to it.
            shared._closed = True  # noqa: SLF001
        dead, other = socket.socketpair()
        other.close()
        for connection in list(self._connector.connections):
            cut_off(connection, dead.fileno())
        dead.close()
        self._connector.connections.clear()

    def take(self) -> tuple[ConnectionPool[Connected], Connected]:
        """An idle connection, or a new one; and the pool to give it back to."""
        started = time.monotonic()
        pause = _FIRST_PAUSE
        while True:
            shared = self._open()
            left = started + self._timeout - time.monotonic()
            try:
                # psycopg's pool hands out nothing, not even what is idle, where there is no time left.
                connection = shared.getconn(timeout=max(min(left, pause), 0.001))
            except PoolClosed:
                # By a fork in between, or by `close`; the next turn says which.
                continue
            except PoolTimeout:
                self._check_waiting(started, left)
                pause = min(pause * 2, _LONGEST_PAUSE)
                continue
            except BaseException as error:  # noqa: BLE001 - it is raised again
                _let_go(shared, error)
                raise _interruption(error) from None
            try:
                if is_quiet(connection):
                    return shared, connection
                self.drop_idle(connection)
                connection.close()
            except BaseException:
                # Ctrl-C: nobody has it yet who would give it back.
                shared.putconn(connection)
                raise
            shared.putconn(connection)

    def _open(self) -> ConnectionPool[Connected]:
        shared = self._shared
        if shared is not None and not self._closed:
            return shared
        with self._changing:
            self.check_open()
            if self._shared is None:
                self._shared = shared = _pool(self._connector, self._most)
                # A program that ends without closing the store could otherwise wait seconds for threads that Python has
                # stopped already: psycopg's pool joins them when it is collected.
                self._finalizer = weakref.finalize(self, _close, shared)
            return self._shared

    def _check_waiting(self, started: float, left: float) -> None:
        """Raise what there is to say to somebody who waits for a connection since `started`."""
        failure = self._connector.failure
        if failure is not None and failure[0] >= started and (left <= 0 or not is_passing(failure[1])):
            # Several threads may raise it, each with a traceback of its own.
            raise copy.copy(failure[1]) from None
        if left <= 0:
            raise store_locked(
                self._connector.address.shown,
                f"all {self._most} connections of this process were in use for more than {self._timeout:g} s",
            ) from None

    def _connect(self) -> Connected:
        deadline = time.monotonic() + self._timeout
        pause = _FIRST_PAUSE
        while True:
            try:
                return self._connector()
            except HoldfastError as error:
                if not is_passing(error) or time.monotonic() >= deadline:
                    raise
            time.sleep(min(pause, max(deadline - time.monotonic(), 0)))
            pause = min(pause * 2, _LONGEST_PAUSE)


class _Taken:
    """One use of a connection. A class, because a generator costs more."""

    __slots__ = ("_connection", "_pool", "_shared")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def __enter__(self) -> Connected:
        self._shared, self._connection = self._pool.take()
        return self._connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connection = self._connection
        try:
            if connection.closed or (error is not None and is_lost(error)):
                self._pool.drop_idle(connection)
                connection.close()
        finally:
            # Rolls back what an error left open, and closes where a statement was interrupted.
            self._shared.putconn(connection)


class _Opening(psycopg.Connection[Any]):
    """What psycopg's pool takes for the class of its connections."""

    @classmethod
    def connect(cls, _conninfo: str = "", *, connector: Connector) -> Connected:  # type: ignore[override]
        return connector()


def _pool(connector: Connector, most: int) -> ConnectionPool[Connected]:
    shared: ConnectionPool[Any] = ConnectionPool(
        connection_class=_Opening,
        kwargs={"connector": connector},
        # None is kept for nobody: a process that pauses for long holds no session of the server.
        min_size=0,
        max_size=most,
        num_workers=1,
        # It would try again with pauses that double without an end; those who wait for a connection ask again instead.
        reconnect_timeout=0,
        open=True,
    )
    return shared


def _close(shared: ConnectionPool[Connected]) -> None:
    shared.close(timeout=_FAREWELL)


def _let_go(shared: ConnectionPool[Connected], error: BaseException) -> None:
    """See to it that nobody is given a connection any more for whom `getconn` ended with this error.

    psycopg's pool does so for exceptions, but not for Ctrl-C: who waited stays in its queue and is given the next
    connection, which nobody would give back. What it had in hand only its frames know.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_name != "_getconn_unchecked":
        trace = trace.tb_next
    if trace is None:
        return
    held = trace.tb_frame.f_locals
    waiter, connection = held.get("pos"), held.get("conn")
    if waiter is not None and not waiter.fail(PoolTimeout("interrupted")):
        connection = connection or waiter.conn
    # After an exception it has given it back itself, and twice would give it to two.
    if connection is not None and not isinstance(error, Exception):
        connection._pool = shared  # noqa: SLF001 - as `getconn` does at its end
        shared.putconn(connection)


def _interruption(error: BaseException) -> BaseException:
    """What ended a wait. Ctrl-C may come when a lock is not taken yet that is then to be given back."""
    context = error.__context__
    is_hidden = isinstance(error, RuntimeError) and context is not None and not isinstance(context, Exception)
    return context if is_hidden and context is not None else error
