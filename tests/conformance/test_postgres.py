"""The PostgreSQL backend, against every sentence of the contract, with both durabilities, on a real server."""

from __future__ import annotations

import psycopg
import pytest

from holdfast.backends.postgres import PostgresBackend
from holdfast.backends.postgres.connecting import Durability
from holdfast.testing.conformance import BackendConformance


class PostgresConformance(BackendConformance):
    durability: Durability

    @pytest.fixture
    def backend(self, postgres_place):
        self.address = postgres_place
        backend = self.open(create=True)
        yield backend
        backend.close()

    def open(self, *, create):
        return PostgresBackend.open(self.address, durability=self.durability, create=create, timeout=10.0)

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


class TestPostgresThatSurvivesPowerCuts(PostgresConformance):
    durability: Durability = "power"


class TestPostgresThatSurvivesItsProcess(PostgresConformance):
    durability: Durability = "process"
