"""The driver's errors become ours. SQLite's codes say what went wrong; ours say what a person can do about it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import apsw
import ormsgpack

from holdfast.backends.rules import store_damaged
from holdfast.errors import (
    BackendError,
    ErrorCode,
    HoldfastError,
    InvalidInputError,
    NotFoundError,
    StateError,
    bad_argument,
)

DRIVER_ERRORS = (
    apsw.Error,
    # Text that we wrote is UTF-8, so what is not has been changed.
    UnicodeDecodeError,
    # Of the driver, and of the seal that comes before it.
    OverflowError,
    UnicodeEncodeError,
    ormsgpack.MsgpackEncodeError,
)
"""What a call into SQLite raises; `translate` makes errors of ours of them."""

_DAMAGED_PAGE = {apsw.SQLITE_IOERR_DATA, apsw.SQLITE_IOERR_CORRUPTFS, apsw.SQLITE_IOERR_SHORT_READ}
_UNFIT_VALUE = {apsw.SQLITE_CONSTRAINT_DATATYPE, apsw.SQLITE_CONSTRAINT_NOTNULL}


def translate(error: Exception, path: str) -> HoldfastError:
    """The error to raise instead of one of `DRIVER_ERRORS`."""
    if isinstance(error, UnicodeDecodeError):
        return store_damaged(path, "a text in it is not UTF-8")
    if not isinstance(error, apsw.Error):
        return _unfit(error, path)
    build = next((build for kinds, build in _OURS if isinstance(error, kinds)), None)
    return io_failed(path, f"{type(error).__name__}: {error}") if build is None else build(error, path)


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Run calls into SQLite on the store at a path; their errors come out as ours."""
    try:
        yield
    except DRIVER_ERRORS as error:
        raise translate(error, path) from error


def extended_code(error: apsw.Error) -> int:
    """SQLite's exact result code; 0 for an error that the driver made up itself."""
    return int(getattr(error, "extendedresult", 0))


def store_locked(path: str, seconds: float) -> BackendError:
    """Somebody else was writing for the whole time that we may wait."""
    return BackendError(
        f"the store {path} is locked: another writer held it for more than {seconds:g} s",
        code=ErrorCode.STORE_LOCKED,
        hint="try again, or open the store with a longer timeout",
        path=path,
        timeout=seconds,
    )


def inside_a_save(path: str) -> BackendError:
    """This thread itself is writing, and was interrupted by something that wants to write now."""
    return BackendError(
        f"the store {path} is locked: this thread is in the middle of a save",
        code=ErrorCode.STORE_LOCKED,
        hint="a signal handler or __del__ cannot save while its thread does: set a flag there and save later, or let "
        "recorder.interrupts() take the signals",
        path=path,
    )


def permission_denied(path: str, why: str) -> BackendError:
    """The operating system does not let us."""
    return BackendError(
        f"the store {path} cannot be written: {why}",
        code=ErrorCode.PERMISSION_DENIED,
        hint="make the file and its folder writable for this user, or use a store elsewhere (HOLDFAST_STORE)",
        path=path,
    )


def disk_full(path: str, why: str) -> BackendError:
    """There is no room; nothing was written."""
    return BackendError(
        f"there is no room to write to the store {path}: {why}",
        code=ErrorCode.DISK_FULL,
        hint="make room on that disk, then do the same again; what is stored can be read meanwhile",
        path=path,
    )


def io_failed(path: str, why: str) -> BackendError:
    """The system or the device failed in a way that has no code of its own."""
    return BackendError(
        f"the store {path} could not be read or written: {why}",
        code=ErrorCode.IO_FAILED,
        hint="look into the system's log for errors of the disk, then try again",
        path=path,
    )


def store_missing(path: str) -> NotFoundError:
    """There is no store in this place."""
    return NotFoundError(
        f"there is no store at {path}",
        code=ErrorCode.STORE_MISSING,
        hint="make one with `holdfast init`, or name another with --store or HOLDFAST_STORE",
        path=path,
    )


def _locked(error: apsw.Error, path: str) -> HoldfastError:
    return BackendError(
        f"the store {path} is locked: {error}",
        code=ErrorCode.STORE_LOCKED,
        hint="try again, or open the store with a longer timeout",
        path=path,
    )


def _input_output(error: apsw.Error, path: str) -> HoldfastError:
    if extended_code(error) in _DAMAGED_PAGE:
        why = "a page does not match its checksum (it changed on disk, or another SQLite program wrote it)"
        return store_damaged(path, why)
    return io_failed(path, str(error))


def _constraint(error: apsw.Error, path: str) -> HoldfastError:
    if extended_code(error) in _UNFIT_VALUE:
        return _unfit(error, path)
    return store_damaged(path, f"its rows contradict each other ({error})")


def _too_big(error: apsw.Error, path: str) -> HoldfastError:
    return InvalidInputError(
        f"a value is too large for the store {path}: {error}",
        code=ErrorCode.VALUE_TOO_LARGE,
        hint="split the state: SQLite keeps at most 1 GB in one piece",
        path=path,
    )


def _cut_off(_error: apsw.Error, path: str) -> HoldfastError:
    return StateError(
        f"this use of the store {path} was cut off: the process forked in the middle of it",
        code=ErrorCode.STORE_CLOSED,
        hint="do it again, and fork outside of reads and saves",
        path=path,
    )


def _cannot_open(error: apsw.Error, path: str) -> HoldfastError:
    if not os.path.exists(path):  # noqa: PTH110 - the path is text here, and this is its only use
        return store_missing(path)
    folder = os.path.dirname(path)  # noqa: PTH120 - as above
    if not os.access(path, os.R_OK) or not os.access(folder, os.W_OK | os.X_OK):
        return permission_denied(path, "the file cannot be read, or its folder cannot be written")
    return io_failed(path, str(error))


def _unfit(error: Exception, path: str) -> InvalidInputError:
    return bad_argument(
        f"a value cannot be kept in the store {path}: {error}",
        "use 64-bit integers, and text without half surrogate pairs, where each is asked for",
        path=path,
    )


# The first that fits. Everything else is a failure without a name of its own (`io-failed`).
_OURS: tuple[tuple[tuple[type[apsw.Error], ...], Callable[[apsw.Error, str], HoldfastError]], ...] = (
    ((apsw.BusyError, apsw.LockedError, apsw.ProtocolError), _locked),
    ((apsw.IOError,), _input_output),
    ((apsw.FullError,), lambda error, path: disk_full(path, str(error))),
    ((apsw.CantOpenError,), _cannot_open),
    (
        (apsw.ReadOnlyError, apsw.PermissionsError, apsw.AuthError),
        lambda error, path: permission_denied(path, str(error)),
    ),
    # SQLError is what a missing table or column gives: the statements themselves are constant.
    (
        (apsw.CorruptError, apsw.NotADBError, apsw.FormatError, apsw.SQLError),
        lambda error, path: store_damaged(path, str(error)),
    ),
    ((apsw.ConstraintError,), _constraint),
    # A value of another type than the statement needs.
    ((apsw.MismatchError, apsw.BindingsError), _unfit),
    ((apsw.TooBigError,), _too_big),
    # Connections are closed under their users only around a fork.
    ((apsw.ConnectionClosedError, apsw.CursorClosedError, apsw.InterruptError), _cut_off),
)
