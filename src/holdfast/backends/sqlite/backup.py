"""Backup: a consistent copy of a store, made beside running writers.

The copy is written page by page inside one read transaction, so that it is one moment of the store, page checksums
included. It grows under a temporary name and gets its own only when it is whole and durable: whoever sees the target
sees a complete store.
"""

from __future__ import annotations

import os
from pathlib import Path

import apsw

from holdfast.backends.sqlite.connection import CHECKSUMS
from holdfast.backends.sqlite.errors import translate, translated
from holdfast.backends.sqlite.files import create_private, os_errors, sync_folder, usable
from holdfast.errors import ErrorCode, InvalidInputError, bad_argument


def copy_store(source: apsw.Connection, path: str, target: Path) -> None:
    """Copy the whole store behind a connection to a new file.

    Args:
        source: A connection, outside of any transaction.
        path: Its file, for errors.
        target: The new file, in a folder that exists.

    Raises:
        InvalidInputError: Something is at the target already, or its folder is not there.
    """
    # Absolute, so that errors name the place; not resolved, so that a link at the target counts as something.
    target = usable(target)
    if os.path.lexists(target):
        raise _exists(target)
    if not target.parent.is_dir():
        raise bad_argument(
            f"there is no folder {target.parent} to write the copy into",
            "make the folder first, or name another",
            path=str(target),
        )
    # The name of the target is left out of this one: together they could be too long.
    growing = target.with_name(f".holdfast-{os.urandom(8).hex()}.tmp")
    try:
        with os_errors(target):
            create_private(growing)
        with translated(path):
            _copy_pages(source, growing, target)
        with os_errors(target):
            _sync_file(growing)
            _publish(growing, target)
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            Path(f"{growing}{suffix}").unlink(missing_ok=True)


def _copy_pages(source: apsw.Connection, growing: Path, target: Path) -> None:
    copy = apsw.Connection(str(growing), flags=apsw.SQLITE_OPEN_READWRITE, vfs=CHECKSUMS)
    try:
        with copy.backup("main", source, "main") as backup:
            # All pages in one step: with several, each commit of a writer would start it over.
            backup.step(-1)
    except (apsw.FullError, apsw.ReadOnlyError) as error:
        # Only the target is written to, so it is the one without room.
        raise translate(error, str(target)) from error
    finally:
        copy.close()


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        # Before it gets its name: a power cut must not leave a named file without its pages.
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _publish(growing: Path, target: Path) -> None:
    try:
        # Unlike rename, link never replaces what somebody else put there meanwhile.
        os.link(growing, target)
    except FileExistsError:
        raise _exists(target) from None
    except OSError:
        # No hard links on this file system: take the name first, then replace only what we took.
        try:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            raise _exists(target) from None
        growing.replace(target)
    sync_folder(target.parent)


def _exists(target: Path) -> InvalidInputError:
    return InvalidInputError(
        f"{target} is there already; a copy never replaces anything",
        code=ErrorCode.PATH_EXISTS,
        hint="name a new file",
        path=str(target),
    )
