"""Waiting for checkpoints of others, by looking every moment.

Positions are given while a commit is under way, so that a lower one may become visible after a higher one. What is told
to somebody who waits has *settled*: no position up to it can still arrive. Whoever takes a position holds the writers'
lock, shared, until the commit is visible. So the last position that was given has settled as soon as none of those who
held the lock just then is left; whoever comes later gets a higher one. A notification of the server would wake sooner,
and would say neither.
"""

from __future__ import annotations

import threading
import time
from typing import Final

from holdfast.backends.postgres.connection import Connection, Pool
from holdfast.backends.postgres.errors import is_lost, store_locked, translated
from holdfast.errors import ErrorCode, HoldfastError, UnsupportedError

_FIRST_PAUSE: Final = 0.001
_LONGEST_PAUSE: Final = 0.1
"""Seconds between two looks: short after something came, because more often follows; at most this."""
_SETTLING: Final = 10.0
"""Seconds that somebody who begins to watch gives the commits that are under way: without a place to begin, none of
what comes next could be told from what was there before."""

_NEWEST: Final = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END, pg_is_in_recovery() FROM positions"
_HAS_ANY: Final = "SELECT EXISTS (SELECT 1 FROM checkpoints WHERE position > %s AND position <= %s)"
# An advisory lock of two numbers; pg_locks shows both as unsigned ones.
_WRITERS: Final = (
    "SELECT virtualtransaction FROM pg_locks, writers_lock() AS l WHERE locktype = 'advisory' AND objsubid = 2 "
    "AND classid = l.class::bigint::oid AND objid = (l.object::bigint & 4294967295)::oid "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND mode = 'ShareLock' AND granted"
)


class Watcher:
    """All who wait in this process: one looks at a time, and what has settled is told to all."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._url = pool.address.shown
        self._looking = threading.Lock()
        self._settled = 0
        self._unsettled: tuple[int, set[str]] | None = None

    def wait(self, after: int, timeout: float) -> int:
        """See `Backend.wait_for_checkpoint`. What is returned has settled."""
        deadline, pause = time.monotonic() + timeout, _FIRST_PAUSE
        while True:
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
            if left <= -_SETTLING:
                raise store_locked(self._url, f"commits have been under way for more than {_SETTLING:g} s")
            time.sleep(min(pause, left) if left > 0 else pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _look(self, after: int) -> tuple[int, bool, bool]:
        """The highest position that has settled, whether a checkpoint came up to it, and whether it is the last one."""
        with self._looking, self._pool.connection() as connection, translated(self._url):
            self._settle(connection)
            settled = self._settled
            ((has_come,),) = connection.execute(_HAS_ANY, [after, settled]).fetchall()
            return settled, has_come, self._unsettled is None

    def _settle(self, connection: Connection) -> None:
        # First the position, then who is under way: whoever got one up to it holds the lock, or has arrived.
        ((newest, is_standby),) = connection.execute(_NEWEST).fetchall()
        if is_standby:
            raise UnsupportedError(
                f"{self._url} is a standby, where new checkpoints cannot be waited for without missing some",
                code=ErrorCode.NOT_SUPPORTED,
                hint="watch on the primary: name all servers in the URL, with target_session_attrs=read-write",
                url=self._url,
            )
        if self._unsettled is None and newest <= self._settled:
            # Lower, where the store was brought back from a copy.
            self._settled = newest
            return
        writers = {name for (name,) in connection.execute(_WRITERS).fetchall()}
        if self._unsettled is not None:
            # Going on with an old look, because among steady writers a new one always finds somebody.
            newest, waited_for = self._unsettled
            writers &= waited_for
        if writers:
            self._unsettled = newest, writers
        else:
            self._settled, self._unsettled = newest, None
