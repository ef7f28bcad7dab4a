"""Which kind of source is meant: a file, or the URL of a PostgreSQL database."""

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
# A slash or a colon is missing: as a path, it would be shown, with the password in it.
_MISTYPED: Final = r"(?i)\s*postgres[\w+]*\s*(:|//)"


def open_source(source: str | Path, decoder: Decoder) -> Source:
    """Open what is to be imported, for reading.

    Raises:
        InvalidInputError: It is neither a path nor a URL that we know (`bad-url`), or no database of LangGraph's.
        NotFoundError: There is no such file.
    """
    text = str(source)
    if text.startswith(_SERVER):
        return _server(text, decoder)
    if text.startswith(_FILE):
        text = text.removeprefix(_FILE)
    elif "://" in text or re.match(_MISTYPED, text):
        # The text is not repeated: it may hold a password.
        raise _bad_source("it is neither a path nor a URL that begins with postgresql://")
    if not text or "\0" in text:
        raise _bad_source("it is no path")
    return SqliteSource.open(Path(os.path.expanduser(text)), decoder)  # noqa: PTH111 - leaves an unknown home as it is


def _server(url: str, decoder: Decoder) -> Source:
    try:
        from holdfast.integrations.langgraph.importing.postgres_source import PostgresSource
    except ImportError as error:
        # Without a name: psycopg is there, and the library that it needs is not.
        if error.name is not None and error.name.partition(".")[0] not in ("psycopg", "psycopg_pool"):
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
