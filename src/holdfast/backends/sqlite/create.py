"""Creation: how an empty file becomes a store, and how an existing one is recognized.

The tables, the header and the marks in the file's own header come in one transaction: a file is empty or a whole store,
whenever a process dies and however many make it at once. A file that is empty, or a SQLite file without any table, is
finished; anything else that does not carry our mark is left alone.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import apsw

from holdfast.backends.header import FORMAT, check_header, new_header, not_a_store, too_new
from holdfast.backends.rules import store_damaged
from holdfast.backends.sqlite.connection import (
    CHECKSUMS,
    RESERVED_BYTES,
    check_checksums,
    check_setting,
    fetch,
    transact,
    waiting,
)
from holdfast.errors import HoldfastError

APPLICATION_ID = int.from_bytes(b"hldf", "big")
"""In the header of the SQLite file, where `file` and other tools look for it."""
VERSION_BASE = 1000
"""user_version is this plus the format, because 0 is what every other SQLite file has there."""


# One statement, which sees one moment: another process may be making the store just now.
_MARKS = (
    "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema), page_count "
    "FROM pragma_application_id, pragma_user_version, pragma_page_count"
)


def is_store(connection: apsw.Connection, path: str) -> bool:
    """True for a store that this version can read, False for a file without anything in it.

    Raises:
        InvalidInputError: The file belongs to somebody else (`not-a-store`).
        UnsupportedError: A newer holdfast made it (`format-too-new`).
        IntegrityError: It is a store, and damaged.
    """
    size = Path(path).stat().st_size
    ((application, version, tables, pages),) = fetch(connection, _MARKS)
    if application != APPLICATION_ID:
        # SQLite takes a few bytes for no database at all, and would write over them.
        is_scrap = size > 0 and pages == 0 and Path(path).stat().st_size == size
        if application == version == tables == 0 and not is_scrap:
            return False
        raise _langgraphs(path) if _is_langgraphs(connection) else _not_a_store(path)
    check_checksums(connection, path)
    if version > VERSION_BASE + FORMAT:
        raise too_new(path, version - VERSION_BASE)
    if version != VERSION_BASE + FORMAT:
        raise store_damaged(path, f"its version number is {version}")
    return True


def unreadable(path: str) -> HoldfastError:
    """The error for a file that SQLite does not take for a database."""
    # Our mark behind a damaged magic number says that this was a store.
    if _mark(path) == APPLICATION_ID:
        return store_damaged(path, "its first page is not readable")
    return _not_a_store(path)


def initialize(connection: apsw.Connection, path: str, *, timeout: float) -> None:
    """Make a store of an empty file, unless another process does so first."""
    connection.reserve_bytes(reserve=RESERVED_BYTES)

    def make() -> None:
        if not is_store(connection, path):
            schema = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")
            fetch(connection, schema)
            connection.executemany("INSERT INTO header VALUES (?, ?, ?)", new_header())
            fetch(
                connection,
                f"PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={VERSION_BASE + FORMAT}",
            )

    transact(connection, path, timeout, make)


def use_wal(connection: apsw.Connection, path: str, *, timeout: float) -> None:
    """Switch a store to write-ahead logging, if the process that made it died before it could."""
    ((mode,),) = fetch(connection, "PRAGMA journal_mode")
    if mode == "wal":
        return
    waiting(lambda: fetch(connection, "PRAGMA journal_mode=WAL"), path, timeout)
    # SQLite stays with the old mode where the file system cannot share memory between processes.
    check_setting(connection, "journal_mode", "wal")


def read_header(connection: apsw.Connection, path: str) -> dict[str, str]:
    """The header of a store, each entry checked."""
    rows = fetch(connection, "SELECT key, value, seal FROM header")
    return check_header(((key, value, checksum) for key, value, checksum in rows), path)


def _mark(path: str) -> int:
    """The application id of a file that SQLite cannot open; read through SQLite's VFS, which keeps its locks."""
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0]
    file = apsw.VFSFile(CHECKSUMS, path, flags)
    try:
        return int.from_bytes(file.xRead(4, 68), "big")
    except apsw.IOError:
        # Shorter than a header.
        return 0
    finally:
        file.xClose()


def _is_langgraphs(connection: apsw.Connection) -> bool:
    columns = fetch(connection, "SELECT name FROM pragma_table_info('checkpoints')")
    return {"thread_id", "checkpoint_ns", "checkpoint_id"} <= {name for (name,) in columns}


def _langgraphs(path: str) -> HoldfastError:
    command = f"holdfast import-langgraph --store NEW {shlex.quote(path)}"
    return not_a_store(
        path, hint=f"LangGraph's SqliteSaver made it; this brings its threads into a store: {command}"
    )


def _not_a_store(path: str) -> HoldfastError:
    return not_a_store(path, hint="name another file; this one was left as it is")
