"""Files: what is at a path, read whole, and written so that a crash leaves the old or the new."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from holdfast.errors import ErrorCode, InvalidInputError

__all__ = [
    "ABSENT",
    "FileState",
    "Unreadable",
    "check_path",
    "is_temporary",
    "read_file",
    "remove_file",
    "write_file",
]

_READS: Final = 3
_PREFIX: Final = ".holdfast-"
_SUFFIX: Final = ".tmp"


@dataclass(frozen=True)
class FileState:
    """What is at a path: a file with its bytes, a symbolic link with its target, or nothing."""

    kind: str
    """file, symlink or absent."""
    mode: int | None = None
    """Permission bits; None where only `executable` is known (a file as git has it)."""
    content: bytes = b""
    executable: bool = False

    def same(self, other: FileState) -> bool:
        """Say whether both are the same file, as far as both know."""
        if self.kind != other.kind or self.content != other.content:
            return False
        if self.kind != "file":
            return True
        if self.mode is None or other.mode is None:
            return self.executable == other.executable
        return self.mode == other.mode

    def to_dict(self) -> dict[str, Any]:
        """The state as data."""
        if self.kind == "absent":
            return {"kind": "absent"}
        return {"kind": self.kind, "mode": self.mode, "content": self.content}

    @classmethod
    def from_dict(cls, data: Any) -> FileState:
        """The file that `to_dict` described."""
        mode = data.get("mode")
        return cls(
            str(data["kind"]),
            mode,
            bytes(data.get("content", b"")),
            executable=bool(mode is not None and mode & stat.S_IXUSR),
        )


ABSENT: Final = FileState("absent")


class Unreadable(Exception):  # noqa: N818 - it never leaves this package
    """Why something on disk is no FileState; the text is for people."""


def check_path(path: str) -> str:
    """Return a path if it lies inside a working folder and not inside git's or holdfast's own.

    Raises:
        InvalidInputError: It is absolute, climbs out, or would write into `.git` or `.holdfast`.
    """
    parts = PurePosixPath(path).parts
    # Stored data may come from anybody. A hook that is written into `.git` would run with the next commit.
    forbidden = {".git", ".holdfast"}
    if (
        not parts
        or path.startswith("/")
        or "\x00" in path
        or any(part == ".." or part.rstrip(". ").lower() in forbidden for part in parts)
    ):
        raise InvalidInputError(
            f"{path!r} cannot be restored: it leads out of the working folder, or into .git or .holdfast",
            code=ErrorCode.BAD_PATH,
            hint="do not trust where this code state comes from",
            path=path.encode("utf-8", "replace").decode(),
        )
    return path


def is_temporary(name: str) -> bool:
    """Say whether a file name is one that a restore writes to first."""
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


def read_file(root: Path, name: str, *, limit: int | None = None) -> FileState:
    """Return what is at a path in a folder. A file that changes while it is read is read again.

    A folder is no file, and what lies behind a symbolic link is not in the folder: both count as absent.

    Raises:
        Unreadable: It is a device, larger than `limit`, or may not be read.
    """
    path = root / name
    try:
        for _ in range(_READS):
            try:
                before = os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                return ABSENT
            if stat.S_ISDIR(before.st_mode) or _behind_link(root, name):
                return ABSENT
            if stat.S_ISLNK(before.st_mode):
                return FileState("symlink", None, os.fsencode(path.readlink()))
            if not stat.S_ISREG(before.st_mode):
                raise Unreadable("it is no ordinary file")
            if limit is not None and before.st_size > limit:
                raise Unreadable(f"it has {before.st_size} bytes, more than {limit}")
            content = path.read_bytes()
            after = os.lstat(path)
            if (before.st_mtime_ns, before.st_size, before.st_ino, before.st_ctime_ns) == (
                after.st_mtime_ns,
                after.st_size,
                after.st_ino,
                after.st_ctime_ns,
            ) and len(content) == after.st_size:
                mode = stat.S_IMODE(after.st_mode) & 0o777
                return FileState("file", mode, content, executable=bool(mode & stat.S_IXUSR))
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from error
    raise Unreadable("it changes while it is read")


def write_file(root: Path, path: str, wanted: FileState) -> None:
    """Put a file or link in place: a temporary file beside it, synced, then renamed over it.

    Raises:
        Unreadable: A parent is a symbolic link or no folder, or the system refused.
    """
    place = root / path
    try:
        _make_parents(root, path)
        temporary = temporary_of(place)
        temporary.unlink(missing_ok=True)
        if wanted.kind == "symlink":
            temporary.symlink_to(os.fsdecode(wanted.content))
        else:
            mode = (
                wanted.mode
                if wanted.mode is not None
                else (0o777 if wanted.executable else 0o666) & ~_umask()
            )
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(wanted.content)
                file.flush()
                os.fchmod(handle, mode)
                os.fsync(handle)
        temporary.replace(place)
        _sync_folder(place.parent)
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from error


def remove_file(root: Path, path: str) -> None:
    """Remove a file or link, and the folders that this leaves empty.

    Raises:
        Unreadable: A parent is a symbolic link, or the system refused.
    """
    place = root / path
    try:
        _check_parents(root, path)
        place.unlink()
        _sync_folder(place.parent)
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from error
    for parent in place.parents:
        if parent == root:
            break
        try:
            parent.rmdir()
        except OSError:
            break


def temporary_of(place: Path) -> Path:
    """The name that a file is written under first; the same each time, so that what a crash left is found."""
    digest = hashlib.blake2b(os.fsencode(place.name), digest_size=8).hexdigest()
    return place.with_name(f"{_PREFIX}{digest}{_SUFFIX}")


def _check_parents(root: Path, path: str) -> None:
    at = root
    for part in PurePosixPath(path).parts[:-1]:
        at /= part
        # A link could lead anywhere: what is restored stays inside the folder.
        if at.is_symlink() or (at.exists() and not at.is_dir()):
            raise Unreadable(f"{at.relative_to(root)} is a symbolic link or no folder")


def _behind_link(root: Path, path: str) -> bool:
    at = root
    for part in path.split("/")[:-1]:
        at /= part
        if at.is_symlink():
            return True
    return False


def _make_parents(root: Path, path: str) -> None:
    _check_parents(root, path)
    (root / path).parent.mkdir(parents=True, exist_ok=True)


def _umask() -> int:
    # There is no way to ask without setting it; what runs beside us sees 022 for an instant at worst.
    value = os.umask(0o022)
    os.umask(value)
    return value


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
