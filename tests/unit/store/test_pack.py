"""Values as bytes for columns of rows, and the way from a session to its store."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

import holdfast


def test_a_value_comes_back_from_its_bytes() -> None:
    with holdfast.open("memory:") as store:
        value = {"a": (1, {2, 3}), "when": datetime(2026, 1, 2, tzinfo=UTC), "cost": Decimal("1.20")}
        assert store.unpack(store.pack(value)) == value
        assert store.pack(value) == store.pack(dict(value))


def test_what_cannot_be_saved_is_named_by_its_path() -> None:
    with holdfast.open("memory:") as store, pytest.raises(holdfast.InvalidInputError, match="client"):
        store.pack({"client": object()})


def test_a_session_knows_its_store() -> None:
    with holdfast.open("memory:") as store:
        session = store.session("x")
        session.save({})
        assert holdfast.Store.of(session) is store
        assert holdfast.Store.of(session.fork("@", "b")) is store
