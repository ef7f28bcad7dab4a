"""The store machine on PostgreSQL: the same rules, and clients that come, die and lose their connections.

Two of the writers share a session through stores of their own, as two machines do: what one remembers of the session
is out of date whenever the other has written. Every call is a round trip or more, so that there are fewer runs.
"""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis.stateful import precondition, rule, run_state_machine_as_test
from tests.property.long_runs import long_runs
from tests.property.test_store_machine import LastingMachine
from tests.services.postgres import cut_connections, drop_schemas

import holdfast
from holdfast.backends.postgres import PostgresBackend

NUMBERS = count(1)


class PostgresMachine(LastingMachine):
    place: str
    """The URL of a database; the test says so, as nobody can hand anything to a machine."""
    other: holdfast.Store | None = None
    """The store of the second writer."""

    def open_backend(self):
        self.schema = f"machine_{next(NUMBERS)}"
        return self.open_schema(create=True)

    def open_schema(self, *, create):
        url = f"{self.place}&schema={self.schema}"
        return PostgresBackend.open(url, durability="process", create=create, timeout=10.0)

    def open_again(self):
        return self.open_schema(create=False)

    def open_store(self):
        self.close_the_other()
        self.other = self.store_on(self.open_schema(create=False))
        return super().open_store()

    def close_the_other(self):
        if self.other is not None:
            self.other.close()

    def store_of(self, writer):
        return self.other if writer == 1 else self.real

    @precondition(lambda self: self.saved)
    @rule()
    def crash(self):
        """The client is gone between two calls, without a word to the server; another one comes."""
        cut_connections(self.backend)
        gone = self.real
        self.come_back()
        gone.close()

    @precondition(lambda self: self.saved)
    @rule()
    def lose_all_connections(self):
        """The same client goes on, with all that its sessions have seen."""
        cut_connections(self.backend)

    def teardown(self):
        try:
            super().teardown()
        finally:
            self.close_the_other()
            drop_schemas(self.place, self.schema)


# In parts, which can run at the same time.
@pytest.mark.parametrize("part", [1, 2])
def test_the_store_does_what_the_model_does(part, postgres_place, monkeypatch, chunks_at_hand):
    chunks_at_hand(20_000 if part == 2 else 0)
    database, _, _ = postgres_place.partition("&schema=")
    monkeypatch.setattr(PostgresMachine, "place", database, raising=False)
    run_state_machine_as_test(PostgresMachine, settings=long_runs(steps=50, share=12))
