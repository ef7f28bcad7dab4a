"""A folder on a disk: what is here is about what lasts, and looks at how it is written."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """An empty folder, which elsewhere is in memory."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as made:
        yield Path(made).resolve()
