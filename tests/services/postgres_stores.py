"""Many empty stores in one PostgreSQL database, for tests that want one and do not care how it was made.

To make a store is some forty statements that define tables, indexes and functions. A database that is the copy of
another has all of them for the price of copying its files.
"""

from __future__ import annotations

import psycopg
from psycopg import sql

from holdfast.backends.postgres.create import build


def make_stores(url: str, number: int) -> None:
    """Make so many stores in a database, in schemas s_0, s_1 ... of it."""
    with psycopg.connect(url) as connection:
        for each in range(number):
            schema = sql.Identifier(f"s_{each}")
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(schema))
            connection.execute(sql.SQL("SET LOCAL search_path = {}").format(schema))
            build(connection)
            connection.commit()
