"""Appends of several threads that go to the server together.

A trip to the server costs both sides something, whatever is in it: two switches of processes, a transaction, a flush of
the log. Where many threads save at once that is a third of the server's time. So an append that comes while another
one is under way waits for its end, and then goes with all that came meanwhile: one trip, one transaction, one flush.
The thread that waited longest takes them along; no thread works in the background.

Waiting pays where trips take long because far more is to be done than is done at once. Where they take long because the
server is far away or its disk is slow, who waits for another's trip loses the time of one and gains nothing. `Pace`
tells them apart. Without a flush for each commit a trip is so short that there is nothing to gain.

A group is all or nothing. After one that was refused everybody goes alone: what is wrong with one of them is found
there, and the others were not to blame. After one whose outcome is unknown everybody does what is done after any such
commit: the ids tell. Groups write chunks in the order of their names, so that two of them with equal chunks do not wait
for each other. A session or a chunk that somebody else has locked is not waited for here.

Ctrl-C comes to the main thread alone, and that thread always goes alone. Any other one may be interrupted between any
two steps, by one that raises something in it. So nothing is counted, nobody waits without a limit, and who was left by
a thread that went away goes alone. Or what is collected as garbage just then may save something, between any two steps
as well. So there is no lock: each step by which one is taken along or called is one step for Python, too.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import suppress
from typing import Final

import psycopg
from psycopg import pq

from holdfast.backends.chunk_rows import PackedChunk
from holdfast.backends.postgres.appending import APPEND, Appending
from holdfast.backends.postgres.asking import Statement
from holdfast.backends.postgres.connecting import Connected
from holdfast.backends.postgres.errors import is_lost
from holdfast.backends.postgres.pooling import Pool

_MOST: Final = 16
"""Appends in one group: who waits does not wait for many others."""
_LARGEST: Final = 128 << 10
"""Bytes to be sent of a chunk; with a larger one, an append takes its time, and goes alone."""
_PATIENCE: Final = 0.25
"""Seconds that somebody waits for a trip under way, which a lock of another process or the network may hold up. One
that has taken longer is not waited for at all: else everybody would wait so long with each save."""
_LIMIT_WAITS: Final = Statement("limit_waits", "SELECT set_config('lock_timeout', '50', true)")
"""Milliseconds that a group waits for each such lock, in its transaction alone."""

_WINDOW: Final = 30.0
"""Seconds for which the quickest trip is the measure of others, and for as long again."""
_TRIPS: Final = 32
"""So many are looked at: a few that were held up say nothing."""
_SLOW: Final = 5.0
_SLOW_STILL: Final = 1.5
"""Times the quickest: where waiting begins to pay, and where it ends. Between them things stay as they are."""
_CROWD: Final = 4
"""Threads among those of the last appends. Of two, each would wait for the other and then go alone."""


class Pace:
    """Whether trips take far longer than they could: there is more to do than is done at once, somewhere.

    Times of a server that is far away differ too, as do those of threads that wait for Python's lock; both by less.
    """

    def __init__(self) -> None:
        self.is_slow = False
        self._last: deque[float] = deque(maxlen=_TRIPS)
        self._quickest = self._quickest_before = 0.0
        self._until = 0.0

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
        self._last.append(seconds * 2 / (1 + count))
        quickest = min(self._quickest or self._quickest_before, self._quickest_before or self._quickest)
        usual = sorted(self._last)[len(self._last) // 2]
        self.is_slow = usual > (_SLOW_STILL if self.is_slow else _SLOW) * quickest


class _Trip:
    """A group on its way."""

    __slots__ = ("began", "is_over")

    def __init__(self) -> None:
        self.began = 0.0
        self.is_over = False


class _Waiting:
    """An append of a thread that waits for what becomes of it."""

    __slots__ = ("_goes", "appending", "error", "is_settled", "reply", "wake")

    def __init__(self, appending: Appending) -> None:
        self.appending = appending
        self._goes: dict[str, _Trip] = {}
        self.reply: pq.abc.PGresult | None = None
        self.error: psycopg.Error | None = None
        self.is_settled = False
        """Whether the trip said what came of it."""
        # Held until there is something to wake up for.
        self.wake = threading.Lock()
        self.wake.acquire()

    @property
    def is_gone(self) -> bool:
        """Whether it is on a trip, or was."""
        return bool(self._goes)

    def goes_with(self, trip: _Trip) -> _Trip:
        """The trip that it is on: this one, unless it was on another before."""
        # One step for Python: of two who want it one has it.
        return self._goes.setdefault("with", trip)

    def wake_up(self) -> None:
        """Have it look what there is for it; once."""
        self.wake.release()

    def outcome(self) -> pq.abc.PGresult | None:
        """See `Gathering.send`."""
        if not self.is_settled:
            raise psycopg.OperationalError("the thread that carried this commit was interrupted")
        if self.error is not None:
            raise self.error
        return self.reply


class Gathering:
    """The appends of one backend.

    Args:
        pool: Where connections come from.
        flushes: Whether the server flushes its log for each commit.
    """

    def __init__(self, pool: Pool, *, flushes: bool) -> None:
        self._pool = pool
        self._flushes = flushes
        self.pace = Pace()
        self._waiting: deque[_Waiting] = deque()
        self._threads: deque[int] = deque(maxlen=_TRIPS)
        # The last ones, under way or over.
        self._trips: deque[_Trip] = deque(maxlen=_TRIPS)

    def takes(self, chunk: PackedChunk) -> bool:
        """Whether an append of this chunk may come, from this thread."""
        return (
            self._flushes
            and len(chunk.data or b"") <= _LARGEST
            and threading.current_thread() is not threading.main_thread()
        )

    def send(self, appending: Appending) -> pq.abc.PGresult | None:
        """The answer of the server; None where it has to go alone, because nothing was done.

        Raises:
            psycopg.Error: It went alone and was refused; or the connection broke, and nobody knows what was done.
            HoldfastError: There is no connection.
        """
        mine, trip = _Waiting(appending), _Trip()
        try:
            self._threads.append(threading.get_ident())
            if not self._is_crowded() or self._is_to_lead(mine, trip):
                self._lead(mine, trip)
        finally:
            # Whatever came: nobody waits for a trip that was not made, or takes along one who has gone.
            trip.is_over = True
            self._leave(mine)
        return mine.outcome()

    def _is_crowded(self) -> bool:
        return self.pace.is_slow and len(set(self._threads)) >= _CROWD

    def _is_to_lead(self, mine: _Waiting, trip: _Trip) -> bool:
        """Wait for a trip under way; whether it is to make one, because it was called or has waited long enough."""
        self._waiting.append(mine)
        # Looked at after that: a trip that ends from here on finds it.
        patience = _PATIENCE if self._is_any_under_way() else 0.0
        while True:
            is_awake = mine.wake.acquire(timeout=patience)
            carried_by = mine.goes_with(trip)
            if carried_by is trip:
                self._leave(mine)
                return True
            # Over, and nobody woke it: the thread that carried it has gone without a word.
            if is_awake or carried_by.is_over:
                return False
            patience = _PATIENCE

    def _is_any_under_way(self) -> bool:
        long_ago = time.monotonic() - _PATIENCE
        return any(not each.is_over and each.began > long_ago for each in list(self._trips))

    def _leave(self, mine: _Waiting) -> None:
        with suppress(ValueError):
            self._waiting.remove(mine)

    def _lead(self, mine: _Waiting, trip: _Trip) -> None:
        others: list[_Waiting] = []
        trip.began = time.monotonic()
        self._trips.append(trip)
        try:
            with self._pool.connection() as connection:
                # Not before: nobody else is to wait for a connection that does not come.
                self._take_along(others, trip)
                self._carry(connection, mine, others)
        except psycopg.Error as error:
            _settle_without(error, mine, others)
        finally:
            trip.is_over = True
            # The next group first: it need not wait until these have gone on.
            self._call_next()
            for each in others:
                each.wake_up()

    def _take_along(self, others: list[_Waiting], trip: _Trip) -> None:
        with suppress(IndexError):
            while len(others) < _MOST - 1:
                each = self._waiting.popleft()
                if each.goes_with(trip) is trip:
                    others.append(each)

    def _call_next(self) -> None:
        """Have the one who waited longest lead the next group."""
        with suppress(IndexError):
            while (following := self._waiting.popleft()).is_gone:
                pass
            following.wake_up()

    def _carry(self, connection: Connected, mine: _Waiting, others: list[_Waiting]) -> None:
        group = sorted([mine, *others], key=_chunk_of)
        sent = [each.appending.sent for each in group]
        began = time.perf_counter()
        if others:
            replies = APPEND.execute_each(connection, _LIMIT_WAITS, sent)
        else:
            replies = [APPEND.execute_sent(connection, *sent)]
        took = time.perf_counter() - began
        for each, reply in zip(group, replies, strict=True):
            each.reply, each.is_settled = reply, True
        self.pace.note(took, len(group))


def _chunk_of(each: _Waiting) -> bytes:
    return each.appending.chunk


def _settle_without(error: psycopg.Error, mine: _Waiting, others: list[_Waiting]) -> None:
    """Say what came of a group that was refused or lost: nothing, as far as is known."""
    for each in others:
        # Lost, each needs one of its own: it is raised in several threads.
        each.error = psycopg.OperationalError(str(error)) if is_lost(error) else None
        each.is_settled = True
    # One that went alone is to blame for it; in a group nobody knows who is.
    mine.error = error if is_lost(error) or not others else None
    mine.is_settled = True
