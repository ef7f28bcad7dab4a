"""Looking at a SQLite file that may be damaged; the rows are judged in `backends/inspection.py`.

Pages are checked one by one in the file. Rows are then read through a connection that does not verify pages, because
one wrong bit on a page says nothing about the other rows there. Where SQLite cannot read a table, or where a page is
wrong and may have hidden rows without a word, the rows come from the pages themselves (`tables.ImageTables`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import apsw

from holdfast.backends.damage import RowInspection, Tables
from holdfast.backends.header import HEADER_KEYS
from holdfast.backends.sqlite.connection import CHECKSUMS, fetch, waiting
from holdfast.backends.sqlite.page_files import CopiedPages, FilePages, check_log, check_pages, log_size
from holdfast.backends.sqlite.pages import Image
from holdfast.backends.sqlite.tables import ImageTables, SqlTables
from holdfast.storage.inspection import Flaw


def connect_unverified(path: str, *, writable: bool) -> apsw.Connection:
    """A connection that reads pages whatever their checksums say, and writes right ones."""
    flags = apsw.SQLITE_OPEN_READWRITE if writable else apsw.SQLITE_OPEN_READONLY
    name = path
    wal = path + "-wal"
    if not writable and not os.path.exists(wal):  # noqa: PTH110 - SQLite's own names
        from urllib.parse import quote

        name, flags = f"file:{quote(path)}?immutable=1", flags | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(name, flags=flags, vfs=CHECKSUMS)
    try:
        connection.set_busy_timeout(0)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
        fetch(connection, "PRAGMA checksum_verification=OFF")
    except BaseException:
        connection.close(force=True)
        raise
    return connection


@contextmanager
def inspected(connection: apsw.Connection, path: str, *, timeout: float) -> Iterator[SqliteInspection]:
    """Look at a store through a connection of `connect_unverified` that nobody else uses."""
    flaws, suspects = check_pages(path)
    if not suspects:
        deadline = time.monotonic() + timeout
        begin = partial(fetch, connection, "SELECT 1 FROM header LIMIT 1")
        try:
            connection.execute("BEGIN")
            waiting(begin, path, deadline=deadline, timeout=timeout)
            # Only now: it takes time, in which what is seen here would grow apart from what other views see.
            flaws += check_log(path)
            found = SqliteInspection(SqlTables(connection), flaws)
        except (apsw.BusyError, apsw.CantOpenError, apsw.FullError):
            raise
        except (apsw.Error, UnicodeDecodeError) as error:
            # Nothing is wrong with the pages, and still they do not fit together: the log may be damaged.
            flaws.append(Flaw("page", f"the structure of {path}", str(error)))
            connection.execute("ROLLBACK")
        else:
            try:
                yield found
            finally:
                connection.execute("ROLLBACK")
            return
    else:
        flaws += check_log(path)
    pages = _pages(connection, path, suspects, flaws)
    try:
        image = Image(pages.read, pages.count, suspects)
        yield SqliteInspection(ImageTables(image, suspects), [_free(flaw, image) for flaw in flaws])
    finally:
        pages.close()


def _pages(
    connection: apsw.Connection, path: str, suspects: frozenset[int], flaws: list[Flaw]
) -> FilePages | CopiedPages:
    """Where to take a damaged file apart from."""
    if 1 in suspects and not log_size(path):
        # How many pages there are is said on the first one; the file itself knows better.
        return FilePages(path)
    try:
        return CopiedPages(connection)
    except (apsw.NotADBError, apsw.CorruptError, apsw.ReadOnlyError, apsw.IOError):
        # SQLite does not get beyond the first page. What is in the log is out of reach then.
        flaws.append(Flaw("header", f"the first page of {path}", "SQLite cannot read the file at all"))
        return FilePages(path)


class SqliteInspection(RowInspection):
    """An `Inspection` of one SQLite file."""

    def __init__(self, tables: Tables, flaws: Sequence[Flaw]) -> None:
        super().__init__(tables, flaws, header_keys=HEADER_KEYS)


def _free(flaw: Flaw, image: Image) -> Flaw:
    """A flaw of a page that holds nothing says so: nothing is lost there."""
    number = flaw.what.removeprefix("page ").partition(" ")[0]
    if flaw.kind == "page" and number.isdigit() and int(number) in image.free:
        return flaw._replace(why=f"{flaw.why}; it is free, and nothing is stored there")
    return flaw
