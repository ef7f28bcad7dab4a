"""A store in memory, where a test has no place of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import holdfast


@pytest.fixture
def store() -> Iterator[holdfast.Store]:
    with holdfast.open("memory:") as opened:
        yield opened
