"""The savers that a LangGraph program can choose between, each opened as its own documentation says.

All of them keep the same graph; what differs is the saver, and for the delta forms the channel of the messages. Every
one commits with one flush to the disk.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from psycopg.rows import dict_row

from bench.servers import sizes, vacuum


class GraphSaver(ABC):
    """One saver in one place."""

    label: ClassVar[str]
    delta: ClassVar[bool] = False
    """Whether the messages are in a DeltaChannel."""

    def __init__(self, place: Path | str) -> None:
        self.place = place

    @abstractmethod
    def open(self) -> Any:
        """A saver that knows nothing yet."""

    @abstractmethod
    def close(self, saver: Any) -> None:
        """Let go of the files or the connection."""

    @abstractmethod
    def size(self) -> int:
        """Bytes on the disk."""

    @abstractmethod
    def settle(self) -> None:
        """Do what a database does by itself after a while."""


class OnSqlite(GraphSaver):
    """SqliteSaver as it comes, flushed at each commit."""

    label = "SqliteSaver"

    def open(self) -> Any:
        connection = sqlite3.connect(Path(self.place, "saver.sqlite"), check_same_thread=False)
        saver = SqliteSaver(connection)
        saver.setup()
        connection.execute("PRAGMA synchronous=FULL")
        return saver

    def close(self, saver: Any) -> None:
        saver.conn.close()

    def size(self) -> int:
        return sum(file.stat().st_size for file in Path(self.place).rglob("*") if file.is_file())

    def settle(self) -> None:
        """Nothing: SQLite has no server that would."""


class OnSqliteDelta(OnSqlite):
    """The same with delta channels."""

    label = "SqliteSaver, DeltaChannel(100)"
    delta = True


class OnPostgres(GraphSaver):
    """PostgresSaver as it comes."""

    label = "PostgresSaver"

    def open(self) -> Any:
        connection = psycopg.Connection.connect(
            str(self.place), autocommit=True, prepare_threshold=0, row_factory=dict_row
        )
        saver = PostgresSaver(connection)
        saver.setup()
        return saver

    def close(self, saver: Any) -> None:
        saver.conn.close()

    def size(self) -> int:
        return sum(sizes(str(self.place)).values())

    def settle(self) -> None:
        vacuum(str(self.place))


class OnPostgresDelta(OnPostgres):
    """The same with delta channels."""

    label = "PostgresSaver, DeltaChannel(100)"
    delta = True


class Holdfast(OnSqlite):
    """HoldfastSaver in a folder."""

    label = "HoldfastSaver"

    def open(self) -> Any:
        from holdfast.integrations.langgraph import HoldfastSaver

        return HoldfastSaver(str(Path(self.place, "store")))

    def close(self, saver: Any) -> None:
        saver.close()


class HoldfastOnPostgres(OnPostgres):
    """HoldfastSaver on a server."""

    label = "HoldfastSaver"

    def open(self) -> Any:
        from holdfast.integrations.langgraph import HoldfastSaver

        return HoldfastSaver(str(self.place))

    def close(self, saver: Any) -> None:
        saver.close()


SQLITE: dict[str, type[GraphSaver]] = {"saver": OnSqlite, "delta": OnSqliteDelta, "holdfast": Holdfast}
POSTGRES: dict[str, type[GraphSaver]] = {
    "saver": OnPostgres,
    "delta": OnPostgresDelta,
    "holdfast": HoldfastOnPostgres,
}
