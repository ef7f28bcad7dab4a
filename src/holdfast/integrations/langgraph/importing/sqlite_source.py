"""A SQLite file that SqliteSaver or AsyncSqliteSaver wrote.

It is opened read-only with Python's own driver. That is the library the savers use: a second SQLite in the process
would, when it closes the file, take the locks of the first one away. Stores of holdfast's have a SQLite of their own,
so a file that one of them has open is refused before it is touched. A reader sees one moment of a database in WAL
mode, whatever a running graph writes meanwhile, and does not hold it up.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from holdfast.errors import BackendError, ErrorCode, HoldfastError, IntegrityError
from holdfast.integrations.langgraph.importing.decoding import KINDS, Decoder
from holdfast.integrations.langgraph.importing.refusing import (
    BadValueError,
    Spot,
    malformed,
    refused_kind,
    source_missing,
    source_unknown,
)
from holdfast.integrations.langgraph.importing.source import Listed, Stored, Write
from holdfast.store.taken import is_open_here

_PATIENCE: Final = 10.0
"""Seconds to wait for a writer that has the file to itself: one that is not in WAL mode, or that recovers it."""

_COLUMNS: Final = {
    "thread_id",
    "checkpoint_ns",
    "checkpoint_id",
    "parent_checkpoint_id",
    "type",
    "checkpoint",
    "metadata",
}


class SqliteSource:
    """A file, open for reading; made with `open`."""

    def __init__(self, path: Path, connection: sqlite3.Connection, decoder: Decoder, *, left: bool) -> None:
        self.shown = str(path)
        self._path = path
        self._connection = connection
        self.decoder = decoder
        self._left = left
        self._task_path = "''"
        self._has_writes = False

    @classmethod
    def open(cls, path: Path, decoder: Decoder) -> SqliteSource:
        """Open a file.

        Raises:
            HoldfastError: There is none, or it is not a database of LangGraph's.
        """
        if not path.is_file():
            raise (
                source_missing(str(path)) if not path.exists() else source_unknown(str(path), "it is no file")
            )
        if is_open_here(path):
            raise source_unknown(str(path), "it is a store of holdfast's that this program has open")
        # SQLite makes two files beside a database in WAL mode, also for one who only reads.
        left = not any(map(os.path.exists, _beside(path)))
        with _translated(str(path)):
            source = cls(path, _connected(path), decoder, left=left)
            try:
                source._begin()
            except BaseException:
                source.close()
                raise
        return source

    def _begin(self) -> None:
        """Take the view that everything is read from, and look whether it is what we can read."""
        self._connection.execute("BEGIN")
        columns = self._columns("checkpoints")
        if not columns:
            raise source_unknown(self.shown, "it has no table `checkpoints`")
        if not columns >= _COLUMNS:
            hint = "holdfast copy copies a store of holdfast's; a file of an old saver is brought up to date by its own"
            raise source_unknown(self.shown, "its table `checkpoints` has other columns", hint=hint)
        writes = self._columns("writes")
        self._has_writes = bool(writes)
        # Files from before the column exist; what they have would read as empty.
        self._task_path = "task_path" if "task_path" in writes else "''"

    def _columns(self, table: str) -> set[str]:
        return {row[0] for row in self._connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}

    def count(self) -> int:
        """How many checkpoints there are in all."""
        return int(self._rows("SELECT count(*) FROM checkpoints")[0][0])

    def threads(self) -> Iterator[str]:
        """The ids of all threads."""
        statement = "SELECT DISTINCT thread_id FROM checkpoints"
        if self._has_writes:
            statement += " UNION SELECT thread_id FROM writes"
        with _translated(self.shown):
            for (thread,) in self._connection.execute(statement + " ORDER BY 1"):
                yield str(thread)

    def check(self, thread: str) -> None:
        """See that no value is of a kind that is not taken over."""
        marks = ", ".join("?" * len(KINDS))
        columns, other = (
            "checkpoint_ns, checkpoint_id, type",
            f"(type IS NULL OR type NOT IN ({marks})) LIMIT 1",
        )
        # Nothing but our own words is put together here.
        statements = [f"SELECT {columns} FROM checkpoints WHERE thread_id = ? AND {other}"]  # noqa: S608
        if self._has_writes:
            statements.append(f"SELECT {columns}, channel FROM writes WHERE thread_id = ? AND {other}")  # noqa: S608
        # A checkpoint is one value here, so only what was written says which channel it is.
        found = [row for statement in statements[::-1] for row in self._rows(statement, thread, *KINDS)]
        for namespace, checkpoint, kind, *channel in found:
            raise refused_kind(kind).at(Spot(thread, namespace, checkpoint, *channel))

    def index(self, thread: str) -> list[Listed]:
        """The checkpoints of a thread in the order of their ids."""
        rows = self._rows(
            "SELECT checkpoint_id, checkpoint_ns, parent_checkpoint_id FROM checkpoints WHERE thread_id = ? "
            "ORDER BY checkpoint_id, checkpoint_ns",
            thread,
        )
        # An empty parent is none, to the savers as well.
        return [Listed(row[0], row[1], row[2] or None) for row in rows]

    def written(self, thread: str) -> list[tuple[str, str]]:
        """Where in a thread there are writes."""
        if not self._has_writes:
            return []
        rows = self._rows(
            "SELECT DISTINCT checkpoint_ns, checkpoint_id FROM writes WHERE thread_id = ? "
            "ORDER BY checkpoint_id, checkpoint_ns",
            thread,
        )
        return [(row[0], row[1]) for row in rows]

    def checkpoint(self, thread: str, entry: Listed) -> Stored:
        """A checkpoint; its channels are part of its own value here."""
        spot = Spot(thread, entry.namespace, entry.id)
        rows = self._rows(
            "SELECT type, checkpoint, metadata FROM checkpoints "
            "WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
            thread,
            entry.namespace,
            entry.id,
        )
        kind, data, metadata = rows[0]
        try:
            checkpoint = self.decoder.value(kind, data)
            if type(checkpoint) is not dict:
                raise malformed("it is no checkpoint")
            return Stored(checkpoint, _metadata(metadata))
        except BadValueError as bad:
            raise bad.at(spot) from None

    def writes(self, thread: str, namespace: str, checkpoint: str) -> list[Write]:
        """The writes of a checkpoint, by task and index."""
        rows = self._rows(
            f"SELECT task_id, {self._task_path}, idx, channel, type, value FROM writes "  # noqa: S608 - of two texts
            "WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ? ORDER BY 1, 2, 3",
            thread,
            namespace,
            checkpoint,
        )
        return [self._write(Spot(thread, namespace, checkpoint, row[3]), *row) for row in rows]

    def _write(self, spot: Spot, task: str, path: str, place: int, channel: str, *value: Any) -> Write:
        try:
            return Write(task, path, place, channel, self.decoder.value(*value))
        except BadValueError as bad:
            raise bad.at(spot) from None

    def close(self) -> None:
        """Let go of the file, and leave no other behind."""
        with _translated(self.shown):
            self._connection.close()
        wal, _ = _beside(self._path)
        with suppress(sqlite3.Error, OSError):
            if self._left and wal.exists() and wal.stat().st_size == 0:
                # Who only reads may not remove them. With nothing in them, a writer that comes and goes writes nothing.
                tidy = sqlite3.connect(_uri(self._path, "mode=rw"), uri=True)
                tidy.execute("SELECT count(*) FROM sqlite_schema")
                tidy.close()

    def _rows(self, statement: str, *values: object) -> list[Any]:
        with _translated(self.shown):
            return self._connection.execute(statement, values).fetchall()


def _metadata(data: Any) -> dict[str, Any]:
    if data is None:
        return {}
    try:
        metadata = json.loads(data)
    except (ValueError, TypeError, RecursionError) as error:
        raise malformed(f"its metadata: {error}") from error
    if type(metadata) is not dict:
        raise malformed("its metadata is no object")
    return metadata


def _beside(path: Path) -> tuple[Path, Path]:
    return Path(f"{path}-wal"), Path(f"{path}-shm")


def _uri(path: Path, options: str) -> str:
    return f"file:{quote(str(path.absolute()))}?{options}"


def _connected(path: Path) -> sqlite3.Connection:
    """A connection that cannot write. Statements are ours to group: no transaction begins by itself."""
    connection = sqlite3.connect(
        _uri(path, "mode=ro"), uri=True, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema")
    except sqlite3.OperationalError as error:
        connection.close()
        # In a folder that we may not write to, SQLite cannot make its two files. Without a log, there is no writer.
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CANTOPEN or _beside(path)[0].exists():
            raise
        return sqlite3.connect(
            _uri(path, "mode=ro&immutable=1"), uri=True, isolation_level=None, check_same_thread=False
        )
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _translated(shown: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _error(error, shown) from error


def _error(error: sqlite3.Error, shown: str) -> HoldfastError:
    # The lowest byte is the kind of the error, the rest says more about it.
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return source_unknown(shown, "it is no SQLite file, or an encrypted one")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return BackendError(
            f"{shown} is locked: a writer has it to itself",
            code=ErrorCode.STORE_LOCKED,
            hint="run the import again when the graph that writes it has ended",
            source=shown,
        )
    if code == sqlite3.SQLITE_CORRUPT:
        return IntegrityError(
            f"{shown} is damaged: {error}",
            code=ErrorCode.STORE_DAMAGED,
            hint="sqlite3 FILE '.recover' saves what can be saved of it; import that",
            source=shown,
        )
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY):
        return BackendError(
            f"{shown} cannot be read: {error}",
            code=ErrorCode.PERMISSION_DENIED,
            hint="make the file and its folder readable for this user",
            source=shown,
        )
    return BackendError(
        f"{shown} could not be read: {error}",
        code=ErrorCode.IO_FAILED,
        hint="look at the file with the sqlite3 program, then try again",
        source=shown,
    )
