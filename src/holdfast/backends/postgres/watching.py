"""Waiting for checkpoints of others.

Positions are given while a commit is under way, so that a lower one may become visible after a higher one. What is told
to somebody who waits has *settled*: no position up to it can still arrive. Whoever takes a position holds the writers'
lock, shared, until the commit is visible. So the last position that was given has settled as soon as none of those who
hold the lock just then is left; whoever comes later gets a higher one.

Each who waits looks for himself now and then. A thread listens for the notifications of writers to wake them earlier;
as long as it does, it tells the writers so in the table of counters, because a notification takes a lock that all
commits of a server share, and nobody is to pay for it in vain. A writer that began before it was told notifies nobody:
so those who wait are woken when the sign is given, and once more when the last such writer is done. The thread ends by
itself when nobody has waited for a while, and wakes whoever has come meanwhile.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, LiteralString
from weakref import WeakSet

import psycopg
from psycopg import sql

from holdfast.backends.postgres.address import Address
from holdfast.backends.postgres.connecting import Connected
from holdfast.backends.postgres.errors import is_lost, store_locked, translated
from holdfast.backends.postgres.pooling import Pool
from holdfast.backends.postgres.read import NEWEST_POSITION
from holdfast.backends.rows import Row
from holdfast.backends.rules import store_closed
from holdfast.errors import ErrorCode, HoldfastError, UnsupportedError

_LOOK_EVERY: Final = 0.5
"""Seconds between two looks of one who is not woken."""
_FIRST_PAUSE: Final = 0.001
_LONGEST_PAUSE: Final = 0.05
"""Between two looks whether commits that were under way have ended; most take a few milliseconds."""
_SETTLING: Final = 10.0
"""Seconds that somebody who begins to watch gives the commits that are under way: without a place to begin, none of
what comes next could be told from what was there before."""
_SIGN_EVERY: Final = 10.0
_SIGN_LASTS: Final = 30
"""Seconds: writers go on for so long to notify somebody who died."""
_IDLE_FOR: Final = 30.0
"""Seconds after which a connection that nobody needs is closed, or one that could not be had is tried again."""
_FAREWELL: Final = 1.0
"""How many seconds `close` waits for a thread that is just connecting; it ends by itself all the same."""

_HAS_ANY = "SELECT EXISTS (SELECT 1 FROM checkpoints WHERE position > %s AND position <= %s)"
# An advisory lock of two numbers; pg_locks shows both as unsigned ones.
_WRITERS = (
    "SELECT virtualtransaction FROM pg_locks, writers_lock() AS l WHERE locktype = 'advisory' AND objsubid = 2 "
    "AND classid = l.class::bigint::oid AND objid = (l.object::bigint & 4294967295)::oid "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND mode = 'ShareLock' AND granted"
)
# For whoever looks at the server: the connection that listens is told from those that look by its last statement.
_UNTOLD = f"/* listening */ {_WRITERS}"
_SIGN = (
    "INSERT INTO counters (name, value) "  # noqa: S608 - constants
    f"VALUES ('watched_until', extract(epoch FROM clock_timestamp())::bigint + {_SIGN_LASTS}) "
    "ON CONFLICT (name) DO UPDATE SET value = greatest(counters.value, excluded.value)"
)


class Watcher:
    """All who wait in this process.

    Args:
        pool: Where connections come from.
        address: Of the store.
    """

    def __init__(self, pool: Pool, address: Address) -> None:
        self._pool = pool
        self._url = address.shown
        self._channel = sql.Identifier(f"holdfast:{address.schema}")
        # One look at a time: the others learn from it.
        self._looking = threading.Lock()
        self._primaries: WeakSet[Connected] = WeakSet()
        self._settled = 0
        self._unsettled: tuple[int, set[str]] | None = None
        self._changed = threading.Condition()
        self._heard = 0
        self._ear: Ear | None = None
        self._deaf_until = 0.0
        self._closed = False

    def wait(self, after: int, timeout: float) -> int:
        """See `Backend.wait_for_checkpoint`. What is returned has settled."""
        deadline = time.monotonic() + timeout
        pause = _FIRST_PAUSE
        while True:
            self._check_open()
            heard = self._heard
            try:
                settled, has_come, all_settled = self._look(after)
            except HoldfastError as error:
                # The pool has given up the lost connection, and the next look gets another.
                if not is_lost(error) or time.monotonic() >= deadline:
                    raise
                continue
            left = deadline - time.monotonic()
            if has_come or (left <= 0 and (all_settled or after >= 0)):
                return settled
            if all_settled:
                self._sleep(heard, min(left, _LOOK_EVERY))
                continue
            if left <= -_SETTLING:
                raise store_locked(self._url, f"commits have been under way for more than {_SETTLING:g} s")
            time.sleep(min(pause, left) if left > 0 else pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def notify(self) -> None:
        """Wake those who wait, in whatever process; after a commit that was told that there are some."""
        # A transaction of its own that waits for no disk: if it is lost, those who wait look for themselves.
        statement = sql.SQL("BEGIN; SET LOCAL synchronous_commit = off; NOTIFY {}; COMMIT").format(
            self._channel
        )
        # The commit has taken place, and its caller must not be told otherwise.
        with suppress(HoldfastError), self._pool.connection() as connection, translated(self._url):
            connection.execute(statement, prepare=False)

    def close(self) -> None:
        """Wake all who wait, to hear that the store is closed, and end listening."""
        with self._changed:
            self._closed = True
            ear, self._ear = self._ear, None
            self._changed.notify_all()
        if ear is not None:
            ear.stop()

    def _check_open(self) -> None:
        if self._closed:
            raise store_closed(self._url)
        self._pool.check_open()

    def _look(self, after: int) -> tuple[int, bool, bool]:
        """The highest position that has settled, whether a checkpoint came up to it, and whether it is the last one."""
        with self._looking, self._pool.connection() as connection, translated(self._url):
            self._check_primary(connection)
            self._settle(connection)
            settled = self._settled
            has_come = settled > after and _ask(connection, _HAS_ANY, after, settled)[0][0]
            return settled, has_come, self._unsettled is None

    def _check_primary(self, connection: Connected) -> None:
        """Refuse a standby: there the sequence runs ahead of the commits, and the locks of writers are not seen."""
        # A primary does not become a standby while a connection to it lives. The other way round it happens.
        if connection in self._primaries:
            return
        ((is_standby,),) = _ask(connection, "SELECT pg_is_in_recovery()")
        if is_standby:
            raise UnsupportedError(
                f"{self._url} is a standby, where new checkpoints cannot be waited for without missing some",
                code=ErrorCode.NOT_SUPPORTED,
                hint="watch on the primary: name all servers in the URL, with target_session_attrs=read-write",
                url=self._url,
            )
        self._primaries.add(connection)

    def _settle(self, connection: Connected) -> None:
        if self._unsettled is None:
            # First the position, then who is under way: whoever got one up to it holds the lock, or has arrived.
            ((newest,),) = _ask(connection, NEWEST_POSITION)
            if newest <= self._settled:
                # Lower, where the store was brought back from a copy.
                self._settled = newest
                return
            waited_for = _writers(connection)
        else:
            # Going on with an old look, because among steady writers a new one always finds somebody.
            newest, waited_for = self._unsettled
            waited_for &= _writers(connection)
        if waited_for:
            self._unsettled = newest, waited_for
        else:
            self._settled, self._unsettled = newest, None

    def _sleep(self, heard: int, seconds: float) -> None:
        with self._changed:
            self._listen()
            self._changed.wait_for(lambda: self._heard != heard or self._closed, seconds)

    def _listen(self) -> None:
        """Have a thread that listens, unless that failed a moment ago."""
        now = time.monotonic()
        if self._ear is not None:
            self._ear.needed_at = now
        elif not self._closed and now >= self._deaf_until:
            self._ear = Ear(self._pool, self._channel, self._hear, self._lose)
            self._ear.start()

    def _hear(self) -> None:
        with self._changed:
            self._heard += 1
            self._changed.notify_all()

    def _lose(self, ear: Ear, *, for_good: bool) -> None:
        with self._changed:
            if self._ear is ear:
                self._ear = None
                self._deaf_until = time.monotonic() + (_IDLE_FOR if for_good else 0.0)
                if ear.has_listened:
                    # Who relied on it looks, and has another. Where one could not even begin, the next fares no better.
                    self._heard += 1
                    self._changed.notify_all()


class Ear:
    """A thread that listens on a connection of its own, until it is stopped or nobody needs it any more.

    Args:
        pool: Where the connection comes from.
        channel: What to listen to.
        heard: Called for each notification.
        ended: Called at the end, with this object; `for_good` says that it cannot work here.
    """

    def __init__(
        self, pool: Pool, channel: sql.Identifier, heard: Callable[[], None], ended: Callable[..., None]
    ) -> None:
        self.needed_at = time.monotonic()
        """When somebody last waited for it."""
        self.has_listened = False
        """Whether the writers were told of it."""
        self._pool = pool
        self._channel = channel
        self._heard = heard
        self._ended = ended
        self._stopping = False
        # Something to wait for beside the connection; a pipe, but Windows waits for sockets only.
        self._stopped, self._stop = socket.socketpair()
        # A program that ends does not wait for it.
        self._thread = threading.Thread(target=self._run, name="holdfast-watching", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End it, and wait for that if it is only listening."""
        self._stopping = True
        with suppress(OSError):
            # It may have ended by itself, and closed the socket.
            self._stop.send(b".")
        self._thread.join(_FAREWELL)

    def _run(self) -> None:
        for_good = False
        try:
            with self._pool.dedicated() as connection:
                self._listen(connection)
        except (HoldfastError, psycopg.Error) as error:
            # A server that went away comes back. Where the role may not write, it goes no better the next time. Either
            # way those who wait look for themselves.
            gone = isinstance(error, HoldfastError) and error.code is ErrorCode.SERVER_GONE
            for_good = not gone and not is_lost(error)
        finally:
            self._stopped.close()
            self._stop.close()
            self._ended(self, for_good=for_good)

    def _listen(self, connection: Connected) -> None:
        # Some come while a statement runs, the others while nothing does.
        connection.add_notify_handler(lambda _: self._heard())
        connection.execute("SET synchronous_commit = off")
        connection.execute(sql.SQL("LISTEN {}").format(self._channel))
        signed_at = time.monotonic() - _SIGN_EVERY
        with selectors.DefaultSelector() as selector:
            selector.register(connection.fileno(), selectors.EVENT_READ)
            selector.register(self._stopped, selectors.EVENT_READ)
            untold: set[str] = set()
            pause = _FIRST_PAUSE
            while not self._stopping and time.monotonic() < self.needed_at + _IDLE_FOR:
                if time.monotonic() >= signed_at + _SIGN_EVERY:
                    connection.execute(_SIGN)
                    signed_at = time.monotonic()
                    self.has_listened = True
                    # First who is under way: whoever did not see the sign is among them, or has arrived.
                    untold, pause = _writers(connection, _UNTOLD), _FIRST_PAUSE
                    self._heard()
                elif untold:
                    untold &= _writers(connection, _UNTOLD)
                    pause = min(2 * pause, _LONGEST_PAUSE)
                    if not untold:
                        self._heard()
                selector.select(pause if untold else _SIGN_EVERY)
                connection.pgconn.consume_input()
                while connection.pgconn.notifies() is not None:
                    self._heard()


def _ask(connection: Connected, statement: LiteralString, *parameters: object) -> list[Row]:
    return connection.execute(statement, parameters, binary=True).fetchall()


def _writers(connection: Connected, question: LiteralString = _WRITERS) -> set[str]:
    """The transactions that hold the writers' lock."""
    return {name for (name,) in _ask(connection, question)}
