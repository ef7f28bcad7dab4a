"""Which backend a target names: a path, `sqlite:///path`, `postgresql://...` or `memory:`.

As in SQLAlchemy, what follows `sqlite:///` is the path: `sqlite:///notes.db` is relative and `sqlite:////srv/notes.db`
absolute. A backend and its driver are imported only when a target asks for them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict, Unpack

from holdfast.errors import ErrorCode, InvalidInputError, UnsupportedError
from holdfast.storage.ports import Backend

if TYPE_CHECKING:
    from holdfast.backends.postgres import PostgresBackend

FILE_NAME = "store.db"
"""The store inside a folder."""

_FILE_SUFFIXES = {".db", ".sqlite", ".sqlite3"}
_SQLITE = "sqlite:///"
# A slash or a colon is missing, or pathlib took one away: as a path, it would put the password into a folder's name.
_MISTYPED = r"(?i)\s*postgres[\w+]*\s*(:|//)"
# How libpq takes a server in words; as a path, it would do the same.
_IN_WORDS = r"(?i)(?:.*\s)?password\s*=|\s*(?:host|hostaddr|port|dbname|user|service)\s*=\s*\S+\s+\w+\s*="
_KNOWN = (
    "a folder, a file ending in .db, sqlite:///path, postgresql://user:password@host/database, or memory:"
)
_MEANT = "did you mean postgresql://user:password@host/database?"


class Options(TypedDict):
    """How to open a store; each backend says what they mean to it."""

    durability: Literal["power", "process"]
    create: bool
    timeout: float
    damaged: NotRequired[bool]
    compress: NotRequired[bool]


def connect(target: str | Path, **options: Unpack[Options]) -> Backend:
    """Open the store that a target names.

    Raises:
        InvalidInputError: The target names no kind of store that there is (`bad-url`).
        UnsupportedError: It names one whose driver is not installed.
    """
    if "postgres" in str(target).lower() and re.match(_MISTYPED, str(target)) and not _is_server(target):
        raise _bad_url("this is neither a path nor the URL of a PostgreSQL server", _MEANT)
    if "=" in str(target) and re.match(_IN_WORDS, str(target)) and not _is_server(target):
        raise _bad_url("a PostgreSQL server is named by a URL, not by host=... dbname=...", _MEANT)
    if isinstance(target, str):
        _, separator, _ = target.partition("://")
        if target in ("memory:", "memory://"):
            from holdfast.backends.memory import MemoryBackend

            return MemoryBackend()
        if _is_server(target):
            return _postgres().open(target, **options)
        # Path.expanduser raises where there is no such home; this leaves the text as it is.
        plain = os.path.expanduser(target)  # noqa: PTH111
        target = _path_of_url(target) if separator or not target else Path(plain)
    from holdfast.backends.sqlite import SqliteBackend

    return SqliteBackend.open(store_file(target), **options)


def _is_server(target: str | Path) -> bool:
    return isinstance(target, str) and target.startswith(("postgresql://", "postgres://"))


def _postgres() -> type[PostgresBackend]:
    try:
        from holdfast.backends.postgres import PostgresBackend
    except ImportError as error:
        # Without a name: psycopg is there, and the library that it needs is not.
        if error.name is not None and error.name.partition(".")[0] != "psycopg":
            raise
        raise UnsupportedError(
            "a store in PostgreSQL needs the driver psycopg, which is not installed",
            code=ErrorCode.NOT_SUPPORTED,
            hint="pip install 'holdfast[postgres]'",
        ) from error
    return PostgresBackend


def store_file(path: Path) -> Path:
    """The file that a path means: itself, or `store.db` in the folder that it names."""
    if "\0" in str(path):
        raise _bad_url("a path cannot hold a NUL character")
    # os.path answers False where it may not look, and leaves it to the backend to say so.
    is_folder, is_file = os.path.isdir(path), os.path.isfile(path)  # noqa: PTH112, PTH113
    if is_folder or (path.suffix.lower() not in _FILE_SUFFIXES and not is_file):
        return path / FILE_NAME
    return path


def _path_of_url(url: str) -> Path:
    path = url.removeprefix(_SQLITE)
    if path in (url, ""):
        # Only the scheme is shown: the rest may hold a password.
        scheme = url.partition(":")[0]
        raise _bad_url(f"{scheme!r} is not a kind of store", _MEANT if _is_slip(scheme) else "")
    if "?" in path or "#" in path:
        raise _bad_url("sqlite:/// takes a path and no options")
    if "%" in path:
        from urllib.parse import unquote

        path = unquote(path)
    return Path(path)


def url_of(place: str) -> str:
    """The URL of a store that is not there, from what the error says about its place: a file, or a URL already."""
    if _is_server(place):
        return place
    # What `_path_of_url` would take for something else.
    return _SQLITE + place.replace("%", "%25").replace("?", "%3F").replace("#", "%23")


def _is_slip(scheme: str) -> bool:
    """Whether somebody who wrote this probably meant postgresql."""
    # Slow to import, and only needed on the way to an error.
    import difflib

    return bool(difflib.get_close_matches(scheme.lower(), ["postgresql", "postgres"]))


def _bad_url(why: str, hint: str = "") -> InvalidInputError:
    return InvalidInputError(
        f"no store can be opened: {why}", code=ErrorCode.BAD_URL, hint=hint or f"use {_KNOWN}"
    )
