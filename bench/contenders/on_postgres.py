"""The contenders on a PostgreSQL server, each in a database of its own.

They are those of SQLite in another place: LangGraph's PostgresSaver, plain and with delta channels, with a connection
as its `from_conn_string` makes it; and holdfast with a URL instead of a path. A contender may be given an opened saver
or store, which it then leaves open: many of them share one where many writers are measured.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg.rows import dict_row

import holdfast
from bench.contenders.contract import POWER, Contender
from bench.contenders.holdfast_store import DocumentStore, PlainStore
from bench.contenders.langgraph_saver import DeltaSaver, PlainSaver
from bench.servers import DURABLE, durability_of, log_position, sizes, vacuum


def open_saver(url: str) -> PostgresSaver:
    """What `PostgresSaver.from_conn_string` gives, without a block around it."""
    return PostgresSaver(
        psycopg.Connection.connect(url, autocommit=True, prepare_threshold=0, row_factory=dict_row)
    )


class OnPostgres(Contender):
    """What the size of a store is, and what it writes to the log of the server."""

    def __init__(self, url: str, *, session: str = "bench", opened: Any = None) -> None:
        super().__init__(Path(), POWER)
        self.url = url
        self.session = session
        self.given = opened
        self._log_bytes = 0

    def turn_begins(self) -> None:
        """Note where the log of the server is."""
        with psycopg.connect(self.url) as connection:
            self._log_began = log_position(connection)

    def turn_ends(self) -> None:
        """Count what came to the log. Nobody else is at work."""
        with psycopg.connect(self.url) as connection:
            self._log_bytes += log_position(connection) - self._log_began

    def settings(self) -> dict[str, Any]:
        """What the server says about the commits of the connection that saves."""
        raise NotImplementedError

    def equal_settings(self) -> dict[str, Any]:
        """One flush of the log for each commit."""
        return DURABLE

    def size(self) -> int:
        """All tables with their indexes, before a vacuum."""
        return sum(sizes(self.url).values())

    def more_figures(self) -> dict[str, Any]:
        """The size after a vacuum, which is also what makes plans for loads good; and bytes of log for each save."""
        before = sizes(self.url)
        vacuum(self.url)
        after = sizes(self.url)
        return {
            "size": {"before_vacuum": before, "after_vacuum": after},
            # The first state was saved before the first turn.
            "log_bytes_per_save": self._log_bytes / max(1, len(self.names) - 1),
        }


class _Saver(OnPostgres):
    """What both forms of PostgresSaver share."""

    _saver: PostgresSaver

    def settings(self) -> dict[str, Any]:
        """Asked of the connection that saves."""
        assert isinstance(self._saver.conn, psycopg.Connection)
        return durability_of(self._saver.conn)

    def _connected(self) -> Any:
        if self.given is not None:
            return self.given
        saver = open_saver(self.url)
        # Only the first one meets an empty database; those who read need not ask.
        if not self.names:
            saver.setup()
        return saver


class PostgresPlain(_Saver, PlainSaver):
    """PostgresSaver as it comes: each channel that a step wrote is stored whole."""

    label = "PostgresSaver"


class PostgresDelta(_Saver, DeltaSaver):
    """PostgresSaver with every channel a DeltaChannel."""

    label = "DeltaChannel(100)"


class _Store(OnPostgres):
    """What both forms of holdfast share."""

    _store: holdfast.Store

    def settings(self) -> dict[str, Any]:
        """Asked of a connection of the pool that saves."""
        with self._store._backend._pool.connection() as connection:  # noqa: SLF001 - what it runs with, not what it says
            return durability_of(connection)

    def _opened(self) -> holdfast.Store:
        return self.given or holdfast.open(self.url, durability=self.durability)

    @property
    def _place(self) -> str:
        return self.url


class PostgresStore(_Store, PlainStore):
    """`session.save(state)` with a plain dict."""


class PostgresDocument(_Store, DocumentStore):
    """`session.document()`."""


KINDS: dict[str, type[OnPostgres]] = {
    "saver": PostgresPlain,
    "delta": PostgresDelta,
    "holdfast": PostgresStore,
    "document": PostgresDocument,
}
