"""One connection to a store: how it is opened, what is set on it, and how it waits for a lock.

Every connection goes through SQLite's checksum VFS, which keeps an 8-byte checksum at the end of each page of the file
and verifies it on every read: a page that changed on the disk is an error and never an answer. The driver ships it as a
loadable extension; it is loaded once per process.

Waiting for a lock is done here and not by SQLite's own busy handler. With two writers and one sync per commit, SQLite's
growing pauses left one of them waiting for a second while the other wrote; short random ones share the file fairly.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

import apsw

from holdfast.backends.forking import no_fork
from holdfast.backends.rows import Row
from holdfast.backends.rules import store_damaged
from holdfast.backends.sqlite.errors import store_locked
from holdfast.errors import ErrorCode, UnsupportedError

Durability = Literal["power", "process"]

T = TypeVar("T")

MINIMUM_SQLITE = (3, 51, 3)
"""Up to 3.51.2 two connections could corrupt a WAL when one reset it while the other wrote."""

CHECKSUMS = "cksmvfs"
PAGE_SIZE = 4096
RESERVED_BYTES = 8
"""At the end of each page, for its checksum. The checksum VFS works with exactly this number."""

_SYNCHRONOUS = {"power": 2, "process": 1}
# Without a limit, one long read beside many saves leaves a large WAL behind for ever.
_WAL_LIMIT = 64 << 20
_LONGEST_PAUSE = 0.008


def check_library(version: str) -> None:
    """Refuse a SQLite that can corrupt a WAL."""
    if tuple(int(part) for part in version.split(".")[:3]) < MINIMUM_SQLITE:
        needed = ".".join(map(str, MINIMUM_SQLITE))
        raise UnsupportedError(
            f"SQLite {version} can corrupt a store that two processes use; {needed} or later is needed",
            code=ErrorCode.SQLITE_TOO_OLD,
            hint="upgrade the driver, which brings its own SQLite: pip install --upgrade apsw",
            version=version,
        )


def load_checksums(folder: str | None = None) -> None:
    """Register the checksum VFS in this process, beside the default one.

    Args:
        folder: Where the driver's extensions are; next to the driver if not given.
    """
    with no_fork():
        names = apsw.vfs_names()
        if CHECKSUMS in names:
            return
        if folder is None:
            # The driver's own loader finds the file through importlib.resources, which takes 25 ms to import.
            folder = os.path.join(os.path.dirname(apsw.__file__), "sqlite_extra_binaries")  # noqa: PTH118, PTH120
        scratch = apsw.Connection(":memory:")
        try:
            scratch.enable_load_extension(enable=True)
            scratch.load_extension(os.path.join(folder, "cksumvfs"))  # noqa: PTH118
        except apsw.ExtensionLoadingError as error:
            raise UnsupportedError(
                "the installed apsw comes without SQLite's checksum extension (cksumvfs)",
                code=ErrorCode.NOT_SUPPORTED,
                hint="install apsw as a wheel from PyPI: pip install --force-reinstall --only-binary apsw apsw",
            ) from error
        finally:
            scratch.close()
            # The extension makes itself the default, which other users of SQLite in this process did not ask for.
            apsw.set_default_vfs(names[0])


def connect(path: str, *, durability: Durability, writable: bool) -> apsw.Connection:
    """Open a connection to a file that exists, with everything set; what the file holds is not looked at."""
    if writable:
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE, vfs=CHECKSUMS)
    else:
        connection = _connect_read_only(path)
    try:
        _configure(connection, durability)
    except BaseException:
        connection.close(force=True)
        raise
    return connection


def set_durability(connection: apsw.Connection, durability: Durability) -> None:
    """Set what a commit survives: FULL syncs the WAL at each one, NORMAL only before it goes into the file."""
    synchronous = _SYNCHRONOUS[durability]
    full = 1 if durability == "power" else 0
    # macOS answers a plain fsync before the disk has written.
    fetch(
        connection,
        f"PRAGMA synchronous={synchronous}; PRAGMA fullfsync={full}; PRAGMA checkpoint_fullfsync={full}",
    )
    # A build option or a typo here would otherwise cost durability without a word.
    check_setting(connection, "synchronous", synchronous)


def check_checksums(connection: apsw.Connection, path: str) -> None:
    """Make sure that the pages of this store have checksums and that they are verified."""
    ((verified,),) = fetch(connection, "PRAGMA checksum_verification")
    if connection.reserve_bytes() != RESERVED_BYTES or verified != "1":
        raise store_damaged(path, "its pages have no checksums")


def check_setting(connection: apsw.Connection, name: str, wanted: object) -> None:
    """Make sure that SQLite took a setting: it answers one that it cannot keep with the old value, not an error."""
    ((actual,),) = fetch(connection, f"PRAGMA {name}")
    if actual != wanted:
        raise UnsupportedError(
            f"SQLite kept {name}={actual} where {name}={wanted} was asked for",
            code=ErrorCode.NOT_SUPPORTED,
            hint="put the store on a local disk, and install apsw as a wheel from PyPI",
            setting=name,
        )


def fetch(connection: apsw.Connection, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
    """All rows of a statement, which is finished then: one that is not would hold its view of the store open."""
    return connection.execute(sql, parameters).fetchall()


def waiting(action: Callable[[], T], path: str, *, deadline: float, timeout: float) -> T:
    """Do something that needs a lock of SQLite; while another process has it, try again until the deadline."""
    longest = 0.001
    while True:
        try:
            return action()
        except apsw.BusyError as busy:
            if time.monotonic() >= deadline:
                raise store_locked(path, timeout) from busy
        # Random, so that two writers do not meet again at each attempt; growing, so that many do not burn the CPU.
        time.sleep(longest * os.urandom(1)[0] / 255)
        longest = min(longest + 0.001, _LONGEST_PAUSE)


def _connect_read_only(path: str) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READONLY
    if os.path.exists(path + "-wal") or os.path.exists(path + "-journal"):  # noqa: PTH110 - SQLite's own names
        return apsw.Connection(path, flags=flags, vfs=CHECKSUMS)
    # Nobody writes, or there would be one of these; and SQLite cannot make the files that it shares with writers.
    from urllib.parse import quote

    return apsw.Connection(
        f"file:{quote(path)}?immutable=1", flags=flags | apsw.SQLITE_OPEN_URI, vfs=CHECKSUMS
    )


def _configure(connection: apsw.Connection, durability: Durability) -> None:
    # `waiting` does the waiting.
    connection.set_busy_timeout(0)
    # A store has no triggers and no views; one that has them did not get them from us.
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 1)
    # Without it, a build with STAT4 prepares each join again whenever a parameter changes: 10 times slower.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    # Has an effect only on an empty file, but has to come first: if another process makes the store meanwhile, a first
    # read with SQLite's own page size would cut the first page short, and its checksum would not match.
    fetch(connection, f"PRAGMA page_size={PAGE_SIZE}")
    # Mapped memory would bypass the checksums, and a failing disk would end the process with a signal.
    fetch(
        connection,
        f"PRAGMA mmap_size=0; PRAGMA cell_size_check=ON; PRAGMA journal_size_limit={_WAL_LIMIT}",
    )
    set_durability(connection, durability)
