"""One connection to the server: how it is opened, what is set on it, and whether the session behind it stays the same.

Everything is set and asked in one statement after the login, so that a connection costs one round trip beyond it. The
settings are not sent as start-up options: poolers refuse those or drop them without a word.

A pooler in transaction mode would give each transaction another session of the server, without our settings. It shows
itself: the process number that the login told is not that of the process that answers. Whether the pooler keeps the
session for us is then found out with a second connection, once; nothing is set on a session before that, because it
may be another client's next.

A pooler logs clients in by itself, and has the first statement wait until it has a session of the server for it: for
minutes, where the server is gone. So that statement is not waited for longer than a connection is.
"""

from __future__ import annotations

import json
import math
import os
import select
import time
from typing import Literal
from weakref import WeakSet

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo
from psycopg.errors import error_from_result
from psycopg.rows import TupleRow

from holdfast.backends.postgres.address import Address
from holdfast.backends.postgres.errors import (
    check_encoding,
    check_library,
    check_server,
    connecting_failed,
    is_lost,
    no_answer,
    too_many_connections,
    transaction_pooler,
    translate,
)
from holdfast.errors import HoldfastError

Durability = Literal["power", "process"]

_DEFAULTS = {
    # Half of what clients may take to go on after a server came back.
    "connect_timeout": "3",
    "fallback_application_name": "holdfast",
    # A server that vanished without a word is noticed after a minute, not after two hours.
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}

_SET_UP = b"""
SELECT pg_backend_pid(), (
    SELECT count(set_config(name, CASE
        -- Stronger than what we ask for: a commit also waits until standbys show it.
        WHEN name = 'synchronous_commit' AND value = 'on' AND current_setting(name) = 'remote_apply'
        THEN 'remote_apply' ELSE value END, false))
    FROM json_each_text($1) AS wanted (name, value)
    WHERE $2 IN (0, pg_backend_pid()))
"""
_PROCESS = b"SELECT pg_backend_pid()"

PLANS = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
"""Every statement is for a few rows, in the order of an index. Without statistics, or with old ones, the server takes
all ways for equally short, and keeps to one that leads through everything when the tables have grown."""

_ATTEMPTS = 10
"""At setting everything: the first statement of a session takes many times as long as the second."""

_LOOKS = 8
"""A pooler that changes sessions has mixed up two clients long before, even when others keep it busy."""

_LOOK_PATIENCE = 5.0
_LONGEST_LOCK_TIMEOUT = 2**31 - 1
_LONGEST_WAIT = 10 * 24 * 3600.0
"""Seconds that systems can wait for a socket at once."""


class Connected(psycopg.Connection[TupleRow]):
    """A connection that knows its age.

    Attributes:
        mark: What the names of statements that are kept on it end with. A pooler may hand on a session of the server
            with what another connection has prepared there.
        uses: How often statements were used on it, by name (`asking.py`).
        views: How many views it has had since it was opened, or since what the server kept of it was found to be gone.
        keeps_views: Whether the server keeps the statements of views.
        asked: How many questions were lined up on it (`lining_up.line_up`).
        answered: How many of those were answered.
        owes: Whether an answer is on its way that whoever takes it next has to take first (`asking.leave_commit`).
    """

    made_at = 0.0
    views = 0
    keeps_views = False
    owes = False
    asked = 0
    answered = 0
    mark: bytes
    uses: dict[bytes, int]

    @property
    def is_behind(self) -> bool:
        """Whether an answer to something that was lined up has not been taken."""
        return self.asked != self.answered

    def forget_kept(self) -> None:
        """Count on nothing that the server may have kept: what is kept from here on has other names."""
        self.mark, self.uses = os.urandom(8).hex().encode(), {}
        self.views, self.keeps_views = 0, False


class Connector:
    """Opens connections to one store.

    Attributes:
        address: Where it is.
        failure: When the last attempt failed and how, for those who wait for a connection that another thread opens;
            None after one that succeeded.
        connections: Those that may be open; a fork has to cut them off in the child.
    """

    def __init__(self, address: Address, *, durability: Durability, timeout: float) -> None:
        self.address = address
        self.failure: tuple[float, HoldfastError] | None = None
        self.connections: WeakSet[Connected] = WeakSet()
        self._settings = _settings(address.schema, durability, timeout)
        self._parameters = {**_DEFAULTS, **address.parameters, "client_encoding": "UTF8"}
        if "connect_timeout" not in address.parameters and "PGCONNECT_TIMEOUT" in os.environ:
            del self._parameters["connect_timeout"]
        self._session_pooler = False

    def __call__(self, deadline: float = math.inf) -> Connected:
        """A new connection, ready for use.

        Args:
            deadline: Until when a pooler may have us wait for a session of the server.

        Raises:
            HoldfastError: None could be made; the error has neither cause nor context, because the driver's error
                carries the password.
        """
        made = self._attempt(deadline)
        if isinstance(made, HoldfastError):
            self.failure = (time.monotonic(), made)
            raise made
        self.failure = None
        return made

    def _attempt(self, deadline: float) -> Connected | HoldfastError:
        try:
            connection = self._log_in()
        # UnicodeError: a host that is no host name.
        except (psycopg.Error, UnicodeError) as error:
            return connecting_failed(error, self.address)
        try:
            self._set_up(connection, deadline)
        except psycopg.Error as error:
            connection.close()
            if is_lost(error):
                # Nothing was asked yet that could have taken effect.
                return connecting_failed(error, self.address)
            return translate(error, self.address.shown) or connecting_failed(error, self.address)
        except HoldfastError as error:
            connection.close()
            return error
        except BaseException:
            connection.close()
            raise
        return connection

    def _log_in(self) -> Connected:
        connection = Connected.connect(make_conninfo("", **self._parameters), autocommit=True)
        connection.made_at = time.monotonic()
        connection.forget_kept()
        # psycopg warns of a connection that is collected while it is open, unless it has this, as those of a pool do. A
        # program may end, or forget a store, without closing it: its connections end with it.
        connection._pool = None  # noqa: SLF001
        self.connections.add(connection)
        return connection

    def _set_up(self, connection: Connected, deadline: float) -> None:
        check_library(pq.version())
        check_server(connection.info.server_version, self.address.shown)
        check_encoding(connection.info.parameter_status("server_encoding"), self.address.shown)
        told = connection.info.backend_pid
        if self._configure(connection, deadline, only_as=told) != told:
            self._check_pooler(connection)
            self._configure(connection, deadline, only_as=0)

    def _configure(self, connection: Connected, deadline: float, *, only_as: int) -> int:
        """Set everything, unless the session is not that of the process we expect; the process that answered."""
        version = connection.info.server_version
        wanted = {name: value for name, (since, value) in self._settings.items() if version >= since}
        left = _ATTEMPTS
        while True:
            left -= 1
            try:
                process = _asked(connection, deadline, _SET_UP, json.dumps(wanted), str(only_as))
            except psycopg.errors.QueryCanceled:
                # A limit of the role, which this is about to lift. Each time the server has more of it at hand.
                if not left:
                    raise
            else:
                if process is None:
                    raise no_answer(self.address.shown)
                return process

    def _check_pooler(self, connection: Connected) -> None:
        if self._session_pooler:
            return
        other = self._log_in()
        try:
            if _changes_sessions(connection, other, self.address.shown):
                raise transaction_pooler(self.address.shown)
        finally:
            other.close()
        self._session_pooler = True


def cut_off(connection: Connected, dead: int) -> None:
    """In a forked child: part a connection of the parent from its socket, without a word to the server.

    Args:
        connection: Of the parent; it is closed for this process.
        dead: A socket whose other end is closed. It takes the place of the real one, so that not even libpq's farewell
            or that of TLS can reach the parent's session.
    """
    if connection.closed:
        return
    os.dup2(dead, connection.pgconn.socket, inheritable=False)
    connection.close()


def is_quiet(connection: Connected) -> bool:
    """Whether an idle connection has nothing to say. One that has was closed by the server, or is about to be.

    No message goes to the server: this looks at the socket only, which costs about a microsecond.
    """
    if connection.closed:
        return False
    return not _has_come(connection, 0)


def _settings(schema: str, durability: Durability, timeout: float) -> dict[str, tuple[int, str]]:
    """What is set on a connection: the server version that has it, and the value."""
    # 0 would mean that there is no limit.
    milliseconds = 0 if math.isinf(timeout) else min(max(int(timeout * 1000), 1), _LONGEST_LOCK_TIMEOUT)
    return {
        # Nobody else's tables, even where the role or the database names others.
        "search_path": (0, f"{schema}, pg_temp"),
        "default_transaction_isolation": (0, "read committed"),
        "synchronous_commit": (0, "on" if durability == "power" else "off"),
        "client_min_messages": (0, "error"),
        # Off, it would make the text NULL of a null: chunks without a base come in an array of them.
        "array_nulls": (0, "on"),
        "lock_timeout": (0, str(milliseconds)),
        # Limits that an administrator set for web requests would end a collection or a copy in the middle.
        "statement_timeout": (0, "0"),
        "idle_in_transaction_session_timeout": (0, "0"),
        "idle_session_timeout": (140_000, "0"),
        "transaction_timeout": (170_000, "0"),
        # Compiling a statement that reads a few rows takes longer than running it.
        "jit": (0, "off"),
        **{name: (0, value) for name, value in PLANS.items()},
        # With those, one plan is as good for all parameters; making one for each commit takes a third of its time.
        "plan_cache_mode": (120_000, "force_generic_plan"),
    }


def _changes_sessions(one: Connected, other: Connected, url: str) -> bool:
    """Whether two connections that are open at once share sessions of the server, or change them."""
    seen: list[set[int]] = [set(), set()]
    for _ in range(_LOOKS):
        for connection, processes in zip((one, other), seen, strict=True):
            process = _asked(connection, time.monotonic() + _LOOK_PATIENCE, _PROCESS)
            if process is None:
                raise too_many_connections(url, "the pooler has no second one")
            processes.add(process)
        if len(seen[0] | seen[1]) != 2 or seen[0] & seen[1]:
            return True
    return False


def _asked(connection: Connected, deadline: float, statement: bytes, *values: str) -> int | None:
    """The number that a statement gives; None where a pooler lets us wait for it until the deadline."""
    pgconn = connection.pgconn
    pgconn.send_query_params(statement, [value.encode() for value in values])
    pgconn.flush()
    while pgconn.is_busy():
        if not _has_come(connection, max(deadline - time.monotonic(), 0)):
            return None
        pgconn.consume_input()
    # All of them, also of one that is refused: else the next statement could not be sent.
    results = list(iter(pgconn.get_result, None))
    if not results:
        raise psycopg.OperationalError("the server gave no answer")
    # Where a connection breaks there may be two: what was said before, and that it broke.
    result = results[0]
    if result.status != pq.ExecStatus.TUPLES_OK:
        error = error_from_result(result)
        # The server always gives a code: without one these are libpq's words for a connection that broke.
        raise error if error.sqlstate is not None else psycopg.OperationalError(str(error))
    return int(result.get_value(0, 0) or 0)


def _has_come(connection: Connected, seconds: float) -> bool:
    """Whether something comes from the server within so many seconds."""
    socket = connection.pgconn.socket
    if not hasattr(select, "poll"):
        return bool(select.select([socket], [], [], min(seconds, _LONGEST_WAIT))[0])
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(min(seconds, _LONGEST_WAIT) * 1000))
