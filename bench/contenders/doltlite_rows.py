"""DoltLite: SQLite with version control in its tables. A list is a table of rows in order, a dict one of keys.

The library takes the place of SQLite in the whole process: `bench.doltlite` runs it in a process without other users of
sqlite3. holdfast brings its own SQLite, and stays as it is.
"""

from __future__ import annotations

import sqlite3
from typing import Any

import orjson

from bench.contenders.contract import POWER, Contender, Reader
from bench.workloads import Change, State

_TABLES = (
    "CREATE TABLE items (list TEXT, place REAL, body TEXT, PRIMARY KEY (list, place))",
    "CREATE TABLE entries (dict TEXT, key TEXT, number INTEGER, body TEXT, PRIMARY KEY (dict, key))",
)


class DoltliteReader(Reader):
    """A connection to a file that others wrote."""

    def __init__(self, file: str) -> None:
        self._connection = sqlite3.connect(file, isolation_level=None)

    def load(self, name: str) -> State:
        """The rows as they were at a commit."""
        state: State = {}
        ask = self._connection.execute
        for part, _, body in ask(
            "SELECT list, place, body FROM dolt_at_items(?) ORDER BY list, place", [name]
        ):
            state.setdefault(part, []).append(orjson.loads(body))
        rows = ask("SELECT dict, key, body FROM dolt_at_entries(?) ORDER BY dict, number", [name])
        for part, key, body in rows:
            state.setdefault(part, {})[key] = orjson.loads(body)
        return state

    def log(self, limit: int) -> int:
        """The newest commits."""
        return len(self._connection.execute("SELECT * FROM dolt_log LIMIT ?", [limit]).fetchall())

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class DoltliteRows(Contender):
    """Rows are changed where the state is, and each step ends with `dolt_commit`."""

    label = "DoltLite, rows and dolt_commit"

    def start(self, state: State) -> None:
        """Make the tables and commit the first state."""
        self._connection = sqlite3.connect(self._file, isolation_level=None)
        self._connection.execute(f"PRAGMA synchronous={'FULL' if self.durability == POWER else 'NORMAL'}")
        for table in _TABLES:
            self._connection.execute(table)
        self._lengths: dict[str, int] = {}
        self._changes: list[Change] = []
        for part, value in state.items():
            if isinstance(value, list):
                self._changes += [["append", [part], each] for each in value]
                self._lengths[part] = 0
            else:
                self._changes += [["set", [part], key, each] for key, each in value.items()]
        self.save()

    def apply(self, changes: list[Change]) -> None:
        """Keep the changes: writing the rows is part of what a save costs."""
        self._changes = changes

    def save(self) -> None:
        """Write the rows that changed, and commit."""
        run = self._connection.execute
        for op, (part,), *rest in self._changes:
            if op == "append":
                self._lengths[part] += 1
                run("INSERT INTO items VALUES (?, ?, ?)", [part, self._lengths[part], orjson.dumps(rest[0])])
            else:
                run(
                    "INSERT INTO entries VALUES (?1, ?2, (SELECT count(*) FROM entries WHERE dict = ?1), ?3)"
                    " ON CONFLICT DO UPDATE SET body = excluded.body",
                    [part, rest[0], orjson.dumps(rest[1])],
                )
        self.names.append(run("SELECT dolt_commit('-A', '-m', ?)", [f"step {len(self.names)}"]).fetchone()[0])

    def close(self) -> None:
        """Collect what no commit needs, as its documentation asks for, and close."""
        self._connection.execute("SELECT dolt_gc()").fetchall()
        self._connection.close()

    def reader(self) -> Reader:
        """A connection with nothing cached."""
        return DoltliteReader(self._file)

    def settings(self) -> dict[str, Any]:
        """The two settings that decide what a commit survives."""
        ask = self._connection.execute
        return {name: ask(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")}

    @property
    def _file(self) -> str:
        return str(self.folder / "rows.db")
