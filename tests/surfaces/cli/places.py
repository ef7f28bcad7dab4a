"""Where the store of a test is: in the folder it works in, or in PostgreSQL.

Every test that runs commands in this process runs on both, unless it says otherwise: `on_sqlite` for what is about the
files of a store, or about where it is looked for, and `KEPT_IN = ["sqlite"]` for a whole module of that. Processes and
terminals cost more, and run on SQLite; `on_both` for those that say something about the other one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

KINDS = ("sqlite", "postgres")

on_sqlite = pytest.mark.parametrize("kept_in", ["sqlite"], indirect=True)
on_both = pytest.mark.parametrize("kept_in", KINDS, indirect=True)


def place(home: Path) -> str | Path:
    """What to open for the store that the commands use."""
    return os.environ.get("HOLDFAST_STORE") or home / ".holdfast"


def here() -> str:
    """The same as a word of a command that is given in that folder."""
    return str(place(Path()))


def name(home: Path) -> str:
    """The name of that store, which a person has to type."""
    url = os.environ.get("HOLDFAST_STORE")
    if url is None:
        return home.name
    database, schema = _taken_apart(url)
    return f"{conninfo_to_dict(database)['dbname']}.{schema}"


def zero_chunks(home: Path, root: bytes | None = None) -> None:
    """Spoil the chunk of this name, or all of them, with everything around them in order."""
    with _connected(home) as connection:
        zeroes = "zeroblob(length(data))"
        if isinstance(connection, psycopg.Connection):
            zeroes = "decode(repeat('00', length(data)), 'hex')"
        where = "" if root is None else f" WHERE hash = {_literal(connection, root)}"
        connection.execute(f"UPDATE chunks SET data = {zeroes}{where}")


def change_message(home: Path, checkpoint: str) -> None:
    """Spoil the row of a checkpoint."""
    with _connected(home) as connection:
        where = f"id = {_literal(connection, bytes.fromhex(checkpoint))}"
        connection.execute(f"UPDATE checkpoints SET message = 'other' WHERE {where}")


def content(home: Path) -> dict[str, list[str]]:
    """Every row of every table; of a store in a file every byte of it."""
    if not os.environ.get("HOLDFAST_STORE"):
        return {"bytes": [(home / ".holdfast" / "store.db").read_bytes().hex()]}
    with _connected(home) as connection:
        tables = "SELECT name FROM sqlite_schema WHERE type = 'table'"
        if isinstance(connection, psycopg.Connection):
            tables = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        names = [each for (each,) in connection.execute(tables).fetchall()]
        return {
            each: sorted(map(repr, connection.execute(f'SELECT * FROM "{each}"').fetchall()))
            for each in names
        }


@contextmanager
def _connected(home: Path) -> Iterator[Any]:
    url = os.environ.get("HOLDFAST_STORE")
    if url is None:
        # It keeps the checksums of pages right: only what was changed is wrong.
        database = apsw.Connection(str(home / ".holdfast" / "store.db"), vfs="cksmvfs")
        try:
            yield database
        finally:
            database.close()
        return
    server, schema = _taken_apart(url)
    with psycopg.connect(server, options=f"-c search_path={schema}", autocommit=True) as connection:
        yield connection


def _taken_apart(url: str) -> tuple[str, str]:
    """What the driver understands, and the schema."""
    server, _, schema = url.partition("&schema=")
    return server, schema


def _literal(connection: object, value: bytes) -> str:
    return f"'\\x{value.hex()}'" if isinstance(connection, psycopg.Connection) else f"x'{value.hex()}'"
