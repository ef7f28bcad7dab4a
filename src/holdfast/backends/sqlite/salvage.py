"""A new store from what is left of a damaged one, put in its place in one transaction.

The new store is made in a file of its own. Then its pages replace those of the old one through SQLite, as one commit:
whoever has the store open sees it like any other, and a process that dies at any point leaves the old store or the new
one. Swapping files would do neither, because SQLite's log and its shared memory go by the name of the file. Writers are
kept out from the first look to the last page. What was there is copied aside first, page by page as it is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import apsw

from holdfast.backends.damage import EPOCH_COLUMN, new_chunk_rows, new_counters, new_rows
from holdfast.backends.rules import store_damaged
from holdfast.backends.sqlite.connection import CHECKSUMS, RESERVED_BYTES, fetch, set_durability, waiting
from holdfast.backends.sqlite.creation import initialize
from holdfast.backends.sqlite.errors import translated
from holdfast.backends.sqlite.extension import copy_readable
from holdfast.backends.sqlite.inspection import SqliteInspection, inspected
from holdfast.backends.sqlite.page_files import FilePages, lost_commits
from holdfast.backends.sqlite.place import create_private, os_errors, sync_folder
from holdfast.errors import IntegrityError
from holdfast.storage.inspection import Rebuilt
from holdfast.storage.ports import Inspection

_COLUMNS = {
    "header": 3,
    "sessions": 10,
    "branches": 5,
    "checkpoints": 30,
    "tags": 2,
    "operations": 8,
    "chunks": 9,
}
# The file was initialized with a header of its own.
_INSERT = {
    table: f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * count)})"  # noqa: S608 - constants
    if table == "header"
    else f"INSERT INTO {table} VALUES ({', '.join('?' * count)})"  # noqa: S608 - constants
    for table, count in _COLUMNS.items()
}


def rebuild_store(
    target: apsw.Connection,
    source: apsw.Connection,
    path: str,
    plan: Callable[[Inspection], Rebuilt | None],
    *,
    timeout: float,
) -> str | None:
    """Put what `plan` makes of a store in its place; see `Backend.rebuild`.

    Args:
        target: A connection of `connect_unverified`, to write to the store.
        source: Another one, to look at it meanwhile.
        path: The file of the store.
        plan: What to make of it.
        timeout: How many seconds to wait for another writer.

    Raises:
        IntegrityError: SQLite cannot read the first page (`store-damaged`).
    """
    growing = Path(path).with_name(f".holdfast-{os.urandom(8).hex()}.tmp")
    try:
        with os_errors(Path(path)):
            create_private(growing)
        made = apsw.Connection(str(growing), flags=apsw.SQLITE_OPEN_READWRITE, vfs=CHECKSUMS)
        try:
            # It is gone when this ends, one way or the other: nobody needs it to be durable.
            fetch(made, "PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF")
            made.reserve_bytes(reserve=RESERVED_BYTES)
            initialize(made, str(growing), timeout=timeout)
            return _replace(target, source, made, path, plan, timeout)
        finally:
            made.close()
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            Path(f"{growing}{suffix}").unlink(missing_ok=True)


def _replace(
    target: apsw.Connection,
    source: apsw.Connection,
    made: apsw.Connection,
    path: str,
    plan: Callable[[Inspection], Rebuilt | None],
    timeout: float,
) -> str | None:
    deadline = time.monotonic() + timeout
    if not lost_commits(path):
        # So that what is kept aside is one file, where nobody is in the way. A damaged log is kept as it is.
        _empty_log(target)
    with suppress(apsw.Error):
        # Without the log, nobody could look at the store while it is locked. Where this fails the next step says why.
        fetch(target, "PRAGMA journal_mode=WAL")
    with suppress(apsw.CorruptError, apsw.NotADBError, apsw.SQLError):
        # What comes out of a repair has to last, whatever saves were asked to. Where SQLite cannot read the names of
        # the tables it takes no setting, and its own is this one, but for what macOS needs.
        set_durability(target, "power")
    try:
        backup = target.backup("main", made, "main")
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise _beyond_repair(path) from error
    with backup:
        try:
            # A step of no pages takes the write lock, and holds it until the end.
            waiting(partial(backup.step, 0), path, deadline=deadline, timeout=timeout)
        except (apsw.NotADBError, apsw.CorruptError, apsw.ReadOnlyError) as error:
            raise _beyond_repair(path) from error
        with inspected(source, path, timeout=timeout) as seen:
            wanted = plan(seen)
            if wanted is None:
                return None
            with translated(path):
                fetch(made, "BEGIN IMMEDIATE")
                _fill(made, seen, wanted)
                copy_readable(source, made)
                fetch(made, "COMMIT")
        aside = _keep_aside(path)
        backup.step(-1)
    _empty_log(target)
    return aside


def _fill(made: apsw.Connection, seen: SqliteInspection, wanted: Rebuilt) -> None:
    for table, row in new_rows(seen, wanted):
        made.execute(_INSERT[table], row)
    newest_epoch = _fill_chunks(made, seen, wanted)
    for name, value in new_counters(seen, newest_epoch).items():
        made.execute("UPDATE counters SET value = ? WHERE name = ?", (value, name))


def _fill_chunks(made: apsw.Connection, seen: SqliteInspection, wanted: Rebuilt) -> int:
    """Write the chunks; the newest epoch among them."""
    newest = 0
    for row in new_chunk_rows(seen, wanted):
        made.execute(_INSERT["chunks"], row)
        newest = max(newest, row[EPOCH_COLUMN])
    return newest


def _keep_aside(path: str) -> str:
    """Copy the files as they are, damage and all, to a name that says so; durable before anything is changed."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    aside = Path(f"{path}.damaged-{stamp}")
    with os_errors(Path(path)):
        pages = FilePages(path)
        try:
            _write_durably(aside, pages.everything())
        finally:
            pages.close()
        log = Path(f"{path}-wal")
        # Closing a descriptor of the log drops no lock: those are on the other two files.
        if log.exists() and log.stat().st_size:
            _write_durably(Path(f"{aside}-wal"), [log.read_bytes()])
        sync_folder(aside.parent)
    return str(aside)


def _write_durably(target: Path, parts: Iterable[bytes]) -> None:
    create_private(target)
    with target.open("r+b") as file:
        for part in parts:
            file.write(part)
        file.flush()
        # What is there is about to be written over: from now on this is the only one.
        os.fsync(file.fileno())


def _empty_log(target: apsw.Connection) -> None:
    try:
        fetch(target, "PRAGMA wal_checkpoint(TRUNCATE)")
    except apsw.Error:
        # Nothing depends on it: what is in the log counts as much as what is in the file.
        return


def _beyond_repair(path: str) -> IntegrityError:
    error = store_damaged(
        path, "its first page is not readable, and without that nothing can be put in its place"
    )
    return IntegrityError(
        str(error),
        code=error.code,
        hint="keep the file, and bring the store back from a backup; `verify` still names what is in it",
        path=path,
    )
