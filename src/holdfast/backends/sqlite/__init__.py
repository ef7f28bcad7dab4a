"""A store in one SQLite file: for one machine, any number of threads and processes.

    backend.py      SqliteBackend: the port, joined from the parts below
    place.py        the file and its folder: made, modes, read-only, network file systems
    connection.py   one connection: checksums, pragmas, waiting for a lock
    creation.py     the empty file becomes a store; an existing one is recognized
    pool.py         connections shared by threads, and none open across a fork
    turns.py        one writer at a time among the threads of a process
    write.py        a batch becomes rows, in one transaction
    adopting.py     rows of another store become rows of this one
    view.py         one read transaction
    read.py         the questions that are asked in it
    query.py        a Query becomes SQL
    chunks.py       the chunk table
    collecting.py   removing chunks that nothing needs
    copying.py      a consistent copy beside running writers
    pages.py        pages and rows decoded without SQLite, for files that it cannot read
    page_files.py   where such pages come from, and which of them are damaged
    tables.py       the rows of all tables, through SQLite or from the pages
    inspection.py   each row judged by its own seal; what is lost, by name
    salvage.py      a new store from what is whole, put in the place of the old one
    errors.py       the driver's errors become ours

`docs/spec/sqlite.md` describes the file itself.
"""

from holdfast.backends.sqlite.backend import SqliteBackend

__all__ = ["SqliteBackend"]
