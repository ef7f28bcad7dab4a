"""A store of each kind, and a clock that tests can turn."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.backends.memory import MemoryBackend
from holdfast.backends.postgres import PostgresBackend
from holdfast.backends.sqlite import SqliteBackend
from holdfast.storage.ports import Backend


class Clock:
    """Microseconds that pass only when told to."""

    def __init__(self) -> None:
        self.now = 1_800_000_000_000_000

    def __call__(self) -> int:
        self.now += 1_000
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def backend(request, tmp_path):
    made: Backend
    if request.param == "memory":
        made = MemoryBackend()
    elif request.param == "postgres":
        place = request.getfixturevalue("postgres_store")
        made = PostgresBackend.open(place, durability="process", create=True, timeout=5.0)
    else:
        made = SqliteBackend.open(tmp_path / "store.db", durability="process", create=True, timeout=5.0)
    yield made
    made.close()


@pytest.fixture
def store(backend, clock):
    return holdfast.Store(backend, clock=clock)


@pytest.fixture
def session(store):
    return store.session("s", agent="scout", project="acme")
