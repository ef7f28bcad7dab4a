"""Connections to a store: how one is opened and set up, how it waits for a lock, and how threads share them.

Every connection goes through SQLite's checksum VFS, which keeps an 8-byte checksum at the end of each page of the file
and verifies it on every read: a page that changed on the disk is an error and never an answer. The driver ships it as a
loadable extension; it is loaded once per process.

Waiting for a lock is done here and not by SQLite's own busy handler. With two writers and one sync per commit, SQLite's
growing pauses left one of them waiting for a second while the other wrote; short random ones share the file fairly.

SQLite keeps its locks and its shared memory per process, so a child must never touch an inherited connection: all are
closed before a fork, and both sides open new ones.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal, TypeVar
from weakref import WeakKeyDictionary

import apsw

from holdfast.backends.fork import STEADY
from holdfast.backends.rows import Row
from holdfast.backends.rules import store_closed, store_damaged
from holdfast.backends.sqlite.errors import DRIVER_ERRORS, store_locked, translate
from holdfast.backends.sqlite.files import identity
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
_MOST_IDLE = 4
"""A connection holds up to 2 MB of cache and three descriptors; more idle ones than this are closed."""


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
    with STEADY:
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


def connect(path: str, *, writable: bool, durability: Durability) -> apsw.Connection:
    """Open a connection to a file that exists, with everything set; what the file holds is not looked at."""
    connection = connect_plain(path, writable=writable)
    try:
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 1)
        # Without it, a build with STAT4 prepares each join again whenever a parameter changes: 10 times slower.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        # The size has an effect only on an empty file, but has to come first: if another process makes the store
        # meanwhile, a first read with SQLite's own page size would cut the first page short, and its checksum would
        # not match. Mapped memory would bypass the checksums, and a failing disk would end the process with a signal.
        fetch(
            connection,
            f"PRAGMA page_size={PAGE_SIZE}; PRAGMA mmap_size=0; PRAGMA cell_size_check=ON; "
            f"PRAGMA journal_size_limit={_WAL_LIMIT}",
        )
        set_durability(connection, durability)
    except BaseException:
        connection.close(force=True)
        raise
    return connection


def connect_plain(path: str, *, writable: bool) -> apsw.Connection:
    """Open a connection without reading anything, so that it can be had of a damaged file too."""
    name, flags = path, apsw.SQLITE_OPEN_READWRITE if writable else apsw.SQLITE_OPEN_READONLY
    if not writable and not os.path.exists(path + "-wal") and not os.path.exists(path + "-journal"):  # noqa: PTH110
        # Nobody writes, or there would be one of these; and SQLite cannot make the files that it shares with writers.
        from urllib.parse import quote

        name, flags = f"file:{quote(path)}?immutable=1", flags | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(name, flags=flags, vfs=CHECKSUMS)
    # `waiting` does the waiting.
    connection.set_busy_timeout(0)
    # A store has no triggers and no views; one that has them did not get them from us.
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
    return connection


def connect_unverified(path: str, *, writable: bool) -> apsw.Connection:
    """A connection that reads pages whatever their checksums say, and writes right ones."""
    connection = connect_plain(path, writable=writable)
    fetch(connection, "PRAGMA checksum_verification=OFF")
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


def waiting(action: Callable[[], T], path: str, timeout: float) -> T:
    """Do something that needs a lock of SQLite; while another writer has it, try again until the time is over."""
    try:
        return action()
    except apsw.BusyError:
        deadline, longest = time.monotonic() + timeout, 0.001
    while True:
        # Random, so that two writers do not meet again at each attempt; growing, so that many do not burn the CPU.
        time.sleep(longest * os.urandom(1)[0] / 255)
        longest = min(longest + 0.001, _LONGEST_PAUSE)
        try:
            return action()
        except apsw.BusyError as busy:
            if time.monotonic() >= deadline:
                raise store_locked(path, timeout) from busy


def transact(connection: apsw.Connection, path: str, timeout: float, work: Callable[[], T]) -> T:
    """Do something in a transaction of its own that has the write lock."""
    # IMMEDIATE: a transaction that takes the write lock only later fails when somebody wrote in between.
    waiting(lambda: connection.execute("BEGIN IMMEDIATE"), path, timeout)
    try:
        done = work()
        # Before a store is in WAL mode, readers keep a commit waiting too.
        waiting(lambda: connection.execute("COMMIT"), path, timeout)
    except BaseException:
        roll_back(connection)
        raise
    return done


def roll_back(connection: apsw.Connection) -> bool:
    """End whatever transaction is open; False where the connection cannot be used again."""
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except apsw.Error:
        # Closed by a fork, or failing: closing it rolls back too.
        return False
    return True


class Connections:
    """The connections of one backend: one user at a time each; the one given back last is taken first.

    One that its user could not give back, as Ctrl-C may end it between any two calls, is held by nobody else: it is
    closed with the last reference to it, and with it its view of the store.

    Args:
        opener: Opens a new connection, ready for use.
        path: The file of the store.
        url: The name of the store, for errors.
        timeout: How many seconds to wait for a lock: while another process makes the store or recovers it, even the
            settings of a connection have to wait.
        most_idle: How many connections to keep for later.
    """

    def __init__(
        self,
        opener: Callable[[], apsw.Connection],
        path: str,
        url: str,
        timeout: float,
        most_idle: int = _MOST_IDLE,
    ) -> None:
        self._opener = opener
        self._path = path
        self._url = url
        self._timeout = timeout
        self._most_idle = most_idle
        self._idle: list[apsw.Connection] = []
        # All that are open, each with the identity of the file that it was opened on.
        self._open: WeakKeyDictionary[apsw.Connection, object] = WeakKeyDictionary()
        self._closed = False

    def take(self) -> apsw.Connection:
        """A connection for the caller alone, until it is given back."""
        self.check_open()
        file = identity(self._path)
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:
                # Another thread was quicker.
                break
            if self._open.get(connection) == file:
                return connection
            # The file was removed or replaced: what this one would still write, nobody would ever read.
            self._close(connection)
        try:
            return waiting(self._connect, self._path, self._timeout)
        except DRIVER_ERRORS as error:
            raise translate(error, self._path) from error

    def give(self, connection: apsw.Connection, *, broken: bool = False) -> None:
        """Give a connection back, outside of any transaction; a broken one is not used again."""
        if broken or self._closed or len(self._idle) >= self._most_idle:
            self._close(connection)
        else:
            self._idle.append(connection)

    def check_open(self) -> None:
        """Raise where the backend is closed."""
        if self._closed:
            raise store_closed(self._url)

    @property
    def is_in_use(self) -> bool:
        """Whether there may be a connection: one is open, or can be opened."""
        return not self._closed or bool(self._open)

    def close(self) -> None:
        """Close what is idle now, and the rest when it is given back."""
        self._closed = True
        with suppress(IndexError):
            while True:
                self._close(self._idle.pop())

    def close_all(self) -> None:
        """Close every connection, whoever uses it: the process is about to fork."""
        for connection in list(self._open):
            while True:
                try:
                    # Ends a statement that another thread is in the middle of.
                    connection.interrupt()
                    connection.close(force=True)
                except apsw.ThreadingViolationError:
                    time.sleep(0.001)
                except apsw.Error:
                    # It is closed already.
                    break
                else:
                    break
        self._idle.clear()
        self._open.clear()

    def _close(self, connection: apsw.Connection) -> None:
        self._open.pop(connection, None)
        connection.close(force=True)

    def _connect(self) -> apsw.Connection:
        # No fork may happen while a connection is half open.
        with STEADY:
            connection = self._opener()
            self._open[connection] = identity(self._path)
        return connection
