"""The PostgreSQL backend, against every sentence of the contract, on a real server.

The durability is one setting of its connections (test_postgres_connecting.py), so that one of them is enough here.
"""

from __future__ import annotations

import psycopg
import pytest

from holdfast.backends.postgres import PostgresBackend
from holdfast.testing.kit import BackendConformance


class TestPostgres(BackendConformance):
    @pytest.fixture
    def backend(self, postgres_store):
        self.address = postgres_store
        backend = self.open(create=True)
        yield backend
        backend.close()

    def open(self, *, create):
        return PostgresBackend.open(self.address, durability="power", create=create, timeout=10.0)

    def reopen(self, backend):
        backend.close()
        return self.open(create=False)

    def spoil(self, backend, checkpoint):
        database, _, schema = self.address.partition("&schema=")
        with psycopg.connect(database, options=f"-c search_path={schema}") as connection:
            changed = connection.execute(
                "UPDATE checkpoints SET message = message || '!' WHERE id = %s", [checkpoint]
            )
            assert changed.rowcount == 1
