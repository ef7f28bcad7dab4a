"""A PostgreSQL server for the benchmark, and what is asked of it about sizes and its log.

It is the server of the tests (`tests/services/postgres.py`), with its own defaults and every flush on. Autovacuum is
off, so that nobody's turn is disturbed by the tidying up of another's tables; the benchmark vacuums and analyzes by
itself, all databases at the same point.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import tuple_row
from tests.services.postgres import Server

SETTINGS = {"shared_buffers": "128MB", "autovacuum": "off"}

DURABLE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}
"""What every contender's connection has to say of itself."""

_ASK_SETTINGS = "SELECT name, setting FROM pg_settings WHERE name = ANY (%s)"

_SIZES = """
SELECT coalesce(sum(pg_table_size(c.oid)), 0)::bigint, coalesce(sum(pg_indexes_size(c.oid)), 0)::bigint
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
"""


@contextmanager
def running(folder: Path | None) -> Iterator[Server]:
    """A server that ends with the block; its files go below `folder`, or where temporary files go."""
    usual = tempfile.tempdir
    tempfile.tempdir = None if folder is None else str(folder)
    try:
        with Server(settings=SETTINGS) as server:
            tempfile.tempdir = usual
            yield server
    finally:
        tempfile.tempdir = usual


def durability_of(connection: psycopg.Connection[Any]) -> dict[str, str]:
    """The settings that decide what a commit of this connection survives."""
    cursor = psycopg.Cursor(connection, row_factory=tuple_row)
    return dict(cursor.execute(_ASK_SETTINGS, [list(DURABLE)]).fetchall())


def sizes(url: str) -> dict[str, int]:
    """Bytes of all tables of a database, their indexes apart: together what pg_total_relation_size says."""
    with psycopg.connect(url) as connection:
        tables, indexes = connection.execute(_SIZES).fetchone() or (0, 0)
    return {"tables": tables, "indexes": indexes}


def vacuum(url: str) -> None:
    """Tidy up, and have the planner know what is there."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")


def log_position(connection: psycopg.Connection[Any]) -> int:
    """Bytes that the server has ever written to its log."""
    cursor = psycopg.Cursor(connection, row_factory=tuple_row)
    ((position,),) = cursor.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint").fetchall()
    return int(position)


def processor_seconds(postmaster: int) -> float:
    """What the processes of the server have used, those that have ended included; 0 where the system does not tell."""
    ticks = 0
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name of a program, in parentheses, may hold anything.
            fields = place.read_text().rpartition(")")[2].split()
            if int(fields[1]) == postmaster:
                ticks += int(fields[11]) + int(fields[12])
            elif place.parent.name == str(postmaster):
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")
