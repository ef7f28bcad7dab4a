"""Turns: writers that lost a round on one session go on one after the other.

Whoever holds a turn needs a connection for it beside the one that it works with. The turns have a few of their own:
with the same pool, as many holders as there are connections would wait for each other for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

from holdfast.backends.postgres.address import Address
from holdfast.backends.postgres.connection import Connection, Durability, Pool
from holdfast.backends.postgres.errors import translated
from holdfast.backends.postgres.locks import LOCK_CLASS
from holdfast.errors import HoldfastError

_MOST: Final = 4
"""Sessions of one process that are fought for at the same time; threads beyond that wait here."""

# Ended with its transaction, so that a client that dies leaves none behind.
_TAKE: Final = "SELECT pg_advisory_xact_lock(%s, hashtext(current_schema() || ' ' || %s))"


class Turns:
    """The turns of all sessions, as one process sees them.

    Attributes:
        pool: Their connections, which have to be told about forks.
    """

    def __init__(self, address: Address, *, durability: Durability, timeout: float) -> None:
        self.pool = Pool(address, durability=durability, timeout=timeout, most=_MOST)
        self._url = address.shown

    @contextmanager
    def of(self, session: str) -> Iterator[None]:
        """A turn of that session, or none where it cannot be had."""
        held = ExitStack()
        try:
            # Nothing depends on a turn: without one the round is fought for like the first.
            with suppress(HoldfastError):
                self._take(held, session)
            yield
        finally:
            # Nor on its end: a connection that was lost has ended it.
            with suppress(HoldfastError):
                held.close()

    def _take(self, held: ExitStack, session: str) -> None:
        connection = held.enter_context(self.pool.connection())
        with translated(self._url):
            connection.execute("BEGIN")
            held.callback(self._end, connection)
            connection.execute(_TAKE, [LOCK_CLASS + 1, session])

    def _end(self, connection: Connection) -> None:
        with translated(self._url):
            connection.execute("ROLLBACK")

    def close(self) -> None:
        """Let go of all connections."""
        self.pool.close()
