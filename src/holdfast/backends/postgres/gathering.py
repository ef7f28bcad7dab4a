"""Appends of several threads that go to the server together.

A trip to the server costs both sides something, whatever is in it: two switches of processes, a transaction, a flush of
the log. Where many threads save at once that is a third of the server's time. So an append that comes while another
one is under way waits for its end, and then goes with all that came meanwhile: one trip, one transaction, one flush.
The thread that waited longest takes them along; no thread works in the background.

Waiting pays where trips take long because too much is to be done at once. Where they take long because the server is
far away or its disk is slow, who waits for another's trip loses the time of one and gains nothing. `Pace` tells them
apart.

A group is all or nothing. After one that was refused everybody goes alone: what is wrong with one of them is found
there, and the others were not to blame. After one whose outcome is unknown everybody does what is done after any such
commit: the ids tell. A session is in a group once, and groups take sessions in the order of their numbers, so that two
of them do not wait for each other. A session that somebody else has locked for long is not waited for here.

Ctrl-C comes to the main thread alone, and that thread always goes alone. What is interrupted in any other way leaves
nobody waiting.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from operator import attrgetter
from typing import Final

import psycopg
from psycopg import pq

from holdfast.backends.postgres.appending import APPEND, Appending
from holdfast.backends.postgres.asking import Statement
from holdfast.backends.postgres.errors import is_lost
from holdfast.backends.postgres.pooling import Pool
from holdfast.errors import HoldfastError

_MOST: Final = 16
"""Appends in one group: who waits does not wait for many others."""
_LARGEST: Final = 128 << 10
"""Bytes of a chunk; with a larger one, an append takes its time, and goes alone."""
_PATIENCE = 0.25
"""Seconds that somebody waits for a trip under way, which another process may hold up by a lock."""
_LIMIT_WAITS: Final = Statement(
    "limit_waits", f"SELECT set_config('lock_timeout', '{_PATIENCE * 1000:.0f}', true)"
)
"""A group waits no longer for such a lock; in its transaction alone."""

_WINDOW: Final = 30.0
"""Seconds for which the quickest trip is the measure of others, and for as long again."""
_SLOW: Final = 2.0
_WEIGHT: Final = 1 / 8
"""Of the newest trip, in what is usual."""


class Pace:
    """Whether trips take longer than they could: there is more to do than is done at once, somewhere."""

    def __init__(self) -> None:
        self._quickest = self._quickest_before = self._usual = 0.0
        self._until = 0.0

    @property
    def is_slow(self) -> bool:
        """Whether the last trips took more than twice as long as the quickest."""
        quickest = min(self._quickest or self._quickest_before, self._quickest_before or self._quickest)
        return self._usual > _SLOW * quickest

    def note(self, seconds: float, count: int) -> None:
        """One trip of a group of so many."""
        now = time.monotonic()
        if now > self._until:
            # A server may have moved: what was quick there is no measure for ever.
            self._quickest, self._quickest_before = 0.0, self._quickest or self._quickest_before
            self._until = now + _WINDOW
        if count == 1:
            self._quickest = min(seconds, self._quickest or seconds)
        # Each one more takes about half of what one alone takes.
        alone = seconds * 2 / (1 + count)
        self._usual += _WEIGHT * (alone - self._usual) if self._usual else alone


class _Waiting:
    """An append of a thread that waits for what becomes of it."""

    __slots__ = ("appending", "error", "leads", "number", "reply", "wake")

    def __init__(self, appending: Appending) -> None:
        self.appending = appending
        self.number = appending.number
        self.reply: pq.abc.PGresult | None = None
        self.error: psycopg.Error | None = None
        self.leads = False
        """Whether it is to take the others along."""
        # Held until there is something to wake up for.
        self.wake = threading.Lock()
        self.wake.acquire()


class Gathering:
    """The appends of one backend."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.pace = Pace()
        # Held for a few steps, never while anything is waited for. Reentrant: what is collected as garbage just then
        # may save something.
        self._lock = threading.RLock()
        self._waiting: deque[_Waiting] = deque()
        self._leading = 0
        """Groups under way."""

    def takes(self, size_bytes: int) -> bool:
        """Whether an append with so many bytes may come, from this thread."""
        return size_bytes <= _LARGEST and threading.current_thread() is not threading.main_thread()

    def send(self, appending: Appending) -> pq.abc.PGresult | None:
        """The answer of the server; None where it has to go alone, because nothing was done.

        Raises:
            psycopg.Error: It went alone and was refused; or the connection broke, and nobody knows what was done.
            HoldfastError: There is no connection.
        """
        mine = _Waiting(appending)
        with self._lock:
            mine.leads = not self._leading or not self.pace.is_slow
            if mine.leads:
                self._leading += 1
            else:
                self._waiting.append(mine)
        if not mine.leads:
            self._wait(mine)
        if mine.leads:
            self._lead(mine)
        if mine.error is not None:
            raise mine.error
        return mine.reply

    def _wait(self, mine: _Waiting) -> None:
        try:
            if not mine.wake.acquire(timeout=_PATIENCE) and not self._goes_first(mine):
                # On the way already.
                mine.wake.acquire()
        except BaseException:
            # Nobody may be left to a leader that goes.
            with self._lock:
                if mine in self._waiting:
                    self._waiting.remove(mine)
                elif mine.leads:
                    self._hand_over()
            raise

    def _goes_first(self, mine: _Waiting) -> bool:
        """Have one who waits lead now, beside the trip that is under way; False where it waits no longer."""
        with self._lock:
            if mine not in self._waiting:
                return False
            self._waiting.remove(mine)
            self._leading += 1
            mine.leads = True
            return True

    def _hand_over(self) -> None:
        """Have the one who waited longest lead the next group."""
        with self._lock:
            if not self._waiting:
                self._leading -= 1
                return
            following = self._waiting.popleft()
            following.leads = True
        following.wake.release()

    def _lead(self, mine: _Waiting) -> None:
        others: list[_Waiting] = []
        try:
            with self._lock:
                while self._waiting and len(others) < _MOST - 1:
                    others.append(self._waiting.popleft())
            self._carry(mine, others)
        except HoldfastError:
            # No connection. The others find that out for themselves, or have better luck.
            raise
        except BaseException:
            # Out of memory, or a thread that another one interrupts: nobody knows how far it came.
            for each in others:
                each.error = psycopg.OperationalError("the thread that carried this commit was interrupted")
            raise
        finally:
            # The next group first: it need not wait until these have gone on.
            self._hand_over()
            for each in others:
                each.wake.release()

    def _carry(self, mine: _Waiting, others: list[_Waiting]) -> None:
        group = sorted([mine, *others], key=attrgetter("number"))
        try:
            with self._pool.connection() as connection:
                began = time.perf_counter()
                sent = [each.appending.sent for each in group]
                if others:
                    replies = APPEND.execute_each(connection, _LIMIT_WAITS, sent)
                else:
                    replies = [APPEND.execute_sent(connection, *sent)]
                self.pace.note(time.perf_counter() - began, len(group))
        except psycopg.Error as error:
            if not others:
                mine.error = error
            elif is_lost(error):
                for each in group:
                    # One for each: it is raised in several threads.
                    each.error = psycopg.OperationalError(str(error))
        else:
            for each, reply in zip(group, replies, strict=True):
                each.reply = reply
