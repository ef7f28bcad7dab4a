"""Which kind of source is meant: a file, or a PostgreSQL database by its URL or by libpq's keywords.

What looks like an address is never repeated in an error, unless there is a file of that name: it may hold a password.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.errors import ErrorCode, InvalidInputError, UnsupportedError
from holdfast.integrations.langgraph.importing.sqlite_source import SqliteSource

if TYPE_CHECKING:
    from holdfast.integrations.langgraph.importing.decoding import Decoder
    from holdfast.integrations.langgraph.importing.source import Source

_SERVER: Final = ("postgresql://", "postgres://")
_FILE: Final = "sqlite:///"
_KEYWORDS: Final = re.compile(r"\s*\w+\s*=")
"""The beginning of `host=... password=...`, as PostgresSaver takes it too."""
# A slash or a colon is missing, or all that comes before the user; or there is a password in the middle of it.
_MISTYPED: Final = re.compile(r"(?is)\s*postgres[\w+]*\s*(:|//)|.*(://|:.*@|pass\w*\s*=)")


def open_source(source: str | Path, decoder: Decoder) -> Source:
    """Open what is to be imported, for reading.

    Raises:
        InvalidInputError: It is neither a path nor a URL that we know (`bad-url`), or no database of LangGraph's.
        NotFoundError: There is no such file.
    """
    text = str(source)
    if text.startswith(_SERVER):
        return _server(text, decoder)
    path = path_of(text)
    if not path or "\0" in path:
        raise _bad_source("it is no path")
    if not os.path.lexists(path):
        if _KEYWORDS.match(text):
            return _server(text, decoder)
        if _MISTYPED.match(path):
            raise _bad_source("there is no file of that name, nor is it a URL that begins with postgresql://")
    return SqliteSource.open(Path(path), decoder)


def path_of(source: str | Path) -> str:
    """The path that is meant by a source which is a file."""
    return os.path.expanduser(str(source).removeprefix(_FILE))  # noqa: PTH111 - leaves an unknown home as it is


def _server(url: str, decoder: Decoder) -> Source:
    try:
        from holdfast.integrations.langgraph.importing.postgres_source import PostgresSource
    except ImportError as error:
        # Without a name: psycopg is there, and the library that it needs is not.
        if error.name is not None and error.name.partition(".")[0] != "psycopg":
            raise
        raise UnsupportedError(
            "importing from PostgreSQL needs the driver psycopg, which is not installed",
            code=ErrorCode.NOT_SUPPORTED,
            hint="pip install 'holdfast[postgres]'",
        ) from error
    return PostgresSource.open(url, decoder)


def _bad_source(why: str) -> InvalidInputError:
    return InvalidInputError(
        f"the source of an import cannot be used: {why}",
        code=ErrorCode.BAD_URL,
        hint="name the file of SqliteSaver, or postgresql://user:password@host:5432/database",
    )
