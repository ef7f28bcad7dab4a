"""Where an export goes and in which form: what does not fit each other is refused before anything is read or written.

A person names the place, so that a link is followed: the file that it leads to is written, and the link stays one. What
is neither a file nor a folder is refused. Writing to a pipe could wait for ever, and a file that is put into its place
takes it away from whoever reads there. So is a link that leads nowhere for good: to itself, or to a folder that is not
there.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

from holdfast.errors import BackendError, ErrorCode, InvalidInputError

FORMATS: Final = ("json", "json.gz", "jsonl", "jsonl.gz", "html")
IN_A_FOLDER: Final = ("json", "json.gz")
_OF_ALL: Final = "name a file that ends with .jsonl, .jsonl.gz or .html"


class Target:
    """A file or a folder that was named.

    Args:
        given: The path.
        wanted: The format, where it was named as well.
        whole: Whether a whole session is written.

    Raises:
        InvalidInputError: One of them does not fit the others, or nothing can be written there.
    """

    def __init__(self, given: str | Path, wanted: str | None, *, whole: bool) -> None:
        if str(given) == "":
            raise bad("the path is empty", "name a file or a folder; the current folder is .")
        if wanted is not None and wanted not in FORMATS:
            raise bad(f"format cannot be {wanted!r}", f"use one of: {', '.join(FORMATS)}")
        self.path = Path(given)
        mode = _mode(self.path)
        self.is_folder = str(given).endswith(("/", "\\")) or (mode is not None and stat.S_ISDIR(mode))
        if self.is_folder:
            _check_folder(self.path, str(given), mode)
            self.kind = _in_folder(str(given), wanted, whole=whole)
            return
        check_ordinary(self.path)
        self.kind = _in_file(self.path.name, wanted)
        if whole and self.kind in IN_A_FOLDER:
            raise bad(f"a whole session does not go into a {self.kind} file", _OF_ALL)


def check_stream(kind: str | None, *, count: int, whole: bool) -> bool:
    """Whether what goes to a stream is written as lines.

    Raises:
        InvalidInputError: A stream is not given this format, or the format has no room for so many.
    """
    if kind not in (None, "json", "jsonl"):
        what = f"format cannot be {kind!r} for a stream" if kind in FORMATS else f"format cannot be {kind!r}"
        raise bad(what, "a stream is given json, or jsonl for several; name a file for the rest")
    several = whole or count != 1
    if kind == "json" and several:
        what = "a whole session is" if whole else f"{count:,} checkpoints are"
        raise bad(
            f"{what} not one JSON document",
            "use jsonl, one a line; or name a folder, which gets a file for each",
        )
    return several or kind == "jsonl"


def check_ordinary(path: Path) -> None:
    """Refuse what is there and is no file: a pipe with a name, a device, a link that leads in a circle.

    Raises:
        InvalidInputError: That is there.
        BackendError: It cannot be looked at, so that nobody knows what would be replaced.
    """
    mode = _mode(path)
    if mode is not None and not stat.S_ISREG(mode):
        raise bad(
            f"{path} is no ordinary file",
            "name a file; what is to go on through a pipe can be written to stdout (-)",
        )


def real(path: Path) -> Path:
    """What a path leads to: a file that is replaced must not replace the link that led to it."""
    return Path(os.path.realpath(path))


def make_folder(folder: Path) -> None:
    """Make a folder with those that it lies in.

    Raises:
        InvalidInputError: The way leads through a link to something that is not there.
        OSError: Of the system.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        # All that the system says is that the link is there.
        for each in (folder, *folder.parents):
            if each.is_symlink() and _mode(each) is None:
                raise bad(
                    f"{each} is a link to {each.readlink()}, which is not there",
                    "make the folder that it leads to, or name another one",
                ) from None
        raise


def unwritable(path: Path, error: OSError) -> BackendError:
    """The system refused it."""
    codes = {errno.ENOSPC: ErrorCode.DISK_FULL, errno.EACCES: ErrorCode.PERMISSION_DENIED}
    return BackendError(
        f"{path} cannot be written: {error.strerror or error}",
        code=codes.get(error.errno or 0, ErrorCode.IO_FAILED),
        hint="look at the folder, its permissions and the room on its disk",
        path=str(path),
    )


def bad(message: str, hint: str) -> InvalidInputError:
    """The caller asked for what cannot be."""
    return InvalidInputError(message, code=ErrorCode.BAD_ARGUMENT, hint=hint)


def _mode(path: Path) -> int | None:
    """What is at a path; None where nothing is."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        # That no folder can be in a file is told to whoever makes it.
        return None
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise unwritable(path, error) from error
        link = next(each for each in (path, *path.parents) if each.is_symlink())
        raise bad(
            f"{link} is a link that leads in a circle", "remove the link, or name something else"
        ) from error


def _check_folder(path: Path, given: str, mode: int | None) -> None:
    if mode is not None and not stat.S_ISDIR(mode):
        raise bad(
            f"{given} ends as a folder does, and {path} is a file",
            f"leave the {given[-1]} out, or name a folder",
        )


def _in_folder(given: str, wanted: str | None, *, whole: bool) -> str:
    if whole:
        raise bad(f"a whole session goes into one file, and {given} is a folder", _OF_ALL)
    if (wanted or "json") not in IN_A_FOLDER:
        raise bad(
            f"{given} is a folder, which gets a file for each checkpoint, and not {wanted}",
            f"use json or json.gz; or name a file that ends with .{wanted}",
        )
    return wanted or "json.gz"


def _in_file(name: str, wanted: str | None) -> str:
    found = next((each for each in sorted(FORMATS, key=len, reverse=True) if name.endswith(f".{each}")), None)
    if found is not None and wanted not in (None, found):
        # Whoever opens it, or imports it, goes by the name.
        raise bad(
            f"{name!r} ends with .{found}, and the format is {wanted}",
            f"leave the format out, or name a file that ends with .{wanted}",
        )
    kind = wanted or found
    if kind is None:
        raise bad(
            f"{name!r} does not say what to write",
            f"end it with one of: .{', .'.join(FORMATS)}; a folder ends with /, and gets a file for each checkpoint",
        )
    return kind
