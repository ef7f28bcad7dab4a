"""Ways to damage a store: in a row, so that its page stays sound; in a byte; or as another program does it.

A store is the path of a file, or the URL of a schema in PostgreSQL.
"""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import apsw
import psycopg

PAGE = 4096


def spoil(path: Path | str, sql: str, *parameters: Any) -> None:
    """Change exactly one row, with right checksums on its page: only the row itself can tell."""
    if isinstance(path, str):
        with _connected(path) as server:
            assert server.execute(_translated(sql), parameters).rowcount == 1, sql
        return
    connection = apsw.Connection(str(path), vfs="cksmvfs")
    try:
        connection.execute(sql, parameters).fetchall()
        assert connection.changes() == 1, sql
    finally:
        connection.close()


def ask(path: Path | str, sql: str, *parameters: Any) -> Any:
    """One value from the store."""
    if isinstance(path, str):
        with _connected(path) as server:
            row = server.execute(_translated(sql), parameters).fetchone()
            return None if row is None else row[0]
    connection = apsw.Connection(str(path), vfs="cksmvfs")
    try:
        return connection.execute(sql, parameters).get
    finally:
        connection.close()


def _connected(url: str) -> psycopg.Connection[Any]:
    database, _, schema = url.partition("&schema=")
    return psycopg.connect(database, autocommit=True, options=f"-c search_path={schema}")


def _translated(sql: str) -> bytes:
    """A statement for SQLite as PostgreSQL has it; as bytes, because it is a text of a test, never of a user."""
    for name, byte in (("zeroblob", "00"), ("randomblob", "5a")):
        for length in re.findall(rf"\b{name}\((\d+)\)", sql):
            sql = sql.replace(f"{name}({length})", f"x'{byte * int(length)}'")
    sql = re.sub(r"\bx'([0-9a-f]*)'", r"'\\x\1'::bytea", sql)
    return sql.replace("%", "%%").replace("?", "%s").encode()


def root_page(path: Path, name: str) -> int:
    """The first page of a table or an index."""
    page = ask(path, "SELECT rootpage FROM sqlite_schema WHERE name = ?", name)
    assert isinstance(page, int)
    return page


def flip(path: Path, at: int, bit: int = 0) -> None:
    """Turn one bit of the file around. The store must be closed, so that all of it is in the file."""
    assert not path.with_name(path.name + "-wal").exists()
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)


def find(path: Path, wanted: bytes) -> int:
    """Where some bytes of the list of tables are in the file.

    The last ones: when the list grew beyond a page, copies that nobody reads stayed on the first.
    """
    return path.read_bytes().rindex(wanted)


def write_with_plain_sqlite(path: Path) -> None:
    """Let a SQLite that knows nothing of checksums write pages anew, and change nothing that they say."""
    connection = sqlite3.connect(path)
    try:
        connection.execute("REINDEX checkpoints")
        connection.execute("UPDATE checkpoints SET message = message, step = step")
        connection.execute("UPDATE chunks SET epoch = epoch + 0")
        connection.commit()
    finally:
        connection.close()


def chunk_of(path: Path | str, checkpoint: str) -> int:
    """The number of the chunk that stands for the state of a checkpoint."""
    number = ask(
        path,
        "SELECT k.number FROM chunks AS k JOIN checkpoints AS c ON c.root = k.hash WHERE c.id = ?",
        bytes.fromhex(checkpoint),
    )
    assert isinstance(number, int)
    return number
