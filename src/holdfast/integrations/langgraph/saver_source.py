"""A database of one of LangGraph's own savers, open for reading.

LangGraph's saver reads it, through a connection that cannot write and sees one moment of it, and with our
`SafeSerializer`. Python's own SQLite driver is the library that SqliteSaver uses: a second one in the process would
take the locks of the first away when it closes the file. What may hold a password is never repeated in an error.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from langgraph.checkpoint.base import BaseCheckpointSaver, writes_sort_key

from holdfast import (
    BackendError,
    ErrorCode,
    HoldfastError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
    StateError,
    UnsupportedError,
)
from holdfast.integrations.langgraph.checkpoints import config_for
from holdfast.integrations.langgraph.safe_serde import SafeSerializer
from holdfast.store.taken import is_open_here

LOCK_SECONDS = 10.0
"""How long to wait for a writer that has the file to itself."""


class Source:
    """A database of LangGraph's that is open for reading."""

    def __init__(
        self, shown: str, saver: BaseCheckpointSaver[Any], query: Callable[..., list[Any]], writes: str
    ) -> None:
        self.shown = shown
        self._saver = saver
        self._query = query
        self._writes = writes

    def threads(self) -> list[str]:
        """The ids of all threads."""
        return [str(row[0]) for row in self._query("SELECT DISTINCT thread_id FROM checkpoints ORDER BY 1")]

    def index(self, thread: str) -> list[tuple[str, str]]:
        """Namespace and id of each checkpoint of a thread, in the order of ids, but parents first."""
        rows = self._query(
            "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id FROM checkpoints WHERE thread_id = %s "
            "ORDER BY checkpoint_id, checkpoint_ns",
            thread,
        )
        parents = {(row[0], row[1]): (row[0], row[2]) for row in rows}
        ordered: dict[tuple[str, str], None] = {}
        for place in list(parents):
            line: dict[tuple[str, str], None] = {}
            above = place
            while above in parents and above not in ordered and above not in line:
                line[above] = None
                above = parents[above]
            ordered.update(dict.fromkeys(reversed(line)))
        return list(ordered)

    def write_rows(self, thread: str) -> dict[tuple[str, str], list[tuple[str, str, int, str]]]:
        """Path, task, place and channel of each pending write, by checkpoint; a CheckpointTuple says less."""
        rows = self._query(
            f"SELECT checkpoint_ns, checkpoint_id, {self._writes} WHERE thread_id = %s",
            thread,
        )
        found: dict[tuple[str, str], list[Any]] = {}
        for row in rows:
            found.setdefault((row[0], row[1]), []).append(tuple(row[2:]))
        # As in a CheckpointTuple.
        return {each: sorted(found[each], key=lambda row: writes_sort_key(*row[:3])) for each in found}

    def checkpoint(self, thread: str, namespace: str, checkpoint_id: str) -> Any:
        """A checkpoint with its pending writes.

        Raises:
            HoldfastError: It cannot be read, or has a value that is not imported; the message says where.
        """
        with located(thread, namespace, checkpoint_id):
            try:
                found: Any = self._saver.get_tuple(config_for(thread, namespace, checkpoint_id))
                checkpoint, metadata = found.checkpoint.items(), found.metadata.items()
                return found._replace(checkpoint=dict(checkpoint), metadata=dict(metadata))
            except HoldfastError:
                raise
            except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
                # LangGraph's own code, on rows that LangGraph did not write.
                raise StateError(
                    f"the checkpoint cannot be read: {type(error).__name__}: {error}",
                    code=ErrorCode.DECODE_FAILED,
                    hint="look whether LangGraph can still read this thread; --keep-going imports the others",
                ) from error


@contextmanager
def open_source(source: str | Path, serde: SafeSerializer) -> Iterator[Source]:
    """Open what is to be imported: a file, or a PostgreSQL database by its URL or by libpq's keywords."""
    text = str(source)
    path = path_of(source)
    if not text.startswith(("postgresql://", "postgres://")) and path and "\0" not in path:
        # What is no file may be an address, and hold a password: it is never repeated.
        if os.path.lexists(path) or not re.search(r"://|=|@|^\s*postgres|^//", path):
            with _sqlite(Path(path), serde) as opened:
                yield opened
            return
        if not re.match(r"\s*\w+\s*=", text):
            raise _bad_source("there is no file of that name, nor is it a URL that begins with postgresql://")
    with _postgres(text, serde) as opened:
        yield opened


@contextmanager
def _sqlite(path: Path, serde: SafeSerializer) -> Iterator[Source]:
    shown = str(path)
    if not path.exists():
        raise NotFoundError(
            f"there is no file {shown} to import from",
            code=ErrorCode.SOURCE_MISSING,
            hint="name the file that SqliteSaver writes, or the postgresql:// URL of PostgresSaver's database",
            source=shown,
        )
    if not path.is_file():
        raise source_unknown(shown, "it is no file")
    if is_open_here(path):
        raise source_unknown(shown, "it is a store of holdfast's that this program has open")
    with _needing("langgraph-checkpoint-sqlite"):
        from langgraph.checkpoint.sqlite import SqliteSaver
    uri = f"file:{quote(str(path.absolute()))}"
    log = Path(f"{path}-wal")
    had_log = log.exists()
    try:
        with closing(
            sqlite3.connect(
                f"{uri}?mode=ro",
                uri=True,
                timeout=LOCK_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
        ) as connection:
            # Views and triggers of a hostile file may call nothing; one moment of it is read.
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("BEGIN")
            tables = {
                name: {row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (name,))}
                for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
                if name in ("checkpoints", "writes")
            }
            if not tables.get("checkpoints", set()) >= {"thread_id", "checkpoint_ns", "metadata"}:
                raise source_unknown(shown, "it has no table `checkpoints` of LangGraph's")
            if "writes" not in tables:
                raise source_unknown(shown, "it has no table `writes`")
            saver = SqliteSaver(connection, serde=serde)
            # It would bring the tables up to date, and may not.
            saver.is_setup = True
            task_path = "task_path" if "task_path" in tables["writes"] else "''"
            saver._has_task_path = task_path == "task_path"  # noqa: SLF001 - what `setup` finds out by writing

            def query(statement: str, *values: object) -> list[Any]:
                return connection.execute(statement.replace("%s", "?"), values).fetchall()

            yield Source(shown, saver, query, f"{task_path}, task_id, idx, channel FROM writes")
    except sqlite3.Error as error:
        raise _sqlite_error(error, shown) from error
    finally:
        with suppress(sqlite3.Error, OSError):
            if not had_log and log.exists() and not log.stat().st_size:
                # SQLite makes two files beside a database in WAL mode, and one who only reads cannot remove them.
                with closing(sqlite3.connect(f"{uri}?mode=rw", uri=True)) as tidy:
                    tidy.execute("SELECT count(*) FROM sqlite_schema")


@contextmanager
def _postgres(address: str, serde: SafeSerializer) -> Iterator[Source]:
    with _needing("langgraph-checkpoint-postgres"):
        import psycopg
        from langgraph.checkpoint.postgres import PostgresSaver
        from psycopg.conninfo import conninfo_to_dict
        from psycopg.rows import dict_row, tuple_row
    fields: dict[str, Any] = {}
    with suppress(psycopg.Error):
        fields = dict(conninfo_to_dict(address))
    # A password in the wrong place would be repeated by the driver, and by us.
    names = [str(fields.get(name) or "") for name in ("host", "user", "dbname")]
    port = str(fields.get("port") or "5432")
    if not fields or not port.isdigit() or any(re.search(r"[@=]|://", each) for each in names):
        raise _bad_source("it is no URL of a PostgreSQL database, nor libpq's keywords for one")
    shown = f"postgresql://{names[0]}:{port}/{names[2]}"
    connection, refusal = None, ""
    try:
        connection = psycopg.connect(
            address, row_factory=dict_row, prepare_threshold=0, application_name="holdfast"
        )
    except psycopg.Error as error:
        refusal = str(error).replace(str(fields.get("password") or "\0"), "***")
    if connection is None:
        # Not in the block above: the error of the driver would come along, with all that it says.
        raise BackendError(
            f"{shown} cannot be reached: {refusal}",
            code=ErrorCode.SERVER_GONE,
            hint="check the address, and that the server runs and lets this user in",
            source=shown,
        )
    try:
        with closing(connection):
            connection.read_only = True
            # One moment of the database, whatever a graph writes meanwhile.
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ

            def query(statement: str, *values: object) -> list[Any]:
                with connection.cursor(row_factory=tuple_row) as cursor:
                    # Every statement is written in this module.
                    return cursor.execute(statement, values).fetchall()

            # ShallowPostgresSaver has tables of the same names, without these columns.
            query("SELECT checkpoint_id, parent_checkpoint_id FROM checkpoints LIMIT 0")
            saver = PostgresSaver(connection, serde=serde)
            yield Source(shown, saver, query, "task_path, task_id, idx, channel FROM checkpoint_writes")
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn) as error:
        why = "it has no tables of PostgresSaver, or older ones, which its setup() brings up to date"
        raise source_unknown(shown, why) from error
    except psycopg.Error as error:
        code = ErrorCode.IO_FAILED
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            code = ErrorCode.PERMISSION_DENIED
        elif isinstance(error, psycopg.OperationalError):
            code = ErrorCode.SERVER_GONE
        raise BackendError(
            f"{shown} could not be read: {error}",
            code=code,
            hint="look at the database with psql, then run the import again",
            source=shown,
        ) from error


def _sqlite_error(error: sqlite3.Error, shown: str) -> HoldfastError:
    # The lowest byte is the kind of the error, the rest says more about it.
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if code == sqlite3.SQLITE_NOTADB:
        return source_unknown(shown, "it is no SQLite file, or an encrypted one")
    if code == sqlite3.SQLITE_CORRUPT:
        return IntegrityError(
            f"{shown} is damaged: {error}",
            code=ErrorCode.STORE_DAMAGED,
            hint="sqlite3 FILE '.recover' saves what can be saved of it; import that",
            source=shown,
        )
    found, hint = {
        sqlite3.SQLITE_BUSY: (
            ErrorCode.STORE_LOCKED,
            "run the import again when the graph that writes it has ended",
        ),
        sqlite3.SQLITE_CANTOPEN: (
            ErrorCode.PERMISSION_DENIED,
            "make the file and its folder readable and writable",
        ),
        sqlite3.SQLITE_READONLY: (
            ErrorCode.PERMISSION_DENIED,
            "make the file and its folder readable and writable",
        ),
    }.get(code, (ErrorCode.IO_FAILED, "look at the file with the sqlite3 program, then try again"))
    return BackendError(f"{shown} could not be read: {error}", code=found, hint=hint, source=shown)


@contextmanager
def _needing(package: str) -> Iterator[None]:
    try:
        yield
    except ImportError as missing:
        raise UnsupportedError(
            f"reading that database needs LangGraph's own saver for it: {missing}",
            code=ErrorCode.NOT_SUPPORTED,
            hint=f"pip install {package}",
        ) from missing


@contextmanager
def located(thread: str, namespace: str, checkpoint_id: str) -> Iterator[None]:
    """Say where it was that a value could not be read or kept."""
    try:
        yield
    except (InvalidInputError, StateError, UnsupportedError) as error:
        if "thread" in error.details:
            raise
        where = f"thread {thread!r}, {f'namespace {namespace!r}, ' if namespace else ''}checkpoint {checkpoint_id}"
        details = {**error.details, "thread": thread, "namespace": namespace, "checkpoint": checkpoint_id}
        raise type(error)(f"{where}: {error}", code=error.code, hint=error.hint, **details) from error


def path_of(source: str | Path) -> str:
    """The path that is meant by a source which is a file."""
    return os.path.expanduser(str(source).removeprefix("sqlite:///"))  # noqa: PTH111 - leaves an unknown home as it is


def _bad_source(why: str) -> InvalidInputError:
    return InvalidInputError(
        f"the source of an import cannot be used: {why}",
        code=ErrorCode.BAD_URL,
        hint="name the file of SqliteSaver, or postgresql://user:password@host:5432/database",
    )


def source_unknown(shown: str, why: str, hint: str = "") -> InvalidInputError:
    """Something is there, but no database of LangGraph's."""
    return InvalidInputError(
        f"{shown} is no database of LangGraph's SqliteSaver or PostgresSaver: {why}",
        code=ErrorCode.SOURCE_UNKNOWN,
        hint=hint or "name the database that the saver of the graph was opened with",
        source=shown,
    )
