"""A store in a PostgreSQL database: for any number of machines.

backend.py     PostgresBackend: the port, joined from the parts below
url.py         the URL: what libpq gets of it, what is ours, what may be shown
connection.py  one connection: login and settings; the pool that threads share
schema.sql     the tables and functions of a store
create.py      a schema becomes a store; an existing one is recognized
commit.py      a batch becomes rows, in one round trip
extension.py   rows of extension tables
reader.py      one read transaction, and the questions that are asked in it
chunks.py      the chunk table
gc.py          removing chunks that nothing needs
lease.py       leases
locks.py       keeping everybody out, without holding them up
scrub.py       tables written anew without what was removed
repair.py      looking at damage, and a new store from what is whole
adopt.py       rows of another store, as they are
watch.py       waiting for checkpoints of others
sql.py         SQL questions, as a role that may read views and nothing else
errors.py      the driver's errors become ours
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.backends.postgres.backend import PostgresBackend

__all__ = ["PostgresBackend"]


def __getattr__(name: str) -> Any:
    # The parts are used without the whole by tests and by each other.
    if name == "PostgresBackend":
        from holdfast.backends.postgres.backend import PostgresBackend

        return PostgresBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
