"""Connections to the server: how one is opened and set up, and the pool that the threads of a process share.

The pool is our own few lines and not psycopg_pool: that one opens connections in threads of its own and tells who waits
only that the time is over, where a wrong password or an unknown host has to be said at once (docs/adr/0009). It opens a
connection when none is idle, at most 16 in one process, because more make a server slower. A server that is gone is
waited for until the time-out has passed. A child of a fork opens its own connections, and never touches those that it
inherited.
"""

from __future__ import annotations

import json
import math
import os
import random
import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Literal

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow

from holdfast.backends.postgres.errors import (
    check_server,
    connecting_failed,
    is_lost,
    is_passing,
    store_locked,
    translate,
)
from holdfast.backends.postgres.url import Address
from holdfast.backends.rules import store_closed
from holdfast.errors import HoldfastError

Connection = psycopg.Connection[TupleRow]
Durability = Literal["power", "process"]

MOST_CONNECTIONS: Final = 16

_DEFAULTS: Final = {
    # Half of what clients may take to go on after a server came back.
    "connect_timeout": "3",
    "fallback_application_name": "holdfast",
    # A server that vanished without a word is noticed after a minute, not after two hours.
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
# One statement after the login: poolers refuse settings in the start-up packet, or drop them.
_SET_UP: Final = """
SELECT count(set_config(name, CASE
    -- Stronger than what we ask for: a commit also waits until standbys show it.
    WHEN name = 'synchronous_commit' AND value = 'on' AND current_setting(name) = 'remote_apply'
    THEN 'remote_apply' ELSE value END, false))
FROM json_each_text(%s::json) AS wanted (name, value)
"""
PLANS: Final = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
"""Every statement is for a few rows, in the order of an index. Without statistics, or with old ones, the server takes
all ways for equally short, and keeps to one that leads through everything when the tables have grown."""

_LONGEST_LOCK_TIMEOUT: Final = 2**31 - 1
_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 0.25
"""Of a second, between two attempts to reach a server that is gone."""


class Pool:
    """The connections of one backend.

    Args:
        address: Where the store is.
        durability: What a commit that returned survives.
        timeout: How many seconds to wait for a connection, and for locks of the server.
    """

    def __init__(self, address: Address, *, durability: Durability, timeout: float) -> None:
        self.address = address
        self._settings = _settings(address.schema, durability, timeout)
        self._parameters = {**_DEFAULTS, **address.parameters, "client_encoding": "UTF8"}
        if "connect_timeout" not in address.parameters and "PGCONNECT_TIMEOUT" in os.environ:
            del self._parameters["connect_timeout"]
        self._timeout = min(timeout, threading.TIMEOUT_MAX / 2)
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._free = threading.Semaphore(MOST_CONNECTIONS)
        # The one used last is taken first: the server's process behind it has everything cached.
        self._idle: list[Connection] = []

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A block with a connection for the caller alone, in no transaction at its beginning or at its end."""
        self.check_open()
        if self._pid != os.getpid():
            # Dropped without a word to the server: libpq ends a session only in the process that began it.
            self._begin()
        pid, free = self._pid, self._free
        if not free.acquire(timeout=self._timeout):
            raise store_locked(
                self.address.shown,
                f"all {MOST_CONNECTIONS} connections of this process were in use for {self._timeout:g} s",
            )
        try:
            connection = self._take_idle() or self._open()
            try:
                yield connection
            except BaseException as error:
                if is_lost(error):
                    # A server that restarted has closed the others too.
                    self._close_idle()
                raise
            finally:
                if pid == os.getpid():
                    self._give_back(connection)
        finally:
            free.release()

    @contextmanager
    def dedicated(self) -> Iterator[Connection]:
        """A block with a new connection, which is closed at its end: for work that leaves something behind in it."""
        self.check_open()
        pid, connection = os.getpid(), self._open()
        try:
            yield connection
        finally:
            if pid == os.getpid():
                connection.close()

    def check_open(self) -> None:
        """Raise where the pool is closed."""
        if self._closed:
            raise store_closed(self.address.shown)

    def close(self) -> None:
        """Close what is idle now, and the rest when it is given back."""
        self._closed = True
        if self._pid == os.getpid():
            self._close_idle()

    def _take_idle(self) -> Connection | None:
        while self._idle:
            # Another thread may have taken the last one.
            with suppress(IndexError):
                connection = self._idle.pop()
                if _is_alive(connection):
                    return connection
                connection.close()
                self._close_idle()
        return None

    def _give_back(self, connection: Connection) -> None:
        if connection.pgconn.transaction_status in (
            pq.TransactionStatus.INTRANS,
            pq.TransactionStatus.INERROR,
        ):
            with suppress(psycopg.Error):
                connection.rollback()
        # A statement that was interrupted is still at work: its answer would be taken for that of the next one.
        if connection.pgconn.transaction_status == pq.TransactionStatus.IDLE and not self._closed:
            self._idle.append(connection)
        else:
            connection.close()

    def _close_idle(self) -> None:
        while self._idle:
            with suppress(IndexError):
                self._idle.pop().close()

    def _open(self) -> Connection:
        """A new connection; where the server cannot be reached, it is tried again until the time-out."""
        deadline, pause = time.monotonic() + self._timeout, _FIRST_PAUSE
        while True:
            made = self._attempt()
            if not isinstance(made, HoldfastError):
                return made
            if not is_passing(made) or time.monotonic() >= deadline:
                # Here and not in an except block: the driver's error carries the password.
                raise made
            # Where there are no more, it may be because this process has the last ones.
            self._close_idle()
            time.sleep(max(min(pause * random.uniform(0.5, 1.5), deadline - time.monotonic()), 0))  # noqa: S311
            self.check_open()
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _attempt(self) -> Connection | HoldfastError:
        connection: Connection | None = None
        try:
            connection = psycopg.Connection.connect(make_conninfo("", **self._parameters), autocommit=True)
            self._set_up(connection)
        # UnicodeError: a host that is no host name.
        except (psycopg.Error, UnicodeError) as error:
            if connection is None or is_lost(error):
                # Nothing was asked yet that could have taken effect.
                return connecting_failed(error, self.address)
            connection.close()
            return translate(error, self.address.shown) or connecting_failed(error, self.address)
        except HoldfastError as error:
            return error
        return connection

    def _set_up(self, connection: Connection) -> None:
        # psycopg warns of a connection that is collected while it is open, unless it has this, as those of a pool do.
        # A program may end, or forget a store, without closing it: its connections end with it.
        connection._pool = None  # noqa: SLF001
        info = connection.info
        check_server(info.server_version, info.parameter_status("server_encoding"), self.address.shown)
        wanted = {
            name: value for name, (since, value) in self._settings.items() if info.server_version >= since
        }
        connection.execute(_SET_UP, [json.dumps(wanted)])


def _is_alive(connection: Connection) -> bool:
    """Whether an idle connection can be used, without a round trip: the server speaks on one only to close it."""
    if connection.closed:
        return False
    number = connection.pgconn.socket
    if not hasattr(select, "poll"):
        return not select.select([number], [], [], 0)[0]
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return not poll.poll(0)


def _settings(schema: str, durability: Durability, timeout: float) -> dict[str, tuple[int, str]]:
    """What is set on a connection: the server version that has it, and the value."""
    # 0 would mean that there is no limit.
    milliseconds = 0 if math.isinf(timeout) else min(max(int(timeout * 1000), 1), _LONGEST_LOCK_TIMEOUT)
    return {
        # Limits that an administrator set for web requests would end a collection or a copy in the middle.
        "statement_timeout": (0, "0"),
        "idle_in_transaction_session_timeout": (0, "0"),
        "idle_session_timeout": (140_000, "0"),
        "transaction_timeout": (170_000, "0"),
        # Nobody else's tables, even where the role or the database names others.
        "search_path": (0, f"{schema}, pg_temp"),
        "default_transaction_isolation": (0, "read committed"),
        "synchronous_commit": (0, "on" if durability == "power" else "off"),
        "client_min_messages": (0, "error"),
        # Off, it would make the text NULL of a null: chunks without a base come in an array of them.
        "array_nulls": (0, "on"),
        "lock_timeout": (0, str(milliseconds)),
        # Compiling a statement that reads a few rows takes longer than running it.
        "jit": (0, "off"),
        **{name: (0, value) for name, value in PLANS.items()},
        # With those, one plan is as good for all parameters; making one for each commit takes a third of its time.
        "plan_cache_mode": (120_000, "force_generic_plan"),
    }
