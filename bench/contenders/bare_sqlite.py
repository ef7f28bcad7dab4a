"""The floor: the changes of a step as one row in one SQLite transaction, and nothing else.

It keeps no state that could be loaded without replaying everything, so only its size and its saves are measured: no
saver that uses SQLite can be faster or, without compression, smaller.
"""

from __future__ import annotations

import sqlite3
from typing import Any

import orjson

from bench.contenders.contract import POWER, Contender, Reader
from bench.workloads import Change, State


class BareSqlite(Contender):
    """A table of (step, bytes)."""

    label = "bare SQLite row"
    readable = False

    def start(self, state: State) -> None:
        """Make the table and store the first state."""
        # isolation_level=None leaves BEGIN and COMMIT to us: one transaction is exactly what is written below.
        self._connection = sqlite3.connect(self.folder / "bare.sqlite", isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute(f"PRAGMA synchronous={'FULL' if self.durability == POWER else 'NORMAL'}")
        self._connection.execute("CREATE TABLE steps (step INTEGER PRIMARY KEY, body BLOB)")
        self._body = orjson.dumps(state)
        self.save()

    def apply(self, changes: list[Change]) -> None:
        """Encode the changes."""
        self._body = orjson.dumps(changes)

    def save(self) -> None:
        """One row."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("INSERT INTO steps (body) VALUES (?)", (self._body,))
        self._connection.execute("COMMIT")
        self.names.append(len(self.names))

    def close(self) -> None:
        """Close the connection, which empties the log."""
        self._connection.close()

    def reader(self) -> Reader:
        """Not asked for: `readable` says so."""
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        """The two settings that decide what a commit survives."""
        ask = self._connection.execute
        return {name: ask(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")}
