"""A place for the store of a scenario, of each kind that lasts."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What `holdfast.open` and `--store` get."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_place"))
    return str(tmp_path / "store")
