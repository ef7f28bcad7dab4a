"""One writer at a time for a file, in whatever thread or process it is.

The lock is on an empty file beside it: the file itself is replaced when lines are cut out of it, and Windows replaces
no file that somebody has open. Whoever lets go removes that file while the lock is still held, so who waited may have
got the lock of a file that has no name any more: it looks again, and starts over. Locks of a process that dies are let
go by the system.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from holdfast.errors import BackendError, ErrorCode
from holdfast.objects.hashing import digest

_PATIENCE: Final = 30.0
"""Seconds. It is held while a line or a file is written: who waits longer waits for a process that was stopped."""
_FIRST_PAUSE: Final = 0.001
_LONGEST_PAUSE: Final = 0.05

_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_held: dict[tuple[int, str], int] = {}
"""The handles of this process, by the thread that has it and what it locks."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep every other writer of a file out; its folder has to be there.

    Raises:
        BackendError: Somebody else has not let go of it for half a minute, or the file system has no locks.
    """
    # By whatever name it is reached, it is the same file.
    beside = _lock_file(Path(os.path.realpath(path)))
    owner = (threading.get_ident(), str(beside))
    if owner in _held:
        # It would wait for itself: a signal handler that saves came in between.
        raise _busy(path, "the thread that is writing it was interrupted by this one")
    handle = _taken(beside, path)
    _held[owner] = handle
    try:
        yield
    finally:
        # It is gone in a child that was forked in between, by a signal handler: there it is not ours to let go.
        if _held.pop(owner, None) is not None:
            _let_go(handle, beside)


def _lock_file(path: Path) -> Path:
    # Short, however long the name is; with a dot, so that nobody takes it for an archive.
    return path.with_name(f".{path.name[:40]}-{digest(path.name.encode()).hex()[:8]}.lock")


def _taken(beside: Path, path: Path) -> int:
    until = time.monotonic() + _PATIENCE
    pause = _FIRST_PAUSE
    while True:
        handle = _opened(beside)
        if handle is not None:
            try:
                if _try_lock(handle) and _is_named(handle, beside):
                    return handle
            except OSError as error:
                os.close(handle)
                # Nobody can have locked it here, so nobody waits for it.
                with suppress(OSError):
                    beside.unlink()
                raise _no_locks(path, error) from error
            except BaseException:
                # Ctrl-C: a lock that nobody knows of would never be let go.
                os.close(handle)
                raise
            os.close(handle)
        if time.monotonic() > until:
            raise _busy(path, f"another process has been writing it for {_PATIENCE:.0f} seconds")
        # Not by waiting inside of the system: nobody could say then that it takes too long.
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _opened(beside: Path) -> int | None:
    try:
        handle = os.open(beside, os.O_RDWR | os.O_CREAT | _NO_FOLLOW, 0o666)
    except PermissionError:
        # Windows says this of a file that is about to be gone.
        if os.name != "nt":
            raise
        return None
    if hasattr(os, "fchmod"):
        # For all who may write into the folder, whatever the umask: a process that is killed leaves it behind. Whoever
        # did not make it may not, and need not.
        with suppress(OSError):
            os.fchmod(handle, 0o666)
    return handle


def _is_named(handle: int, beside: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), beside.lstat())
    except FileNotFoundError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _try_lock(handle: int) -> bool:
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

    def _let_go(handle: int, beside: Path) -> None:
        # Closing lets go of it as well, but some time later.
        with suppress(OSError):
            msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
        os.close(handle)
        # Whoever waits has it open, and then it stays.
        with suppress(OSError):
            beside.unlink()

else:
    import fcntl

    def _try_lock(handle: int) -> bool:
        try:
            # Not lockf, which lets the threads of one process pass each other.
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _let_go(handle: int, beside: Path) -> None:
        try:
            # Before the lock goes: afterwards it may be somebody else's.
            with suppress(OSError):
                beside.unlink()
            # By name: a child that was forked meanwhile has the same lock, and closing would leave it.
            fcntl.flock(handle, fcntl.LOCK_UN)
        finally:
            os.close(handle)

    def _forget() -> None:
        """In a child: what its parent has locked is the parent's, and must not outlive it."""
        for handle in _held.values():
            with suppress(OSError):
                os.close(handle)
        _held.clear()

    os.register_at_fork(after_in_child=_forget)


def _busy(path: Path, why: str) -> BackendError:
    return BackendError(
        f"{path} cannot be written now: {why}",
        code=ErrorCode.IO_FAILED,
        hint="try again; if nothing else writes it, look for a process that was stopped",
        path=str(path),
    )


def _no_locks(path: Path, error: OSError) -> BackendError:
    return BackendError(
        f"{path} cannot be shared with other writers: {error.strerror or error}",
        code=ErrorCode.IO_FAILED,
        hint="its file system has no locks: put it elsewhere, or write one file a checkpoint (json)",
        path=str(path),
    )
