"""A folder without any settings, and a way to write some into it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[..., str]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the test works; nobody's own settings count in it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def write(here: Path) -> Write:
    """Writes a settings file, and gives its path as it is shown."""

    def written(text: str | bytes, name: str = "agent.yaml") -> str:
        path = here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return name

    return written
