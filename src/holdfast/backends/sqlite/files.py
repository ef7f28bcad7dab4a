"""The file of a store and its folder: made private and durable, and refused where SQLite cannot be safe.

Two rules come from SQLite. Its locks belong to the process and fall when *any* descriptor of the file is closed, so
this module opens the file itself only to create it, before anybody can hold a lock. And a WAL needs memory shared
between the processes that use it, which network file systems do not give.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.backends.fork import STEADY
from holdfast.backends.sqlite.errors import disk_full, io_failed, permission_denied, store_missing
from holdfast.errors import ErrorCode, InvalidInputError, UnsupportedError

_NETWORK = {
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs",
    "nfs4", "ocfs2", "pvfs2", "smb2", "smb3", "smbfs",
}  # fmt: skip
_NETWORK_FUSE = {
    "ceph", "davfs2", "gcsfuse", "glusterfs", "goofys", "juicefs", "mfs", "rclone", "s3fs", "sshfs",
}  # fmt: skip

_MOUNTS = Path("/proc/self/mountinfo")


def usable(path: Path) -> Path:
    """The path in the form that SQLite gets it: absolute, and text that is UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise InvalidInputError(
            f"the name {str(path)!r} is not UTF-8, which is all that SQLite takes",
            code=ErrorCode.BAD_URL,
            hint="rename the folder, or put the store elsewhere",
        ) from None
    return path.absolute()


def identity(path: str) -> tuple[int, int] | None:
    """Which file a name means: its device and its number on it; None where there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - called for each operation, and Path would double its time
    except OSError:
        return None
    return found.st_dev, found.st_ino


def make_file(path: Path, *, create: bool) -> None:
    """Make sure there is a regular file, new and private where there was none.

    Raises:
        NotFoundError: There is none, and `create` is false.
        InvalidInputError: Something that is not a file is there.
    """
    with os_errors(path):
        # A second thread that opens the same new store waits here: a descriptor of ours that is closed after it has
        # taken SQLite's lock on the file would drop that lock.
        with STEADY:
            if not path.exists():
                if not create:
                    raise store_missing(str(path))
                make_folder(path.parent)
                create_private(path)
        if not path.is_file():
            raise InvalidInputError(
                f"{path} is not a file",
                code=ErrorCode.NOT_A_STORE,
                hint="name a folder (the store is its store.db), or a file that ends in .db",
                path=str(path),
            )


def make_folder(folder: Path) -> None:
    """Make a folder and its parents where they are missing, for this user only."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        # exist_ok: another process may be making the same store.
        each.mkdir(mode=0o700, exist_ok=True)
        sync_folder(each.parent)


def create_private(path: Path) -> None:
    """Create an empty file that only this user can read; one that is there already stays as it is."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600))
    except FileExistsError:
        return
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make new names in a folder durable: after a power cut a file can be there with its data, but without its name."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some file systems cannot sync a folder and say so; they have no stronger promise to give.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def is_writable(path: Path) -> bool:
    """Whether SQLite can write the file, and the files that it needs beside it."""
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK | os.X_OK)


def refuse_network(path: Path, mountinfo: str | None = None) -> None:
    """Refuse a place on a network file system, where SQLite's WAL can lose data.

    Args:
        path: The store, which need not exist yet.
        mountinfo: The text of /proc/self/mountinfo; read from there if not given. Where there is none, all is allowed.
    """
    if mountinfo is None:
        try:
            mountinfo = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return
    kind = file_system(path, mountinfo)
    name = kind.removeprefix("fuse.")
    if kind in _NETWORK or (name != kind and name in _NETWORK_FUSE):
        raise UnsupportedError(
            f"{path} lies on a network file system ({kind}), where SQLite cannot keep several processes apart",
            code=ErrorCode.NETWORK_FILESYSTEM,
            hint="put the store on a local disk (HOLDFAST_STORE=/path/there)",
            path=str(path),
            file_system=kind,
        )


def file_system(path: Path, mountinfo: str) -> str:
    """The type of the file system that holds a path; empty where the text does not say."""
    best, kind = "", ""
    target = os.path.realpath(path)
    for line in mountinfo.split("\n"):
        left, separator, right = line.partition(" - ")
        fields = left.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = _unescaped(fields[4])
        # Of two mounts on one point the later one is seen: hence ">=".
        if len(point) >= len(best) and _holds(point, target):
            best, kind = point, right.split(" ", 1)[0]
    return kind


@contextmanager
def os_errors(path: Path) -> Iterator[None]:
    """Run system calls on the store at `path`; their errors come out as holdfast's."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise permission_denied(str(path), why) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(str(path), why) from error
        if error.errno in (errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EISDIR):
            raise InvalidInputError(
                f"there can be no store at {path}: {why}",
                code=ErrorCode.BAD_URL,
                hint="name a folder, or a file that ends in .db",
                path=str(path),
            ) from error
        raise io_failed(str(path), why) from error


def _holds(point: str, target: str) -> bool:
    return target == point or target.startswith(point.rstrip("/") + "/")


def _unescaped(text: str) -> str:
    # The kernel writes space, tab, newline and backslash of a mount point as three octal digits.
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text) if "\\" in text else text
