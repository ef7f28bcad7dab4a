"""Why an archive is refused: one error for each reason, with the file and the line it is about."""

from __future__ import annotations

import re
from typing import Final

from holdfast.errors import ConflictError, ErrorCode, IntegrityError, InvalidInputError, UnsupportedError

_NUMBERS: Final = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6}){0,3}")
_KINDS: Final[dict[type, str]] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}
_ANEW = "export it again, or get the file anew from where it came from"


def kind_of(kind: type) -> str:
    """What a value is, in the words of JSON: who reads about a file need not know Python."""
    return _KINDS.get(kind, f"a {kind.__name__}")


def malformed(where: str, reason: str, why: str, hint: str = _ANEW) -> InvalidInputError:
    """What is there is no archive of ours, nor one that we can read.

    Args:
        where: The file, and the line where there are several.
        reason: One word for programs.
        why: What is wrong, for people; the end of a sentence.
        hint: What to do.
    """
    return InvalidInputError(
        f"{where} cannot be imported: {why}",
        code=ErrorCode.ARCHIVE_MALFORMED,
        hint=hint,
        file=where,
        reason=reason,
    )


def too_large(where: str, reason: str, why: str, limit: str) -> InvalidInputError:
    """There is more of something than the limits allow; `limit` is the field of ArchiveLimits that decides."""
    return InvalidInputError(
        f"{where} cannot be imported: {why}",
        code=ErrorCode.ARCHIVE_TOO_LARGE,
        hint=f"if you trust it, raise the limit in Python: store.import_(..., limits=ArchiveLimits({limit}=...))",
        file=where,
        reason=reason,
    )


def damaged(where: str, reason: str, why: str) -> IntegrityError:
    """It does not fit its own hashes."""
    return IntegrityError(
        f"{where} was changed since it was written: {why}",
        code=ErrorCode.ARCHIVE_DAMAGED,
        hint=_ANEW,
        file=where,
        reason=reason,
    )


def older_than_parent(where: str, parent: bytes) -> InvalidInputError:
    """A checkpoint that is not younger than one that it was made from: no writer makes one like that."""
    return malformed(where, "older-than-parent", f"it is not younger than its ancestor {parent.hex()[:12]}")


def key_taken(where: str, session: str, key: str, existing: bytes) -> ConflictError:
    """A key of an archive names another checkpoint here; whoever imports has not chosen it."""
    error = ConflictError.key_taken(
        session, key, existing=existing, why=f"which is another one than {where} has"
    )
    error.hint = (
        "a key names one checkpoint of a session, for good: import into another store, or leave that file out"
    )
    error.details["file"] = where
    return error


def unknown_foreign_version(where: str, found: object) -> UnsupportedError | InvalidInputError:
    """A file of another program, in a version of its form that is not 0.0.x."""
    if type(found) not in (str, int) or not _NUMBERS.fullmatch(str(found)):
        return malformed(where, "version", f"its version is {found!r:.40}, which is none")
    return UnsupportedError(
        f"{where} is a checkpoint of another program, in version {found} of its form; this version of holdfast "
        "reads 0.0.x",
        code=ErrorCode.FORMAT_TOO_NEW,
        hint="upgrade holdfast: pip install --upgrade holdfast; or have the file written in version 0.0.x",
        file=where,
        reason="version",
    )


def wrong_version(where: str, found: object, newest: int) -> UnsupportedError:
    """A format of archives that this program does not read."""
    code, hint = ErrorCode.FORMAT_TOO_OLD, "export it again with the program that it came from"
    if type(found) is int and found > newest:
        code, hint = ErrorCode.FORMAT_TOO_NEW, "upgrade holdfast: a newer version wrote it"
    return UnsupportedError(
        f"{where} has version {found!r:.40} of the archive format; this program reads up to {newest}",
        code=code,
        hint=hint,
        file=where,
        reason="version",
    )
