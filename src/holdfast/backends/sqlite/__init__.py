"""A store in one SQLite file: for one machine, any number of threads and processes.

    backend.py      SqliteBackend: the port, joined from the parts below
    connection.py   connections: checksums, settings, waiting for a lock, sharing between threads
    files.py        the file and its folder: made, modes, read-only, network file systems
    create.py       an empty file becomes a store; an existing one is recognized
    commit.py       a batch becomes rows, in one transaction
    reader.py       one read transaction, and the questions asked in it
    chunks.py       the chunk table
    lease.py        the table of leases
    extension.py    extension tables
    sql.py          questions in SQL over published views
    gc.py           removing chunks that nothing needs
    backup.py       a consistent copy beside running writers
    repair.py       looking at a damaged file, and putting what is whole in its place
    pages.py        rows found on the pages of a file that SQLite cannot read
    errors.py       the driver's errors become ours

`docs/spec/sqlite.md` describes the file itself.
"""

from holdfast.backends.sqlite.backend import SqliteBackend

__all__ = ["SqliteBackend"]
