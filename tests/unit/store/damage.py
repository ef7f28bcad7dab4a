"""Ways to damage a store: in a row, so that its page stays sound; in a byte; or as another program does it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import apsw

PAGE = 4096


def spoil(path: Path, sql: str, *parameters: Any) -> None:
    """Change exactly one row, with right checksums on its page: only the row itself can tell."""
    connection = apsw.Connection(str(path), vfs="cksmvfs")
    try:
        connection.execute(sql, parameters).fetchall()
        assert connection.changes() == 1, sql
    finally:
        connection.close()


def ask(path: Path, sql: str, *parameters: Any) -> Any:
    """One value from the store."""
    connection = apsw.Connection(str(path), vfs="cksmvfs")
    try:
        return connection.execute(sql, parameters).get
    finally:
        connection.close()


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
    """Where some bytes are in the file; they must be there once."""
    content = path.read_bytes()
    assert content.count(wanted) == 1, content.count(wanted)
    return content.index(wanted)


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


def chunk_of(path: Path, checkpoint: str) -> int:
    """The number of the chunk that stands for the state of a checkpoint."""
    number = ask(
        path,
        "SELECT k.number FROM chunks AS k JOIN checkpoints AS c ON c.root = k.hash WHERE c.id = ?",
        bytes.fromhex(checkpoint),
    )
    assert isinstance(number, int)
    return number
