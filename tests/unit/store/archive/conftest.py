"""Stores that archives come to."""

from __future__ import annotations

import pytest

import holdfast


@pytest.fixture
def other():
    """Another store than the one that a file was written from."""
    with holdfast.open("memory:") as made:
        yield made


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def anywhere(request, tmp_path):
    """A store of each kind, as a program opens it."""
    places = {"memory": "memory:", "sqlite": tmp_path / "anywhere.db"}
    place = places.get(request.param) or request.getfixturevalue("postgres_url")
    with holdfast.open(place, durability="process") as made:
        yield made
